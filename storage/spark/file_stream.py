"""Files that arrive in a folder, as a stream of a table's columns.

1. Spark reads the files with the columns of the table, in their types.
2. Spark leaves out columns of JSON, Parquet and ORC files that it was not told of, and makes nulls
   of columns that Parquet and ORC files lack. So the sink asks, before it commits a batch, for the
   columns of the batch's files, and refuses both. Of CSV files Spark itself compares the header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from lakewright.storage.errors import InvalidRows
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spark.spark_types import to_spark_schema
from lakewright.storage.spec.partition_clock import EventTime

# The column with the file of each row, which the sink takes away.
SOURCE_FILE = "__lakewright_file"
_COLUMNAR = ("parquet", "orc")
# In a path that Spark reads, these stand for other characters.
_WILD = re.compile(r"([\\*?\[\]{}])")


@dataclass(frozen=True, kw_only=True)
class FileStream:
    """A folder, or a pattern of folders, whose files become rows of a table.

    With `ignores_others`, columns that the table has not are left out.
    """

    spark: SparkSession
    table: str
    folder: str
    file_format: str
    schema: t.StructType
    files_at_once: int | None = None
    ignores_others: bool = False

    def rows(self) -> DataFrame:
        """The rows as a streaming DataFrame, each with its file."""
        reader = self.spark.readStream.schema(self.schema).format(self.file_format)
        if self.file_format in ("json", "csv"):
            # By default Spark makes nulls of values that it cannot read.
            reader = reader.option("mode", "FAILFAST").option("header", "true")
            # By default Spark takes columns of CSV by their position, whatever the header names.
            reader = reader.option("enforceSchema", "false")
        if self.files_at_once is not None:
            reader = reader.option("maxFilesPerTrigger", self.files_at_once)
        return reader.load(self.folder).withColumn(SOURCE_FILE, f.col("_metadata.file_path"))

    def check_files(self, paths: Sequence[str]) -> None:
        """Check that files have the columns of the stream.

        Raises:
            InvalidRows: they have others, or lack some.
        """
        is_checked = self._is_columnar or (self.file_format == "json" and not self.ignores_others)
        if not paths or not is_checked:
            return
        reader = self.spark.read.format(self.file_format).option("mergeSchema", "true")
        reader = reader.option("primitivesAsString", "true").option("mode", "FAILFAST")
        found = reader.load([_WILD.sub(r"\\\1", unquote(each)) for each in paths]).schema
        lacking = sorted({*self.schema.fieldNames()} - {*found.fieldNames()})
        others = [] if self.ignores_others else sorted(_unknown(found, self.schema))
        what = f"{len(paths)} files, such as {unquote(min(paths))}"
        if others:
            raise InvalidRows(
                f"the stream into {self.table} has read columns that the table lacks: "
                f"{', '.join(others)} ({what}); nothing of the batch was written; add the columns "
                "to the table, or have such columns ignored, and start the stream again",
                table=self.table,
            )
        if lacking and self._is_columnar:
            raise InvalidRows(
                f"the files of the stream into {self.table} lack column {', '.join(lacking)} "
                f"({what}); nothing of the batch was written; take the columns off the table, or "
                "write the files with them, and start the stream again",
                table=self.table,
            )

    @property
    def _is_columnar(self) -> bool:
        return self.file_format in _COLUMNAR


def file_stream(
    spark: SparkSession,
    files: TableFiles,
    folder: str,
    file_format: str,
    *,
    partition: Mapping[str, object],
    files_at_once: int | None = None,
    ignores_others: bool = False,
) -> FileStream:
    """The files that are in a folder, and arrive there, as a stream into a table.

    They lack the columns of `partition`, and have those whose time the partitions follow, which
    come last. Columns of CSV have this order too; a header with other names ends the stream.
    """
    times = [each.column for each in partition.values() if isinstance(each, EventTime)]
    stored = [each for each in files.schema.fields if each.name not in partition]
    schema = to_spark_schema(stored)
    for name in dict.fromkeys(times):
        if name not in schema.fieldNames():
            schema = schema.add(name, t.TimestampType())
    return FileStream(
        spark=spark,
        table=files.name,
        folder=folder,
        file_format=file_format,
        schema=schema,
        files_at_once=files_at_once,
        ignores_others=ignores_others,
    )


def _unknown(found: t.DataType, wanted: t.DataType, above: str = "") -> Iterator[str]:
    """The columns, and members of rows, that only the files have."""
    if isinstance(found, t.ArrayType) and isinstance(wanted, t.ArrayType):
        yield from _unknown(found.elementType, wanted.elementType, above)
    if not isinstance(found, t.StructType) or not isinstance(wanted, t.StructType):
        return
    known = {each.name: each.dataType for each in wanted.fields}
    for each in found.fields:
        name = f"{above}{each.name}"
        if each.name not in known:
            yield name
        else:
            yield from _unknown(each.dataType, known[each.name], f"{name}.")
