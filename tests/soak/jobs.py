"""The soak's jobs of other engines, each the main program of a process that is killed.

`python -m tests.soak.jobs flink|spark WAREHOUSE TABLE FOLDER [FLINK]` writes rows of the model, one
after the other, and goes on from its checkpoint in the folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lakewright.storage.spark.session import build_session
from tests.flink.flink_sql import FlinkSql
from tests.soak.model import BY_NAME, DAYS, ROWS

FLINK_SECONDS, SPARK_SECONDS = 5, 3
# Enough for three hours; the source holds all its numbers in memory.
_ROWS_PER_SECOND, _MOST_ROWS = ROWS // 2, 300_000
_MEMORY = "512m"


def _columns(table: str, number: str) -> dict[str, str]:
    """The columns of the row with a number, as the model has them, in SQL of both engines."""
    kind = BY_NAME[table.removeprefix("soak.")]
    each = f"mod({number}, {kind.keys})" if kind.keyed else number
    batch, at = f"(({number} - mod({number}, {ROWS})) / {ROWS})", f"mod({number}, {ROWS})"
    batch = f"CAST({batch} AS BIGINT)"
    return {
        "day": f"concat('2026-01-0', CAST(1 + mod({each}, {DAYS}) AS STRING))",
        "w": "0",
        "id": each,
        "n": batch,
        "a": batch,
        "b": f"{batch} * {at}",
    }


def flink(warehouse: str, table: str, folder: str, jars: str) -> None:
    """Become Flink: a job that counts, with a checkpoint each few seconds."""
    work = Path(folder)
    held = work / "checkpoints"
    found = sorted(held.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
    settings = {
        "execution.checkpointing.interval": f"{FLINK_SECONDS} s",
        "execution.checkpointing.dir": f"file://{held}",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        # A disk that is full for a while ends no job.
        "execution.checkpointing.tolerable-failed-checkpoints": "1000",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "5 s",
        # One task, so that what was written is all rows up to one.
        "parallelism.default": "1",
        "taskmanager.memory.managed.size": "64m",
        "taskmanager.memory.network.min": "32m",
        "taskmanager.memory.network.max": "32m",
        **({"execution.state-recovery.path": f"file://{found[-1].parent}"} if found else {}),
    }
    statements = f"""
        CREATE TEMPORARY TABLE numbers (s BIGINT) WITH (
          'connector' = 'datagen', 'fields.s.kind' = 'sequence', 'fields.s.start' = '0',
          'fields.s.end' = '{_MOST_ROWS}', 'rows-per-second' = '{_ROWS_PER_SECOND}');
        INSERT INTO {table} SELECT {", ".join(_columns(table, "s").values())} FROM numbers;
    """
    made = FlinkSql(Path(jars), warehouse, work, memory=_MEMORY)
    command, environment = made.command(statements, settings, "job")
    os.execvpe(command[0], command, environment)


def spark(warehouse: str, table: str, folder: str) -> None:
    """A stream of Spark that counts, each batch of which is a commit."""
    conf = {"spark.driver.memory": _MEMORY, "spark.sql.shuffle.partitions": "1"}
    session = build_session("soak", master="local[1]", conf=conf)
    rows = (
        session.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS)
        .option("numPartitions", 1)
        .load()
        .selectExpr(*(f"{text} AS {name}" for name, text in _columns(table, "value").items()))
    )
    options = {"warehouse": warehouse, "table": table, "checkpointLocation": f"{folder}/checkpoint"}
    writer = rows.writeStream.format("lakewright").outputMode("append").options(**options)
    writer.trigger(processingTime=f"{SPARK_SECONDS} seconds").start().awaitTermination()


if __name__ == "__main__":
    if sys.argv[1] == "flink":
        flink(*sys.argv[2:])
    else:
        spark(*sys.argv[2:])
