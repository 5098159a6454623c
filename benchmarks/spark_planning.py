"""Plans and reads of many files in Spark: `python -m benchmarks.spark_planning 500 5000`.

A table has so many files of a hundred rows, or with `--large` of 1 MiB, a hundred of them in a
partition. Lines of JSON for each count and reader: seconds and CPU seconds from the call to a
DataFrame (`plan`), from there to Spark's tasks (`tasks`), and of small files for the sum of a
column (`read`); the first time in the session, and the mean of the times after it, in which the
readers take turns.

`handed` is Spark's own reader, which is told the files: the route of files of 1 MiB and more.
`packed` reads packed splits in Arrow tasks, the route of many smaller files. `listed` is Spark's
reader where it lists the files, as it does behind Spark Connect. `floor` hands Spark a list of
paths that exists before, and plans nothing. With `--jars`, Java Paimon (paimon-bundle) plans the
same files. With `--lakehouses`, so do Iceberg and Delta, each in a process with a JVM and a Spark
of its own, for which they have connectors: `benchmarks/spark-lakehouses.lock`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.contestants import planners_on_spark as peers
from benchmarks.measure import measured
from benchmarks.processes import ROOT, ContestantProcess, spark_lakehouses
from lakewright.storage import Catalog, Table
from lakewright.storage.operations.read.split_columns import split_columns
from lakewright.storage.spark import build_session, planned_files, read
from lakewright.storage.spark.spark_types import to_spark_schema
from lakewright.storage.spec.commit import CommitMessage

_NAME = "bench.files"
_ROWS_A_FILE, _FILES_A_PARTITION = 100, 100
# 1.1 MiB as they are stored: eight bytes for each row.
_ROWS_OF_LARGE = 144_000
_MOST_READ = 10_000
_MOST_LISTED = 10_000
# A clock tick of CPU time is 10 ms, which is a third of a short plan.
_TIMES = 11
# For readers that take seconds.
_TIMES_OF_SLOW = 3
_JAVA_PAIMON, _JAR = "Java Paimon, splits alone", "paimon-bundle"
_LAKEHOUSES = {"iceberg": "Iceberg on Spark 4.1", "delta": "Delta on Spark 4.1"}
_LAKEHOUSE_SECONDS = 1800

Reader = Callable[[], DataFrame]
Times = dict[str, Any]


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
    own, limit = planned_files.handed_base, read.SMALL_FILE_BYTES

    def reading(base: Callable[..., str | None], small: int) -> Reader:
        def frame() -> DataFrame:
            read.handed_base, read.SMALL_FILE_BYTES = base, small
            return Catalog.open(folder).table(_NAME).scan().to_spark(spark)

        return frame

    found = {"handed": reading(own, 0)}
    if files <= _MOST_LISTED:
        found["listed"] = reading(lambda *_: None, 0)
    if not large:
        found["packed"] = reading(own, limit)
    found["floor"] = _floor(spark, folder)
    return found


def _floor(spark: SparkSession, folder: str) -> Reader:
    """Spark is handed paths that are known."""
    scan = Catalog.open(folder).table(_NAME).scan()
    columns = split_columns(scan.splits)
    found = columns.folders(scan.table_files, np.arange(len(columns)))
    schema = to_spark_schema(scan.table_files.schema.fields)
    return lambda: planned_files.planned_dataframe(spark, scan.reader, schema, found, "file:")


def tasks_of(frame: DataFrame) -> int:
    """The tasks of a query, planned as for its execution."""
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())  # noqa: SLF001 - not public


class Measured:
    """The times of one reader."""

    def __init__(self, once: Callable[[], Mapping[str, Times]], times: int) -> None:
        self._once = once
        self._times = times
        self._taken: list[Mapping[str, Times]] = []

    def once(self) -> None:
        """One plan; nothing after enough of them."""
        if len(self._taken) < self._times:
            self._taken.append(self._once())

    def figures(self) -> dict[str, object]:
        """The first times, and the means of those after it."""
        found: dict[str, object] = {}
        for name in self._taken[0]:
            for key in ("seconds", "cpu_seconds"):
                values = [each[name][key] for each in self._taken]
                found[f"{name}_{key}"] = round(statistics.mean(values[1:]), 3)
                found[f"first_{name}_{key}"] = round(values[0], 3)
        return found


def planned_and_tasks(reader: Reader) -> Callable[[], Mapping[str, Times]]:
    """From the call to a DataFrame, and from there to Spark's tasks."""

    def once() -> Mapping[str, Times]:
        frame, plan = measured(reader)
        return {"plan": plan, "tasks": measured(lambda: tasks_of(frame))[1]}

    return once


