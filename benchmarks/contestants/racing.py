"""What is raced on Spark, alike for each table format; standard library and pyspark alone.

A contestant says how its tables are made, changed and kept in `Form`; all that is timed is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from benchmarks.contestants.serving import Outcome, Prepare, Request, Work, nothing_to_check

# The columns beside the key, and the sum that tells a wrong merge.
_SUM = "a"


class Form(Protocol):
    """A table format on Spark; tables are known by their names."""

    def create(
        self, name: str, rows: DataFrame, *, key: str | None, partition: str | None, spread: bool
    ) -> None:
        """Make a table with these rows; spread over one file a task and partition if asked."""

    def upsert(self, name: str, rows: DataFrame, key: str) -> None:
        """Replace the rows of the same keys, and add the others."""

    def frame(self, name: str, where: str | None = None) -> DataFrame:
        """The rows that meet a condition, planned anew."""

    def compact(self, name: str) -> None:
        """Merge everything into full files."""

    def parquet(self, path: str) -> DataFrame:
        """The rows of a Parquet file."""


_OPERATIONS = ("create", "upsert", "aggregate", "all rows", "compact", "plan", "count")


def operations_of(contestant: object) -> dict[str, Prepare]:
    """The operations of a contestant, by their names in requests."""
    return {name: getattr(contestant, name.replace(" ", "_")) for name in _OPERATIONS}


class Race:
    """The operations of one contestant on Spark."""

    def __init__(self, form: Form) -> None:
        self._form = form

    def create(self, request: Request) -> Work:
        rows = self._form.parquet(request["rows"])
        if request.get("tasks"):
            rows = rows.repartition(request["tasks"])
        key, partition = request.get("key"), request.get("partition")
        spread = bool(request.get("tasks"))

        def create() -> None:
            self._form.create(request["name"], rows, key=key, partition=partition, spread=spread)

        return lambda: _done(create)

    def upsert(self, request: Request) -> Work:
        rows = self._form.parquet(request["rows"])
        return lambda: _done(lambda: self._form.upsert(request["name"], rows, request["key"]))

    def compact(self, request: Request) -> Work:
        return lambda: _done(lambda: self._form.compact(request["name"]))

    def aggregate(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            rows = self._form.frame(request["name"])
            others = [f.max(name) for name in rows.columns if name != _SUM]
            found: Any = rows.agg(f.count(f.lit(1)), f.sum(_SUM), *others).collect()[0]
            return lambda: (int(found[0]), float(found[1]))

        return work

    def all_rows(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            rows = self._form.frame(request["name"])
            # Delta cannot write to a sink that discards rows.
            count = int(rows._jdf.queryExecution().toRdd().count())  # noqa: SLF001 - not public
            return lambda: (count, None)

        return work

    def plan(self, request: Request) -> Work:
        """From the call to Spark's tasks."""

        def work() -> Callable[[], Outcome]:
            rows = self._form.frame(request["name"], request.get("where"))
            count = int(rows._jdf.queryExecution().toRdd().getNumPartitions())  # noqa: SLF001 - not public
            return lambda: (None, None) if count else (0, None)

        return work

    def count(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            count = self._form.frame(request["name"], request.get("where")).count()
            return lambda: (count, None)

        return work


def _done(call: Callable[[], None]) -> Callable[[], Outcome]:
    call()
    return nothing_to_check
