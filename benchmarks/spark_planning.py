"""Plans and reads of many small files in Spark: `python -m benchmarks.spark_planning 500 5000`.

A table has so many files of a hundred rows, a hundred of them in a partition. A line of JSON for
each count and reader: seconds and CPU seconds from the call to the plan of Spark, and for the sum
of a column. `ours` reads packed splits in Arrow tasks, `native` is Spark's own reader, and `listed
file by file` the same in a session that lists each path in a task.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.measure import measured
from lakewright.storage import Catalog, Table
from lakewright.storage.spark import build_session, read
from lakewright.storage.spec.commit import CommitMessage

_ROWS_A_FILE, _FILES_A_PARTITION = 100, 100
_MOST_READ = 10_000
_SMALL = read.SMALL_FILE_BYTES
_TASKS = read.LISTING_TASKS


def make_table(files: int, folder: str) -> Table:
    """A table of so many files, those of a partition being one under many names."""
    table = Catalog.open(folder).create_table(
        "bench.small",
        {"day": "INT", "id": "BIGINT", "note": "STRING"},
        partition_keys=["day"],
    )
    days = np.repeat(np.arange(files // _FILES_A_PARTITION, dtype=np.int32), _ROWS_A_FILE)
    ids = np.arange(len(days))
    notes = [f"note {number}" for number in ids]
    staged = table.stage(pa.table({"day": days, "id": ids, "note": notes}), grouped=True)
    messages = tuple(_many(table, each) for each in staged.messages)
    table.commit(replace(staged, messages=messages))
    return table


def _many(table: Table, message: CommitMessage) -> CommitMessage:
    folder, (file,) = table.table_files.bucket_dir(message.place), message.new_files
    named = [file]
    for number in range(1, _FILES_A_PARTITION):
        named.append(replace(file, file_name=f"data-{number}-{file.file_name}"))
        os.link(f"{folder}/{file.file_name}", f"{folder}/{named[-1].file_name}")
    return replace(message, new_files=tuple(named))


def measure(spark: SparkSession, table: Table, files: int, reader: str) -> dict[str, object]:
    """One plan, and one read where there are not too many files for a read that is the slower."""
    read.SMALL_FILE_BYTES = _SMALL if reader == "ours" else 0
    read.LISTING_TASKS = 10_000 if reader == "listed file by file" else _TASKS
    spark.conf.set(read.LISTING_OPTION, "10000")
    frame, plan = measured(lambda: table.scan().to_spark(spark))
    figures: dict[str, object] = {"files": files, "reader": reader, **_shown("plan", plan)}
    if files <= _MOST_READ:
        total, run = measured(lambda: frame.selectExpr("sum(id)").collect()[0][0])
        assert total == table.read(columns=["id"])["id"].to_numpy().sum()
        figures |= _shown("read", run)
    return figures


def _shown(name: str, taken: dict[str, float]) -> dict[str, float]:
    return {f"{name}_{key}": round(taken[key], 2) for key in ("seconds", "cpu_seconds")}


def main() -> None:
    """Measure each count."""
    spark = build_session("spark-planning", master="local[2]")
    for count in map(int, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder:
            table = make_table(count, folder)
            table.scan("day = 0").to_spark(spark).count()
            readers = ["ours", "native", "listed file by file"]
            for reader in readers if count <= _MOST_READ else readers[:2]:
                line = json.dumps(measure(spark, table, count, reader))
                sys.stdout.write(line + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
