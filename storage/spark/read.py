"""Reads a table into a DataFrame.

1. Plan in Python, from metadata.
2. Read files that need no merge, with columns that Spark supports, with Spark's own Parquet
   reader. Files of an older schema are included if the columns that are read were at most renamed,
   moved, added or widened since. Very many small files are left out, which Spark takes longer to
   list and to open than our tasks need to read them.
3. Read the other splits with Arrow readers in Spark tasks, several splits in a task.
4. Apply the filter in the reader, as a Spark expression in step 2. If Spark cannot evaluate the
   filter, read all splits as in step 3.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from threading import Lock
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from lakewright.storage.codec.arrow_cast import cast_column, in_micros
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.read.split_columns import FilesOfFolder, split_columns
from lakewright.storage.operations.read.unfit_values import logged
from lakewright.storage.spark.hadoop_stores import sees
from lakewright.storage.spark.native_files import StoredColumns, divided
from lakewright.storage.spark.nulled_counts import counting
from lakewright.storage.spark.pickling import dumps, loads
from lakewright.storage.spark.planned_files import handed_base, look_at, planned_dataframe
from lakewright.storage.spark.predicates import is_spark_filter, to_spark_filter
from lakewright.storage.spark.running_tasks import context_of
from lakewright.storage.spark.spark_types import reads_natively, to_spark_schema, to_spark_type
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.predicate import Predicate, columns_of

Task = TypeVar("Task")

# Where Spark finds files by paths alone, also behind Spark Connect.
_LISTED_STORES = ("file", "hdfs")

# Spark takes other paths for patterns, and leaves out those of missing files without a word.
_LISTED_WHOLE = re.compile(r"[^{}\[\]*?\\]*")
# More files than this Spark lists in a job, with a task for each of them.
_FEW_FILES = 32
# Files below this size on average take Spark longer to list and to open than to read.
SMALL_FILE_BYTES = 2**20
# To open a file takes our tasks as long as to read so many bytes.
_OPEN_FILE_BYTES = 2**20
# What one task of ours reads at most; at least, so that each of Spark's cores gets one.
_TASK_BYTES = 128 * 2**20
_LEAST_TASK_BYTES = 4 * 2**20
# Tasks among which Spark deals the paths that it lists, if the session says more.
LISTING_TASKS = 16
LISTING_OPTION = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_LISTING_LOCK = Lock()


def check_reachable(files: TableFiles) -> None:
    """Refuse stores that exist only in this process.

    Raises:
        UnsupportedError: the table is in memory.
    """
    if files.fs.scheme == "memory":
        raise UnsupportedError(
            f"{files.name} lies in this process's memory, which Spark tasks cannot reach; use the "
            "local engine, or a warehouse on disk"
        )


def splits_dataframe(
    spark: SparkSession, reader: SplitReader, splits: Sequence[DataSplit]
) -> DataFrame:
    """The rows of splits that match the reader's filter.

    Raises:
        UnsupportedError: the table lies where executors cannot reach it, or a column has no
            Spark type.
    """
    predicate = reader.predicate
    check_reachable(reader.files)
    fields = reader.files.schema.fields_of(reader.columns)
    base = handed_base(spark, reader.files)
    native, other = _divided(spark, reader, splits, base)
    parts = [
        _native_scan(spark, reader, stored, found, predicate, base)
        for stored, found in native.items()
    ]
    if other:
        parts.append(_arrow_scan(spark, reader, other, predicate))
    if not parts:
        return spark.createDataFrame([], to_spark_schema(fields))
    return reduce(DataFrame.unionByName, parts)


def _needed(reader: SplitReader, predicate: Predicate | None) -> tuple[DataField, ...]:
    """The projected columns, followed by the filter's other columns."""
    extra = sorted(columns_of(predicate) - set(reader.columns)) if predicate else []
    return reader.files.schema.fields_of([*reader.columns, *extra])


