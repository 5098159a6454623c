"""A Spark application of its own, of which a test kills parts: what to do, warehouse, notes.

Executors are processes of their own (`local-cluster`). Rows and tasks take their time, and note
down that they have begun, so that there is a middle to be killed in.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from lakewright.storage import Catalog
from lakewright.storage.operations.running.engine import Result, Task
from lakewright.storage.spark import SparkEngine, build_session

ROWS, TASKS = 2000, 4


def main(verb: str, warehouse: str, notes: str) -> None:
    table = Catalog.open(warehouse).table("db.t")
    conf = {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "1g",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(TASKS),
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
    }
    spark = build_session("lakewright-kills", master="local-cluster[2,1,1024]", conf=conf)
    begun_ms = time.time()
    if verb == "write":
        frame = slow_rows(spark, notes)
        staged = table.stage(frame, commit_user="spark", commit_identifier=1)
        result = table.commit(staged)
        answer: dict[str, Any] = {"already_committed": result.already_committed}
    else:
        plan = table.upkeep.plan_compact(full=True)
        done = table.upkeep.run(plan, Slow(SparkEngine(spark), notes))
        answer = {"files_before": done.files_before, "files_after": done.files_after}
    answer["seconds"] = round(time.time() - begun_ms, 1)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    spark.stop()


def slow_rows(spark: SparkSession, notes: str) -> Any:
    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            note(notes)
            time.sleep(0.3)
            number = batch.column(0)
            day = pa.array([f"d{each % 2}" for each in number.to_pylist()])
            yield pa.record_batch([number, day], names=["id", "day"])

    return spark.range(0, ROWS, 1, TASKS).mapInArrow(slowly, "id long, day string")


@dataclass(frozen=True)
class Slow:
    """An engine whose tasks take a while after they are done, so that some are done twice."""

    inner: SparkEngine
    notes: str
    name: str = "slow"

    @property
    def may_repeat(self) -> bool:
        return self.inner.may_repeat

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        notes = self.notes

        def slowly(task: Task) -> Result:
            result = function(task)
            note(notes)
            time.sleep(3)
            return result

        return self.inner.map(slowly, tasks)


def note(folder: str) -> None:
    """Say that this process works on something."""
    Path(folder, f"working-{os.getpid()}-{time.time_ns()}").touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
