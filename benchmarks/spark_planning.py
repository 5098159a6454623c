"""Plans and reads of many files in Spark: `python -m benchmarks.spark_planning 500 5000`.

A table has so many files of a hundred rows, or with `--large` of 1 MiB, a hundred of them in a
partition. Lines of JSON for each count and reader: seconds and CPU seconds from the call to a
DataFrame (`plan`), from there to Spark's tasks (`tasks`), and of small files for the sum of a
column (`read`); the first time in the session, and the median of the times after it.

`handed` is Spark's own reader, which is told the files; `listed` is the same where Spark lists
them, as it does behind Spark Connect; `packed` reads packed splits in Arrow tasks. With `--jars`,
Java Paimon (paimon-bundle) and Iceberg (iceberg-spark-runtime) plan the same files.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.contestants import planners_on_spark as peers
from benchmarks.measure import measured
from lakewright.storage import Catalog, Table
from lakewright.storage.spark import build_session, planned_files, read
from lakewright.storage.spec.commit import CommitMessage

_NAME = "bench.files"
_ROWS_A_FILE, _FILES_A_PARTITION = 100, 100
# 1.1 MiB as they are stored: eight bytes for each row.
_ROWS_OF_LARGE = 144_000
_MOST_READ = 10_000
_MOST_LISTED = 10_000
_TIMES = 3

Reader = Callable[[], DataFrame]


def make_table(files: int, folder: str, *, large: bool) -> Table:
    """A table of so many files, those of a partition being one under many names."""
    table = Catalog.open(folder).create_table(
        _NAME, {"day": "INT", "id": "BIGINT", "note": "STRING"}, partition_keys=["day"]
    )
    days = np.repeat(np.arange(files // _FILES_A_PARTITION, dtype=np.int32), _ROWS_A_FILE)
    ids = np.arange(len(days))
    notes = [f"note {number}" for number in ids]
    staged = table.stage(pa.table({"day": days, "id": ids, "note": notes}), grouped=True)
    content = _large_file(folder) if large else None
    messages = tuple(_many(table, each, content) for each in staged.messages)
    table.commit(replace(staged, messages=messages))
    return table


def _large_file(folder: str) -> str:
    """A file for all names of all partitions: plans do not look into it."""
    path = f"{folder}/large.parquet"
    ids = np.random.default_rng(0).integers(0, 2**36, _ROWS_OF_LARGE)
    days, notes = np.zeros(len(ids), np.int32), ["note"] * len(ids)
    large = pa.table({"day": days, "id": ids, "note": notes})
    pq.write_table(large, path, compression="none", use_dictionary=["day", "note"])
    return path


def _many(table: Table, message: CommitMessage, content: str | None) -> CommitMessage:
    folder, (file,) = table.table_files.bucket_dir(message.place), message.new_files
    first = f"{folder}/{file.file_name}"
    if content is not None:
        Path(first).unlink()
        os.link(content, first)
        file = replace(file, file_size=Path(first).stat().st_size, row_count=_ROWS_OF_LARGE)
    named = [file]
    for number in range(1, _FILES_A_PARTITION):
        named.append(replace(file, file_name=f"data-{number}-{file.file_name}"))
        os.link(first, f"{folder}/{named[-1].file_name}")
    return replace(message, new_files=tuple(named))


def own_readers(spark: SparkSession, folder: str, files: int, *, large: bool) -> dict[str, Reader]:
    """Reads of a table that is opened anew, each with what it changes in our reader."""
    own, limit = planned_files.takes_planned_files, read.SMALL_FILE_BYTES

    def reading(takes: Callable[..., bool], small: int) -> Reader:
        def frame() -> DataFrame:
            read.takes_planned_files, read.SMALL_FILE_BYTES = takes, small
            return Catalog.open(folder).table(_NAME).scan().to_spark(spark)

        return frame

    found = {"handed": reading(own, 0)}
    if files <= _MOST_LISTED:
        found["listed"] = reading(lambda *_: False, 0)
    if not large:
        found["packed"] = reading(own, limit)
    return found


def tasks_of(frame: DataFrame) -> int:
    """The tasks of a query, planned as for its execution."""
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())  # noqa: SLF001 - not public


def measure(reader: Reader, expected: int | None) -> dict[str, object]:
    """Plans several times, and one read if its sum is known."""
    taken: dict[str, list[dict[str, Any]]] = {"plan": [], "tasks": []}
    for _ in range(_TIMES):
        frame, plan = measured(reader)
        _, tasks = measured(lambda frame=frame: tasks_of(frame))  # type: ignore[misc]
        taken["plan"].append(plan)
        taken["tasks"].append(tasks)
    figures = _figures(taken)
    if expected is not None:
        total, run = measured(lambda: frame.selectExpr("sum(id)").collect()[0][0])
        assert total == expected
        figures |= {f"read_{key}": round(run[key], 2) for key in ("seconds", "cpu_seconds")}
    return figures


def _figures(taken: dict[str, list[dict[str, Any]]]) -> dict[str, object]:
    figures: dict[str, object] = {}
    for name, times in taken.items():
        for key in ("seconds", "cpu_seconds"):
            values = [each[key] for each in times]
            figures[f"{name}_{key}"] = round(statistics.median(values[1:]), 2)
            figures[f"first_{name}_{key}"] = round(values[0], 2)
    return figures


def measure_splits(plan: Callable[[], int]) -> dict[str, object]:
    """Plans that end before Spark."""
    times = [measured(plan)[1] for _ in range(_TIMES)]
    return _figures({"plan": times})


def measure_peers(
    spark: SparkSession, table: Table, folder: str, name: str, jars: str
) -> dict[str, dict[str, object]]:
    """Plans of the others, for which there are jars."""
    found: dict[str, dict[str, object]] = {}
    if "paimon-bundle" in jars:
        found["Java Paimon, splits alone"] = measure_splits(
            lambda: peers.java_paimon_splits(spark, folder, _NAME)
        )
    if "iceberg-spark" in jars:
        files = table.table_files
        size = 0
        paths: dict[str, list[str]] = {}
        for split in table.scan().splits:
            below = paths.setdefault(files.partitions.of_row(split.partition, None).path, [])
            for file in split.files:
                below.append(files.readable_path(split.place, file))
                size = file.file_size
        peers.make_iceberg_table(spark, f"{folder}/..", name, paths, size)
        found["Iceberg"] = measure(lambda: peers.iceberg_frame(spark, name), None)
    return found


def main() -> None:
    """Measure each count."""
    parser = argparse.ArgumentParser(description="plans of many files in Spark")
    parser.add_argument("counts", nargs="+", type=int, help="hundreds of files")
    parser.add_argument("--large", action="store_true", help="files of 1 MiB")
    parser.add_argument("--jars", nargs="*", type=Path, default=[], help="jars of the others")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        spark = build_session(
            "spark-planning", master="local[2]", conf=peers.settings(arguments.jars, base)
        )
        for count in arguments.counts:
            folder = f"{base}/w{count}"
            table = make_table(count, folder, large=arguments.large)
            table.scan("day = 0").to_spark(spark).count()
            expected = None
            if count <= _MOST_READ and not arguments.large:
                expected = int(table.read(columns=["id"])["id"].to_numpy().sum())
            own = own_readers(spark, folder, count, large=arguments.large)
            for name, reader in own.items():
                show(count, name, measure(reader, expected))
            others = measure_peers(spark, table, folder, f"n{count}.t", str(arguments.jars))
            for name, figures in others.items():
                show(count, name, figures)


def show(files: int, reader: str, figures: dict[str, object]) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps({"files": files, "reader": reader, **figures}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
