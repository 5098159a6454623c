"""Files that arrive in a folder, as a stream of the rows that a function reads of each.

1. Spark finds the files and keeps in its checkpoint which of them it took. It reads none: of each
   it hands over the path and the size.
2. The function reads them in tasks, file by file. An error keeps its type on the way to the sink.
3. Where rows may replace each other, each gets its place: by the names of the files of a batch, and
   then by its place in the file, as a run reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from lakewright.storage.codec.arrow_cast import cast_column
from lakewright.storage.errors import InvalidRows, StorageError
from lakewright.storage.operations.changes.change_read import CHANGE_ORDER_COLUMN
from lakewright.storage.spark.pickling import as_text
from lakewright.storage.spark.read import spark_arrow_type
from lakewright.storage.spark.spark_types import to_spark_schema
from lakewright.storage.spec.data_types import DataField

# The rows of a file, given its path and its size in bytes; it pickles.
FileReader: TypeAlias = Callable[[str, int], Iterator[pa.Table]]

# Files hold fewer rows than have so many digits.
_NUMBER_DIGITS = 15
_BINARY_FILES = "path string, modificationTime timestamp, length long, content binary"


def file_stream(
    spark: SparkSession,
    folder: str,
    read: FileReader,
    fields: Sequence[DataField],
    *,
    ordered: bool = False,
    files_at_once: int | None = None,
) -> DataFrame:
    """The files that are in a folder, or in those of a pattern, and arrive there, as a stream.

    Files of folders below are among them if such folders are named `key=value`, as Hive's are. With
    `ordered`, the rows of a key in one batch count in the order of a run.

    Raises:
        UnsupportedError: a column has no Spark type.
    """
    schema = to_spark_schema(fields)
    if ordered:
        schema = schema.add(CHANGE_ORDER_COLUMN, t.StringType())
    found = _files(spark, folder, files_at_once)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, size in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                first = 0
                try:
                    for rows in read(path, size):
                        converted = _in_micros(rows, path)
                        if ordered:
                            converted = _with_places(converted, path, first)
                            first += converted.num_rows
                        yield from converted.to_batches()
                except StorageError as error:
                    # Spark hands errors of tasks on as texts.
                    raise RuntimeError(as_text(error)) from error

    return found.select("path", "length").mapInArrow(run, schema)


def _files(spark: SparkSession, folder: str, files_at_once: int | None) -> DataFrame:
    """The files with what Spark knows of them; their contents are read only if selected."""
    reader = spark.readStream.schema(_BINARY_FILES).format("binaryFile")
    reader = reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    if files_at_once is not None:
        reader = reader.option("maxFilesPerTrigger", files_at_once)
    found = reader.load(folder)
    if len(found.columns) > len(_BINARY_FILES.split(",")):
        # Folders of partitions are there, and Spark takes their values for further columns.
        found = reader.option("recursiveFileLookup", "true").load(folder)
    return found


def _with_places(rows: pa.Table, path: str, first: int) -> pa.Table:
    """Rows with texts that sort as the names of their files, and then as the rows of a file."""
    numbers = pc.cast(pa.array(range(first, first + rows.num_rows), pa.int64()), pa.string())
    numbers = pc.utf8_lpad(numbers, _NUMBER_DIGITS, "0")
    # No name of a file holds the character, and it sorts before all others.
    places = pc.binary_join_element_wise(path, numbers, "\x01")
    return rows.append_column(CHANGE_ORDER_COLUMN, places)


def _in_micros(rows: pa.Table, path: str) -> pa.Table:
    """Rows with timestamps in Spark's microseconds.

    Raises:
        InvalidRows: a timestamp is finer.
    """
    columns = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        try:
            columns.append(cast_column(column, spark_arrow_type(column.type)))
        except pa.ArrowInvalid as error:
            raise InvalidRows(
                f"{path}: column {name} has digits below microseconds, which do not pass through "
                f"Spark ({error}); leave them out, or read the files without a stream",
                column=name,
            ) from error
    return pa.table(columns, names=rows.column_names)
