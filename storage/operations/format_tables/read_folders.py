"""Reads a format table: the files of the partitions that a filter may match, then the filter.

A file gives the columns that it has; others are null. Partition columns come from the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.storage.codec.arrow_cast import cast_column
from lakewright.storage.codec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.storage.codec.arrow_values import keep_matching, scalar_of
from lakewright.storage.codec.text_rows import TEXT_FORMATS, decode_text_rows
from lakewright.storage.env import FileStatus
from lakewright.storage.errors import CorruptionError
from lakewright.storage.files.data_files import read_rows
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import FormatSpec
from lakewright.storage.operations.format_tables.partition_folders import (
    list_data_files,
    list_partitions,
)
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.predicate import Predicate, columns_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderScan:
    """What a read opens: the files, each with its partition."""

    predicate: Predicate | None
    folders: tuple[str, ...]
    files: tuple[tuple[Partition, FileStatus], ...]


def scan_folders(
    files: TableFiles, spec: FormatSpec, predicate: Predicate | None = None
) -> FolderScan:
    """The files to read; only folders that the filter may match are listed."""
    folders = list_partitions(files, spec, predicate)
    return FolderScan(
        predicate=predicate,
        folders=tuple(each.folder for each in folders),
        files=tuple(list_data_files(files, folders)),
    )


def read_folders(
    files: TableFiles, spec: FormatSpec, scan: FolderScan, columns: Sequence[str] | None
) -> pa.Table:
    """The matching rows of a scan, in the projected columns.

    Raises:
        InvalidSchema: a column does not exist.
        CorruptionError: a file is not of the format, or holds values of another kind.
    """
    names = files.schema.names_of(columns)
    needed = {*names, *(columns_of(scan.predicate) if scan.predicate else ())}
    schema = to_arrow_schema(files.schema.fields_of(names))
    schema = pa.schema([field.with_nullable(True) for field in schema])

    def read(item: tuple[Partition, FileStatus]) -> pa.Table:
        rows = _rows(files, spec, *item, needed)
        return keep_matching(rows, scan.predicate, files.schema).select(names)

    parts = map_concurrently(files.env, read, scan.files)
    return pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in parts)])


def _rows(
    files: TableFiles, spec: FormatSpec, partition: Partition, status: FileStatus, needed: set[str]
) -> pa.Table:
    if spec.format in TEXT_FORMATS:
        data = files.fs.read_bytes(status.path)
        options = files.schema.options
        held = decode_text_rows(data, spec.format, spec.data_fields, options, path=status.path)
    else:
        wanted = [field.name for field in spec.data_fields if field.name in needed]
        (held,) = read_rows(files.fs, status.path, wanted, may_lack=wanted, format_name=spec.format)
    count = held.num_rows
    columns = {}
    for field in files.schema.fields:
        kind = to_arrow_type(field.type)
        if field.name in partition.stored:
            columns[field.name] = pa.repeat(
                scalar_of(partition.stored[field.name], field.type), count
            )
        elif field.name in held.column_names and field.name in needed:
            columns[field.name] = cast_file_column(
                held.column(field.name), kind, field.name, status.path
            )
        elif field.name in needed:
            columns[field.name] = pa.nulls(count, kind)
    return pa.table(columns)


def cast_file_column(
    column: pa.ChunkedArray, kind: pa.DataType, name: str, path: str
) -> pa.ChunkedArray:
    """A column of a file in the type of its table.

    Raises:
        CorruptionError: names the column, the file and both types.
    """
    try:
        return cast_column(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CorruptionError(
            f"column {name} of file {path} holds {column.type}, which cannot be read as {kind}: "
            f"{error}",
            path=path,
            column=name,
        ) from error
