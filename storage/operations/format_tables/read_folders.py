"""Reads a format table: the files of the partitions that a filter may match, then the filter.

A file gives the columns that it has; others are null. Partition columns come from the folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import keep_matching, scalar_of
from lakewright.storage.codec.csv_encoding import csv_dialect
from lakewright.storage.codec.json_atoms import JsonLayout
from lakewright.storage.codec.text_rows import CSV, TEXT_FORMATS, check_text_options
from lakewright.storage.codec.text_values import TextLayout
from lakewright.storage.env import FileStatus
from lakewright.storage.errors import CorruptionError, InvalidRows
from lakewright.storage.file_reader.file_form import FileForm
from lakewright.storage.file_reader.location import FoundFile
from lakewright.storage.file_reader.reader import FileReader
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import FormatSpec
from lakewright.storage.operations.format_tables.partition_folders import (
    list_data_files,
    list_partitions,
)
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.spec.csv_dialect import CsvDialect
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.extra_columns import ExtraColumns
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
        folders=tuple(folder.folder for folder in folders),
        files=tuple(list_data_files(files, spec, folders)),
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
    form = form_of_files(spec.format, files.schema.options)
    fields = [
        replace(data_field, type=replace(data_field.type, nullable=True))
        for data_field in spec.data_fields
        # Of a file without names, the place of a column says what it is.
        if data_field.name in needed or not form.names_columns
    ]
    file = FoundFile(fs=files.fs, path=status.path, size_bytes=status.size)
    reader = FileReader(file=file, form=form, fields=tuple(fields))
    try:
        held = pa.concat_tables([_empty(fields), *reader.read()])
    except InvalidRows as error:
        raise CorruptionError(error.message, path=status.path, **error.details) from error
    columns = {}
    for field in files.schema.fields:
        if field.name in partition.stored:
            value = scalar_of(partition.stored[field.name], field.type)
            columns[field.name] = pa.repeat(value, held.num_rows)
        elif field.name in needed:
            columns[field.name] = held.column(field.name)
    return pa.table(columns)


def _empty(fields: Sequence[DataField]) -> pa.Table:
    return to_arrow_schema(fields).empty_table() if fields else pa.table([pa.nulls(0)], names=[""])


def form_of_files(format_name: str, options: Mapping[str, str]) -> FileForm:
    """How the files of a format table are read.

    Raises:
        InvalidOption: an option of the table says how its files differ from those known here.
    """
    if format_name in TEXT_FORMATS:
        check_text_options(format_name, options)
    dialect = csv_dialect(options) if format_name == CSV else CsvDialect()
    return FileForm(
        format=format_name,
        csv=dialect,
        texts=TextLayout(nulls=dialect.nulls, is_declared=False),
        json=JsonLayout(ignores_unknown=True),
        extra_columns=ExtraColumns.IGNORE,
        may_lack=True,
        own_avro=True,
    )