def planned_by_java(spark: SparkSession, folder: str) -> Callable[[], Mapping[str, Times]]:
    """A plan up to splits, in the JVM of our session."""
    return lambda: {"plan": measured(lambda: peers.java_paimon_splits(spark, folder, _NAME))[1]}


def planned_by(
    peer: ContestantProcess, form: str, table: Table
) -> Callable[[], Mapping[str, Times]]:
    """The same of a client in its own process, over the same files."""
    name = f"{form}_{len(table.scan().splits)}"
    ask = partial(peer.ask, timeout_seconds=_LAKEHOUSE_SECONDS)
    ask({"operation": "make", "form": form, "name": name, **files_of(table)})

    def once() -> Mapping[str, Times]:
        return {
            step: ask({"operation": step, "form": form, "name": name}) for step in ("plan", "tasks")
        }

    return once


def files_of(table: Table) -> dict[str, Any]:
    """The paths of a table's files by the folder of their partition, and the size of each."""
    files = table.table_files
    size = 0
    paths: dict[str, list[str]] = {}
    for split in table.scan().splits:
        below = paths.setdefault(files.partitions.of_row(split.partition, None).path, [])
        for file in split.files:
            below.append(files.readable_path(split.place, file))
            size = file.file_size
    return {"files": paths, "size": size}


def read_sum(frame: DataFrame, expected: int) -> dict[str, object]:
    """What a read takes, whose sum is known."""
    total, run = measured(lambda: frame.selectExpr("sum(id)").collect()[0][0])
    assert total == expected
    return {f"read_{key}": round(run[key], 2) for key in ("seconds", "cpu_seconds")}


@dataclass(frozen=True)
class Session:
    """Where the readers run: our session, and the process of others if it was asked for."""

    spark: SparkSession
    has_java: bool
    peer: ContestantProcess | None

    def measure(self, folder: str, count: int, *, large: bool) -> None:
        """Measure all readers of a table, by turns."""
        spark = self.spark
        table = make_table(count, folder, large=large)
        table.scan("day = 0").to_spark(spark).count()
        own = own_readers(spark, folder, count, large=large)
        readers = {
            name: Measured(
                planned_and_tasks(reader), _TIMES_OF_SLOW if name == "listed" else _TIMES
            )
            for name, reader in own.items()
        }
        if self.has_java:
            readers[_JAVA_PAIMON] = Measured(planned_by_java(spark, folder), _TIMES)
        for form, title in _LAKEHOUSES.items() if self.peer else ():
            assert self.peer is not None
            readers[title] = Measured(planned_by(self.peer, form, table), _TIMES)
        for _ in range(_TIMES):
            for reader in readers.values():
                reader.once()
        expected = None
        if count <= _MOST_READ and not large:
            expected = int(table.read(columns=["id"])["id"].to_numpy().sum())
        for name, reader in readers.items():
            figures = reader.figures()
            if expected is not None and name in own:
                figures |= read_sum(own[name](), expected)
            show(count, name, figures)


def main() -> None:
    """Measure each count."""
    parser = argparse.ArgumentParser(description="plans of many files in Spark")
    parser.add_argument("counts", nargs="+", type=int, help="hundreds of files")
    parser.add_argument("--large", action="store_true", help="files of 1 MiB")
    parser.add_argument("--jars", nargs="*", type=Path, default=[], help="paimon-bundle")
    parser.add_argument("--lakehouses", action="store_true", help="Iceberg and Delta, too")
    parser.add_argument(
        "--environments", type=Path, default=ROOT / ".oracles", help="where these are installed"
    )
    arguments = parser.parse_args()
    jars = [each for each in arguments.jars if each.is_file()]
    peer = None
    if arguments.lakehouses:
        peer = ContestantProcess(spark_lakehouses(arguments.environments))
    try:
        with tempfile.TemporaryDirectory() as base:
            spark = build_session("spark-planning", master="local[2]", conf=peers.settings(jars))
            session = Session(spark, any(_JAR in each.name for each in jars), peer)
            for count in arguments.counts:
                session.measure(f"{base}/w{count}", count, large=arguments.large)
    finally:
        if peer is not None:
            peer.close()


def show(files: int, reader: str, figures: dict[str, object]) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps({"files": files, "reader": reader, **figures}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