def _divided(
    spark: SparkSession, reader: SplitReader, splits: Sequence[DataSplit], base: str | None
) -> tuple[Mapping[StoredColumns, Sequence[FilesOfFolder]], Sequence[DataSplit]]:
    """The files for Spark's own reader, by the columns to read there, and the splits for ours."""
    predicate = reader.predicate
    needed = _needed(reader, predicate)
    understood = (
        not reader.files.options.data_evolution_enabled
        and (base is not None or reader.files.fs.scheme in _LISTED_STORES)
        and all(reads_natively(field) for field in needed)
        and (predicate is None or is_spark_filter(predicate, reader.files.schema))
    )
    if not understood or not splits:
        return {}, splits
    columns = split_columns(splits)
    if _are_many_small(columns.sizes):
        return {}, splits
    if base and reader.files.fs.scheme not in _LISTED_STORES:
        split, file = splits[0], splits[0].files[0]
        path = reader.files.readable_path(split.place, file)
        if not sees(spark, reader.files, base, path, file.file_size):
            return {}, splits
    return divided(
        reader.files, columns, needed, takes_path=None if base else _LISTED_WHOLE.fullmatch
    )


def _are_many_small(sizes: np.ndarray) -> bool:
    return len(sizes) > _FEW_FILES and int(sizes.sum()) < len(sizes) * SMALL_FILE_BYTES


def _native_scan(
    spark: SparkSession,
    reader: SplitReader,
    stored: StoredColumns,
    found: Sequence[FilesOfFolder],
    predicate: Predicate | None,
    base: str | None,
) -> DataFrame:
    # A column that a file does not have is left out: a dropped column may have had its name.
    schema = to_spark_schema(field for field in stored if field is not None)
    needed = _needed(reader, predicate)
    if base is not None:
        rows = planned_dataframe(spark, reader, schema, found, base)
    else:
        if reader.files.fs.scheme == LocalFiles.scheme:
            look_at(reader, found)
        paths = [_spark_path(reader.files, path) for each in found for path in each.paths]
        rows = _listing_scan(spark, schema, paths)
    # Each expression is several calls of the JVM: those that would change nothing are left out.
    if schema != to_spark_schema(needed):
        rows = rows.select(
            *[
                f.lit(None).cast(to_spark_type(field.type)).alias(field.name)
                if held is None
                else _quoted(held.name).cast(to_spark_type(field.type)).alias(field.name)
                for field, held in zip(needed, stored, strict=True)
            ]
        )
    if predicate is not None:
        rows = rows.filter(to_spark_filter(predicate, reader.files.schema))
    if len(needed) > len(reader.columns):
        rows = rows.select(*[_quoted(name) for name in reader.columns])
    return rows


