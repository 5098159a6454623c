"""Spark in one session: Lakewright's tasks, a plain scan, and the same work by hand.

By hand means what a user of plain Parquet would write: a window over the key that keeps
the newest row. `spark-window` reads the same files as the others, so key columns, sequence
numbers and row kinds are there for it; it returns, or writes, the table's own columns.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from benchmarks.contestants.serving import (
    Outcome,
    Request,
    Work,
    nothing_to_check,
    serve,
    where,
)
from lakewright.storage import Catalog, Table
from lakewright.storage.spark import SparkEngine, build_session

SESSION_CONF = {
    "spark.driver.memory": "6g",
    # As the tables' files are written.
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
}
_KEPT_KINDS = (0, 2)


class OnSpark:
    """The operations of every contestant that lives in this session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def read(self, request: Request) -> Work:
        """Read rows into a sink that discards them."""
        return self._working(request, _into_nothing)

    def aggregate(self, request: Request) -> Work:
        """Read rows into an aggregate over every column."""
        return self._working(request, lambda rows: _aggregated(rows, request))

    def compact(self, request: Request) -> Work:
        """Compact the table."""
        if request["contestant"] == "lakewright-spark":
            return lambda: _compacted(_table(request), self._spark)
        if request["contestant"] == "spark-window":
            return self._working(request, lambda rows: _written(rows, request))
        raise ValueError(f"{request['contestant']} does not compact")

    def _working(
        self, request: Request, sink: Callable[[DataFrame], Callable[[], Outcome]]
    ) -> Work:
        source = {
            "lakewright-spark": self._of_table,
            "spark-scan": self._scanned,
            "spark-window": self._merged_by_hand,
        }[request["contestant"]]
        return lambda: sink(source(request))

    def _of_table(self, request: Request) -> DataFrame:
        return _table(request).to_spark(self._spark, where(request), request.get("select"))

    def _scanned(self, request: Request) -> DataFrame:
        rows = self._files(request)
        condition = where(request)
        rows = rows if condition is None else rows.filter(condition)
        columns: list[str] = request.get("select") or request["columns"]
        return rows.select(*columns)

    def _merged_by_hand(self, request: Request) -> DataFrame:
        order = [f.col(name).desc() for name in (*request["sequence_fields"], "_SEQUENCE_NUMBER")]
        window = Window.partitionBy(*request["keys"]).orderBy(*order)
        newest = self._files(request).withColumn("_place", f.row_number().over(window))
        kept = newest.filter((f.col("_place") == 1) & f.col("_VALUE_KIND").isin(*_KEPT_KINDS))
        return kept.select(*request["columns"])

    def _files(self, request: Request) -> DataFrame:
        paths = [path for bucket in request["files"] for path in bucket]
        return self._spark.read.option("recursiveFileLookup", "true").parquet(*paths)


def _into_nothing(rows: DataFrame) -> Callable[[], Outcome]:
    rows.write.format("noop").mode("overwrite").save()
    return nothing_to_check


def _aggregated(rows: DataFrame, request: Request) -> Callable[[], Outcome]:
    others = [f.max(name) for name in request["columns"] if name != request["checksum"]]
    (found,) = rows.agg(f.count(f.lit(1)), f.sum(request["checksum"]), *others).collect()
    count: Any = found[0]
    total: Any = found[1]
    # A scan merges nothing, so its rows differ from the table's.
    merged = request["contestant"] != "spark-scan"
    return lambda: (count, float(total or 0)) if merged else (count, None)


def _written(rows: DataFrame, request: Request) -> Callable[[], Outcome]:
    target = Path(request["scratch"]) / "by-hand"
    shutil.rmtree(target, ignore_errors=True)
    rows.write.parquet(str(target))
    return nothing_to_check


def _compacted(table: Table, spark: SparkSession) -> Callable[[], Outcome]:
    result = table.upkeep.run(table.upkeep.plan_compact(full=True), SparkEngine(spark))
    return lambda: (result.rows_after, None)


def _table(request: Request) -> Table:
    return Catalog.open(request["warehouse"]).table(request["table"])


def main() -> None:
    """Serve."""
    work = OnSpark(build_session("benchmarks", conf=SESSION_CONF))
    serve({"read": work.read, "aggregate": work.aggregate, "compact": work.compact})


if __name__ == "__main__":
    main()
