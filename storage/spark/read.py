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
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from threading import Lock
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from lakewright.storage.codec.arrow_cast import cast_column, in_micros
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.data_files import format_of_path
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.read.unfit_values import logged
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.spark.nulled_counts import counting
from lakewright.storage.spark.pickling import dumps, loads
from lakewright.storage.spark.planned_files import planned_dataframe, takes_planned_files
from lakewright.storage.spark.predicates import is_spark_filter, to_spark_filter
from lakewright.storage.spark.spark_types import reads_natively, to_spark_schema, to_spark_type
from lakewright.storage.spec.cast_rules import cast_rule
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.file_format import PARQUET
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.predicate import Predicate, columns_of
from lakewright.storage.spec.schema_mapping import CastValues, SameValues, TypeMapping

Task = TypeVar("Task")

# Where Spark finds files by paths alone. Other stores need settings, and our tasks bring ours.
_SPARK_STORES = ("file", "hdfs")

# Spark takes other paths for patterns, and leaves out those of missing files without a word.
_LISTED_WHOLE = re.compile(r"[^{}\[\]*?\\]*")
# More files than this Spark lists in a job, with a task for each of them.
_FEW_FILES = 32
# Files below this size on average take Spark longer to list and to open than to read.
SMALL_FILE_BYTES = 2**20
# To open a file takes our tasks as long as to read so many bytes.
_OPEN_FILE_BYTES = 2**20
# What one task of ours reads.
_TASK_BYTES = 128 * 2**20
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
            "local engine, or a warehouse on disk",
            table=files.name,
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
    is_handed = takes_planned_files(spark, reader.files)
    # A plan decodes the metadata of a file each time that it is asked for.
    splits = [replace(split, files=tuple(split.files)) for split in splits]
    native, other = _divide(reader, splits, predicate, is_handed=is_handed)
    parts = [
        _native_scan(spark, reader, stored, paths, predicate, is_handed=is_handed)
        for stored, paths in native.items()
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


# The columns of a file that hold the needed columns, in their order; None where it has no such
# column.
StoredColumns: TypeAlias = tuple[DataField | None, ...]


def _divide(
    reader: SplitReader,
    splits: Sequence[DataSplit],
    predicate: Predicate | None,
    *,
    is_handed: bool,
) -> tuple[dict[StoredColumns, list[str]], list[DataSplit]]:
    """The paths for Spark's own reader, by the columns to read there, and the splits for ours."""
    needed = _needed(reader, predicate)
    understood = (
        reader.files.fs.scheme in _SPARK_STORES
        and all(reads_natively(field) for field in needed)
        and (predicate is None or is_spark_filter(predicate, reader.files.schema))
        and not _are_many_small(splits)
    )
    schemas = FileSchemas(reader.files)
    columns: dict[tuple[int, tuple[str, ...] | None], StoredColumns | None] = {}
    native: dict[StoredColumns, list[str]] = defaultdict(list)
    other: list[DataSplit] = []
    for split in splits:
        if split.merge or not understood:
            other.append(split)
            continue
        # Spark's Parquet reader does not support deletion vectors.
        gone = {where.data_file for _, where in split.deletions}
        rest = []
        for file in split.files:
            plain = (
                format_of_path(file.file_name) == PARQUET
                and file.file_name not in gone
                and _has_partition_columns(reader.files, file)
            )
            written = (file.schema_id, file.write_cols)
            if plain and written not in columns:
                columns[written] = _stored_columns(schemas, file, needed)
            stored = columns[written] if plain else None
            if stored is None:
                rest.append(file)
                continue
            path = reader.files.readable_path(split.place, file)
            if is_handed or _LISTED_WHOLE.fullmatch(path):
                native[stored].append(path)
            else:
                rest.append(file)
        other += [replace(split, files=tuple(rest))] if rest else []
    return native, other


def _are_many_small(splits: Sequence[DataSplit]) -> bool:
    sizes = [file.file_size for split in splits for file in split.files]
    return len(sizes) > _FEW_FILES and sum(sizes) < len(sizes) * SMALL_FILE_BYTES


def _has_partition_columns(files: TableFiles, file: DataFileMeta) -> bool:
    """Whether a file surely holds its partition columns; Spark would read others as null."""
    if not files.schema.partition_keys or files.schema.is_keyed:
        return True
    return files.holds_partition_columns(file)


def _stored_columns(
    schemas: FileSchemas, file: DataFileMeta, needed: Sequence[DataField]
) -> StoredColumns | None:
    """Where a file holds the needed columns; None if Spark cannot read them as they are."""
    names = [field.name.casefold() for field in schemas.schema_of(file).fields]
    if len(set(names)) < len(names):
        # Spark does not tell them apart.
        return None
    mapping = schemas.mapping_of(file).columns
    columns = [mapping[field.id] for field in needed]
    found = [column.stored for column in columns]
    same = all(
        column.stored is None or (_spark_values(column.values) and reads_natively(column.stored))
        for column in columns
    )
    # Spark counts the rows of files by a column.
    return tuple(found) if same and (any(found) or not needed) else None


def _spark_values(values: TypeMapping) -> bool:
    """Whether Spark gives the values of a column: as stored, or by a cast that changes none.

    Other casts are ours, because Spark's differ from those of Paimon in Java.
    """
    match values:
        case CastValues(stored=AtomicType() as stored, read=AtomicType() as read):
            numbers = _is_number(stored) and _is_number(read)
            texts = stored.root is read.root is TypeRoot.VARCHAR
            return (numbers or texts) and cast_rule(stored, read).loss is None
    return isinstance(values, SameValues)


def _is_number(data_type: AtomicType) -> bool:
    root = data_type.root
    return root.is_integer or root.is_floating or root is TypeRoot.DECIMAL


def _native_scan(
    spark: SparkSession,
    reader: SplitReader,
    stored: StoredColumns,
    paths: Sequence[str],
    predicate: Predicate | None,
    *,
    is_handed: bool,
) -> DataFrame:
    # A column that a file does not have is left out: a dropped column may have had its name.
    schema = to_spark_schema(field for field in stored if field is not None)
    if is_handed:
        rows = planned_dataframe(spark, reader, schema, paths)
    else:
        rows = _listing_scan(spark, schema, [_spark_path(reader.files, path) for path in paths])
    rows = rows.select(
        *[
            f.lit(None).cast(to_spark_type(field.type)).alias(field.name)
            if held is None
            else _quoted(held.name).cast(to_spark_type(field.type)).alias(field.name)
            for field, held in zip(_needed(reader, predicate), stored, strict=True)
        ]
    )
    if predicate is not None:
        rows = rows.filter(to_spark_filter(predicate, reader.files.schema))
    return rows.select(*[_quoted(name) for name in reader.columns])


def _listing_scan(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> DataFrame:
    """The rows of files that Spark lists."""
    reading = (
        spark.read.schema(schema)
        # Spark must not read folder names as Hive partitions or as globs.
        .option("recursiveFileLookup", "true")
        .option("__globPaths__", "false")
        # The files use the proleptic calendar, independent of the session's setting.
        .option("datetimeRebaseMode", "CORRECTED")
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
        # The executor's log has the warning: a DataFrame is read after this call returned.
        try:
            with logged(task_reader.nulled, files.name):
                for split in loads(zlib.decompress(packed)):
                    yield from task_reader.read(split)
        finally:
            count(task_reader.nulled)

    # Each task gets the splits of all tasks, of which it unpacks its own.
    tasks = [zlib.compress(dumps(each), 1) for each in packed_splits(splits)]
    return dataframe_of_tasks(spark, tasks, read, files.schema.fields_of(names))


def packed_splits(splits: Sequence[DataSplit]) -> list[list[DataSplit]]:
    """The splits of each task, in order: several small ones, or a part of a large one."""
    tasks: list[list[DataSplit]] = []
    room = 0
    for part in (part for split in splits for part in _parts(split)):
        weight = sum(map(_weight, part.files))
        if not tasks or weight > room:
            tasks.append([])
            room = _TASK_BYTES
        tasks[-1].append(part)
        room -= weight
    return tasks


def _parts(split: DataSplit) -> Iterator[DataSplit]:
    """A split in parts that a task each can read; files that are merged stay together."""
    if split.merge:
        yield split
        return
    part: list[DataFileMeta] = []
    room = _TASK_BYTES
    for file in split.files:
        if part and _weight(file) > room:
            yield replace(split, files=tuple(part))
            part, room = [], _TASK_BYTES
        part.append(file)
        room -= _weight(file)
    yield replace(split, files=tuple(part))


def _weight(file: DataFileMeta) -> int:
    return max(file.file_size, _OPEN_FILE_BYTES)


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
        return pa.struct([pa.field(each.name, spark_arrow_type(each.type)) for each in members])
    return arrow_type


def _quoted(name: str) -> Column:
    return f.col("`" + name.replace("`", "``") + "`")
