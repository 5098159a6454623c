"""Runs tasks on Spark: one Spark task each, which returns its result as bytes.

`range(n).mapInArrow` runs alike on a local session, a cluster and Spark Connect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from lakewright.storage.errors import StorageError
from lakewright.storage.spark.pickling import dumps, loads

Task = TypeVar("Task")
Result = TypeVar("Result")

_RESULT_SCHEMA = "id long, result binary"


@dataclass(frozen=True)
class SparkEngine:
    """Runs tasks on the executors of a session."""

    spark: SparkSession
    name: str = "spark"

    @property
    def may_repeat(self) -> bool:
        return may_repeat(self.spark)

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        if not tasks:
            return []
        payloads = [dumps((function, task)) for task in tasks]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield _result_batch(index, _run_one(payloads[index]))

        count = len(tasks)
        rows = self.spark.range(0, count, 1, count).mapInArrow(run, _RESULT_SCHEMA).collect()
        results: dict[int, Any] = {row["id"]: loads(bytes(row["result"])) for row in rows}
        for index in range(count):
            if isinstance(results[index], StorageError):
                raise results[index]
        return [results[index] for index in range(count)]


def may_repeat(spark: SparkSession) -> bool:
    """Whether Spark may run a task more than once: on a cluster, or with retries."""
    return re.fullmatch(r"local(\[[\d*]+\])?", spark.conf.get("spark.master", "") or "") is None


def _run_one(payload: bytes) -> bytes:
    function, task = loads(payload)
    try:
        result = function(task)
    except StorageError as error:
        # A raised error would reach the driver as text; a returned error keeps its type.
        result = error
    return dumps(result)


def _result_batch(index: int, result: bytes) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array([index], pa.int64()), pa.array([result], pa.binary())], names=["id", "result"]
    )
