"""Runs tasks on Spark: one Spark task each, which returns its result as bytes.

`range(n).mapInArrow` runs alike on a local session, a cluster and Spark Connect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from threading import Event
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.running.engine import TaskCounts
from lakewright.storage.operations.running.work_name import work_name
from lakewright.storage.spark.pickling import dumps, loads
from lakewright.storage.spark.task_progress import tasks_told
from lakewright.storage.spark.told_actions import WRITTEN_SCHEMA, named, observed, written_by

Task = TypeVar("Task")
Result = TypeVar("Result")

_RESULT_SCHEMA = f"id long, result binary, attempt int, {WRITTEN_SCHEMA}"


@dataclass(frozen=True)
class SparkEngine:
    """Runs tasks on the executors of a session, and tells `counts` how many are done."""

    spark: SparkSession
    name: str = "spark"
    counts: TaskCounts | None = None
    env: Env = field(default_factory=SystemEnv)
    _tried_again: Event = field(default_factory=Event, init=False, repr=False, compare=False)

    @property
    def may_repeat(self) -> bool:
        """Whether a task so far may have run more than once: it failed before, or ran twice."""
        return self._tried_again.is_set() or runs_twice(self.spark)

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        if not tasks:
            return []
        payloads = [dumps((function, task)) for task in tasks]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield _result_batch(index, _run_one(payloads[index]))

        count, name = len(tasks), work_name("lakewright tasks")
        frame = self.spark.range(0, count, 1, count).mapInArrow(run, _RESULT_SCHEMA)
        with self._told(count), named(self.spark, name):
            rows = observed(frame, name).collect()
        if any(row["attempt"] for row in rows):
            self._tried_again.set()
        results: dict[int, Any] = {row["id"]: loads(bytes(row["result"])) for row in rows}
        for index in range(count):
            if isinstance(results[index], StorageError):
                raise results[index]
        return [results[index] for index in range(count)]

    def _told(self, count: int) -> AbstractContextManager[None]:
        if self.counts is None:
            return nullcontext()
        tag = f"lakewright tasks {self.env.new_id()}"
        return tasks_told(self.spark, tag, count, self.counts)


def may_retry(spark: SparkSession) -> bool:
    """Whether Spark may try a task again after it failed: on a cluster, or with retries."""
    return re.fullmatch(r"local(\[[\d*]+\])?", spark.conf.get("spark.master", None) or "") is None


def runs_twice(spark: SparkSession) -> bool:
    """Whether Spark may run a task twice at a time, and does not tell of the one that is late."""
    return (spark.conf.get("spark.speculation", None) or "").lower() == "true" and may_retry(spark)


def attempt() -> int:
    """How often Spark tried the calling task before, in the present attempt of its stage."""
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _run_one(payload: bytes) -> Any:
    function, task = loads(payload)
    try:
        return function(task)
    except StorageError as error:
        # A raised error would reach the driver as text; a returned error keeps its type.
        return error


def _result_batch(index: int, result: Any) -> pa.RecordBatch:
    rows, size = written_by(result)
    return pa.record_batch(
        [
            pa.array([index], pa.int64()),
            pa.array([dumps(result)], pa.binary()),
            pa.array([attempt()], pa.int32()),
            pa.array([rows], pa.int64()),
            pa.array([size], pa.int64()),
        ],
        names=["id", "result", "attempt", "rows", "bytes"],
    )
