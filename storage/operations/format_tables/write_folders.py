"""Writes rows into the folders of a format table.

1. Give rows the values of a static partition, and divide them by partition.
2. Write each part to a hidden file in its folder, which no reader takes for data.
3. Publish: move each hidden file to its name, one after the other.
4. An overwrite then deletes the files that were there before in its partitions.
5. Register the partitions, if the table has a registry.

Each file appears at once and whole. Several files do not appear at one moment: a reader meanwhile
sees some of them and, during an overwrite, old rows beside new ones, but never fewer rows than
before. A writer that dies leaves hidden files, or published ones beside old ones; a second
overwrite replaces both. An append with a name takes back what a try of it published in part, and
adds nothing to one that ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import scalar_of, value_of
from lakewright.storage.codec.conform import conform
from lakewright.storage.codec.text_rows import TEXT_FORMATS, encode_text_rows
from lakewright.storage.env import FileStatus
from lakewright.storage.errors import InvalidRequestError, InvalidRows, StorageError
from lakewright.storage.files.data_file import DataFileWriter
from lakewright.storage.files.data_files import open_data_file_writer
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.format_tables.format_spec import FormatSpec
from lakewright.storage.operations.format_tables.named_writes import NamedWrite, earlier_write
from lakewright.storage.operations.format_tables.partition_folders import (
    PartitionFolder,
    check_own_folders,
    folder_of,
    folders_on_disk,
    list_data_files,
    list_partitions,
)
from lakewright.storage.operations.format_tables.registry import change_registry
from lakewright.storage.operations.running.delete_files import (
    delete_files,
    discard_files,
    remove_empty_folders,
)
from lakewright.storage.spec.commit import WriteMode
from lakewright.storage.spec.file_format import COMPRESSIONS, FileEncoding
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.values import Value

_COMPRESSION_OPTION = "format-table.file.compression"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderWrite(Shown):
    """What a write published, and what it replaced.

    With `already_written`, an earlier try of the same write published these files, and `rows` is
    not known: 0.
    """

    partitions: tuple[Partition, ...]
    files: tuple[str, ...]
    rows: int
    files_deleted: int
    already_written: bool = False


def write_folders(
    files: TableFiles,
    spec: FormatSpec,
    rows: pa.Table,
    *,
    mode: WriteMode,
    partition: Mapping[str, object] | None,
    dynamic: bool,
    name: NamedWrite | None = None,
) -> FolderWrite:
    """Write rows; see the head of the module for what readers see meanwhile.

    An overwrite replaces the partitions that the rows touch with `dynamic`, otherwise all
    partitions of the static values, or the whole table. An append with a `name` is made once.

    Raises:
        InvalidRequestError: the partition names an unknown column, or readers would not find a
            partition by the name of its folder.
        InvalidRows: a row does not fit the table or the partition.
    """
    static = files.partitions.stored(partition or {})
    name = name if mode is WriteMode.APPEND else None
    conformed = conform(_with_static(files, rows, static), files.schema.fields, table=files.name)
    parts = list(_parts(files, conformed))
    if not parts and len(static) == len(files.partitions.keys.fields):
        # A static write makes its partition, also without rows.
        parts = [(files.partitions.of_values(tuple(static.values())), conformed)]
    touched = [PartitionFolder(each, folder_of(files, spec, each)) for each, _ in parts]
    check_own_folders(files, spec, touched)
    old = _replaced(files, spec, mode, static, touched, dynamic=dynamic)
    earlier = None if name is None else earlier_write(files, spec, name)
    if earlier is not None:
        if earlier.is_whole:
            partitions = tuple(dict.fromkeys(each for each, _ in earlier.files))
            _register(files, spec, partitions)
            return FolderWrite(
                partitions=partitions,
                files=tuple(status.path for _, status in earlier.files),
                rows=0,
                files_deleted=0,
                already_written=True,
            )
        # The rows of the query may be others now, so no part of the earlier try stays.
        delete_files(files.fs, [status.path for _, status in earlier.files])
    write_id = files.env.new_id()
    hidden: list[tuple[str, str]] = []
    published: list[str] = []
    try:
        for number, (each, (_, part)) in enumerate(zip(touched, parts, strict=True)):
            stem = f"data-{write_id}-{number}"
            shown = stem if name is None else name.file_stem(number, len(parts))
            source = f"{each.folder}/.{stem}.{spec.format}.tmp"
            hidden.append((source, f"{each.folder}/{shown}.{spec.format}"))
            _write_file(files, spec, part.select([f.name for f in spec.data_fields]), hidden[-1][0])
        files.fs.make_durable([source for source, _ in hidden], below=spec.location)
        for source, target in hidden:
            if not files.fs.move_if_absent(source, target):
                raise InvalidRequestError(f"file {target} exists; write again")
            published.append(target)
    except BaseException:
        if not published:
            with suppress(StorageError):
                discard_files(files.fs, [source for source, _ in hidden])
                folders = [source.rpartition("/")[0] for source, _ in hidden]
                remove_empty_folders(files.fs, folders, below=spec.location)
        raise
    deleted = delete_files(files.fs, [status.path for status in old])
    _register(files, spec, [each for each, _ in parts])
    return FolderWrite(
        partitions=tuple(each for each, _ in parts),
        files=tuple(published),
        rows=conformed.num_rows,
        files_deleted=deleted,
    )


def _register(files: TableFiles, spec: FormatSpec, partitions: Sequence[Partition]) -> None:
    if spec.is_registered and partitions:
        change_registry(files, lambda known: {*known, *partitions})


def _with_static(files: TableFiles, rows: pa.Table, static: Mapping[str, Value]) -> pa.Table:
    for name, value in static.items():
        if name in rows.column_names:
            raise InvalidRows(
                f"the write to {files.name} gives partition column {name} a value, and rows have "
                "the column too; leave it out of the rows",
                column=name,
            )
        scalar = scalar_of(value, files.schema.field(name).type)
        rows = rows.append_column(name, pa.repeat(scalar, rows.num_rows))
    return rows


def _parts(files: TableFiles, rows: pa.Table) -> Iterator[tuple[Partition, pa.Table]]:
    """Rows by partition, in their order."""
    keys = files.partitions.keys
    if not rows.num_rows:
        return
    if not keys.fields:
        yield files.partitions.of_values(()), rows
        return
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    for name in keys.names:
        column = rows.column(name).combine_chunks()
        indices = column.dictionary_encode(null_encoding="encode").indices.to_numpy()
        codes = np.unique(codes * (int(indices.max()) + 1) + indices, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(codes[order])) + 1, len(order))
    rows = rows.combine_chunks()
    start = 0
    for end in ends:
        part = rows.take(pa.array(order[start:end]))
        values = [value_of(part.column(f.name)[0], f.type) for f in keys.fields]
        yield files.partitions.of_values(values), part
        start = end


def _replaced(
    files: TableFiles,
    spec: FormatSpec,
    mode: WriteMode,
    static: Mapping[str, Value],
    touched: list[PartitionFolder],
    *,
    dynamic: bool,
) -> list[FileStatus]:
    """The files that an overwrite deletes once the new ones are published."""
    if mode is WriteMode.APPEND:
        return []
    there: list[PartitionFolder] = []
    if not dynamic:
        listed = list_partitions(files, spec)
        there = [each for each in listed if each.partition.is_named(static)]
    elif not spec.is_registered:
        there = folders_on_disk(files, spec, [each.partition for each in touched])
    folders = list({each.folder: each for each in (*touched, *there)}.values())
    return [status for _, status in list_data_files(files, spec, folders)]


def _write_file(files: TableFiles, spec: FormatSpec, rows: pa.Table, path: str) -> None:
    if spec.format in TEXT_FORMATS:
        data = encode_text_rows(rows, spec.format, files.schema.options, table=files.name)
        files.fs.write_bytes(path, data)
        return
    compression = files.schema.options.get(_COMPRESSION_OPTION, COMPRESSIONS[spec.format][0])
    encoding = FileEncoding(spec.format, compression, f".{spec.format}")
    schema = to_arrow_schema(spec.data_fields)
    writer: DataFileWriter = open_data_file_writer(files.fs, path, schema, files.options, encoding)
    try:
        writer.write(rows.cast(schema))
        writer.close()
    except BaseException:
        with suppress(StorageError, OSError):
            writer.abandon()
        raise