def _listing_scan(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> DataFrame:
    """The rows of files that Spark lists."""
    reading = (
        spark.read.schema(schema)
        # Spark must not read folder names as Hive partitions or as globs.
        .option("recursiveFileLookup", "true")
        .option("__globPaths__", "false")
        # Files without a mark of Spark's use the proleptic calendar, and each of them counts,
        # whatever the session's settings are.
        .option("datetimeRebaseMode", "CORRECTED")
        .option("int96RebaseMode", "CORRECTED")
        .option("ignoreMissingFiles", "false")
        .option("ignoreCorruptFiles", "false")
    )
    with _listed_by_few_tasks(spark, len(paths)):
        return reading.parquet(*paths)


@contextmanager
def _listed_by_few_tasks(spark: SparkSession, paths: int) -> Iterator[None]:
    """A session in which Spark lists paths in few tasks, instead of in one for each path."""
    if paths <= _FEW_FILES:
        yield
        return
    # Another thread would take this setting for the caller's own, and leave it behind.
    with _LISTING_LOCK:
        before = spark.conf.get(LISTING_OPTION, None)
        spark.conf.set(LISTING_OPTION, str(min(LISTING_TASKS, int(before or LISTING_TASKS))))
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(LISTING_OPTION)
            else:
                spark.conf.set(LISTING_OPTION, before)


def _spark_path(files: TableFiles, path: str) -> str:
    return f"{files.fs.scheme}:{path}"


def _arrow_scan(
    spark: SparkSession,
    reader: SplitReader,
    splits: Sequence[DataSplit],
    predicate: Predicate | None,
) -> DataFrame:
    files, names, snapshot_id = reader.files, reader.columns, reader.snapshot_id
    count = counting(spark, files, reader.nulled)

    def read(packed: bytes) -> Iterator[pa.Table]:
        task_reader = SplitReader(
            files, columns=names, predicate=predicate, snapshot_id=snapshot_id
        )
        try:
            yield from rows_of_task(task_reader, packed)
        finally:
            count(task_reader.nulled)

    tasks = packed_tasks(splits, tasks_at_once(spark))
    return dataframe_of_tasks(spark, tasks, read, files.schema.fields_of(names))


def packed_tasks(splits: Sequence[DataSplit], at_once: int = LISTING_TASKS) -> list[bytes]:
    """What each of some tasks reads; see `rows_of_task`."""
    # Each task gets the splits of all tasks, of which it unpacks its own.
    return [zlib.compress(dumps(each), 1) for each in packed_splits(splits, at_once)]


def rows_of_task(reader: SplitReader, packed: bytes) -> Iterator[pa.Table]:
    """The rows of the splits of one task."""
    # The executor's log has the warning: a DataFrame is read after the call that made it.
    with logged(reader.nulled, reader.files.name):
        for split in loads(zlib.decompress(packed)):
            yield from reader.read(split)


def tasks_at_once(spark: SparkSession) -> int:
    """How many cores the session has now; a guess over Spark Connect, which does not say."""
    context = context_of(spark)
    return LISTING_TASKS if context is None else max(1, context.defaultParallelism)


def packed_splits(splits: Sequence[DataSplit], at_once: int) -> list[list[DataSplit]]:
    """The splits of each task, in order: several small ones, or a part of a large one.

    As Spark packs files: no task is larger than the share of one of `at_once` cores.
    """
    tasks: list[list[DataSplit]] = []
    room = 0
    columns = split_columns(splits)
    weights = np.maximum(columns.sizes, _OPEN_FILE_BYTES)
    share = int(weights.sum()) // at_once
    task_bytes = min(_TASK_BYTES, max(_LEAST_TASK_BYTES, share))
    bounds = pairwise(columns.bounds.tolist())
    for split, (begin, end) in zip(splits, bounds, strict=True):
        for part, weight in _parts(split, weights[begin:end].tolist(), task_bytes):
            if not tasks or weight > room:
                tasks.append([])
                room = task_bytes
            tasks[-1].append(part)
            room -= weight
    return tasks


def _parts(
    split: DataSplit, weights: Sequence[int], task_bytes: int
) -> Iterator[tuple[DataSplit, int]]:
    """A split in parts that a task each can read; files that are merged stay together."""
    total = sum(weights)
    if split.merge or total <= task_bytes:
        yield split, total
        return
    begin, held = 0, 0
    for index, weight in enumerate(weights):
        if index > begin and held + weight > task_bytes:
            yield replace(split, files=split.files[begin:index]), held
            begin, held = index, 0
        held += weight
    yield replace(split, files=split.files[begin:]), held


def dataframe_of_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    read: Callable[[Task], Iterator[pa.Table]],
    fields: Sequence[DataField],
) -> DataFrame:
    """The rows of all tasks, one Spark task for each; needs at least one task.

    Raises:
        UnsupportedError: a column has no Spark type.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for rows in read(tasks[index]):
                    yield from for_spark(rows).to_batches()

    count = len(tasks)
    return spark.range(0, count, 1, count).mapInArrow(run, to_spark_schema(fields))


def for_spark(rows: pa.Table) -> pa.Table:
    """Rows with timestamps in Spark's microseconds; finer digits are cut off."""
    fields = [pa.field(each.name, spark_arrow_type(each.type), True) for each in rows.schema]
    columns = [
        cast_column(column, field.type, in_micros)
        for column, field in zip(rows.columns, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def spark_arrow_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type with all timestamps in microseconds."""
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("us", arrow_type.tz)
    if pa.types.is_map(arrow_type):
        return pa.map_(
            spark_arrow_type(arrow_type.key_type), spark_arrow_type(arrow_type.item_type)
        )
    if pa.types.is_list(arrow_type):
        return pa.list_(spark_arrow_type(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        members = [arrow_type.field(index) for index in range(arrow_type.num_fields)]
        return pa.struct(
            [pa.field(member.name, spark_arrow_type(member.type)) for member in members]
        )
    return arrow_type


def _quoted(name: str) -> Column:
    return f.col("`" + name.replace("`", "``") + "`")
