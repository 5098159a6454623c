"""Lakewright in the race: on Spark, or in one process that has no Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from benchmarks.contestants.racing import Race, operations_of
from benchmarks.contestants.serving import Outcome, Request, Work, nothing_to_check, serve
from lakewright.storage import Catalog, Table
from lakewright.storage.spark import SparkEngine, build_session

# As the tables of the peers are written.
_MEMORY = {"spark.driver.memory": "4g"}


class Tables:
    """The tables of a warehouse."""

    def __init__(self, warehouse: str) -> None:
        self._catalog = Catalog.open(warehouse)

    def made(self, request: Request, schema: Any) -> Table:
        """A new table."""
        key, partition = request.get("key"), request.get("partition")
        return self._catalog.create_table(
            f"race.{request['name']}",
            schema,
            primary_keys=[key] if key else [],
            partition_keys=[partition] if partition else [],
            options={"bucket": "2"} if key else {},
        )

    def opened(self, name: str) -> Table:
        """A table, opened anew."""
        return self._catalog.table(f"race.{name}")


class OnSpark:
    """Implements `Form`."""

    def __init__(self, warehouse: str) -> None:
        self._tables = Tables(warehouse)
        self._spark = build_session("race", master="local[2]", conf=_MEMORY)

    def create(
        self, name: str, rows: DataFrame, *, key: str | None, partition: str | None, spread: bool
    ) -> None:
        request = {"name": name, "key": key, "partition": partition}
        table = self._tables.made(request, to_arrow_schema(rows.schema))
        if not (spread and partition):
            table.write(rows)
            return
        # A write makes one file a partition, whatever the number of tasks.
        for task in range(rows.rdd.getNumPartitions()):
            table.write(rows.where(f.spark_partition_id() == task))

    def upsert(self, name: str, rows: DataFrame, key: str) -> None:
        self._tables.opened(name).write(rows)

    def frame(self, name: str, where: str | None = None) -> DataFrame:
        return self._tables.opened(name).to_spark(self._spark, where)

    def compact(self, name: str) -> None:
        table = self._tables.opened(name)
        table.upkeep.run(table.upkeep.plan_compact(full=True), SparkEngine(self._spark))

    def parquet(self, path: str) -> DataFrame:
        return self._spark.read.parquet(path)


class InProcess:
    """The same work by Arrow, in this process."""

    def __init__(self, warehouse: str) -> None:
        self._tables = Tables(warehouse)

    def create(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            rows = pq.read_table(request["rows"], partitioning=None)
            table = self._tables.made(request, rows.schema)
            tasks = request.get("tasks") or 1
            for number in range(tasks):
                table.write(rows.take(list(range(number, rows.num_rows, tasks))))
            return nothing_to_check

        return work

    def upsert(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            table = self._tables.opened(request["name"])
            table.write(pq.read_table(request["rows"], partitioning=None))
            return nothing_to_check

        return work

    def aggregate(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            rows = self._tables.opened(request["name"]).read()
            others = [(name, "max") for name in rows.column_names if name != "a"]
            found = rows.group_by([]).aggregate([("a", "sum"), *others]).to_pylist()[0]
            return lambda: (rows.num_rows, float(found["a_sum"]))

        return work

    def all_rows(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            count = self._tables.opened(request["name"]).read().num_rows
            return lambda: (count, None)

        return work

    def compact(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            table = self._tables.opened(request["name"])
            table.upkeep.run(table.upkeep.plan_compact(full=True))
            return nothing_to_check

        return work

    def plan(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            scan = self._tables.opened(request["name"]).scan(request.get("where"))
            count = len(scan.splits)
            return lambda: (None, None) if count else (0, None)

        return work

    def count(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            table = self._tables.opened(request["name"])
            count = table.read(request.get("where"), columns=["a"]).num_rows
            return lambda: (count, None)

        return work


def main() -> None:
    """Serve: FOLDER spark|arrow."""
    folder, how = sys.argv[1:]
    contestant = Race(OnSpark(folder)) if how == "spark" else InProcess(folder)
    serve(operations_of(contestant))


if __name__ == "__main__":
    main()
