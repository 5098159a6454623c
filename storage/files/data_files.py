"""Data files of every format: the options choose the format of a new file, the suffix names it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import SEEK_END, BytesIO
from typing import Any, cast

import pyarrow as pa

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.avro_files import AvroFileReader, AvroFileWriter
from lakewright.storage.files.data_file import (
    FOREIGN,
    ColumnBounds,
    DataFileReader,
    DataFileWriter,
    Reading,
)
from lakewright.storage.files.orc_files import OrcFileReader, OrcFileWriter
from lakewright.storage.files.parquet_files import (
    ParquetFileReader,
    ParquetFileWriter,
)
from lakewright.storage.spec.file_format import (
    AVRO,
    COMPRESSIONS,
    COUNTED,
    ORC,
    PARQUET,
    FileEncoding,
)
from lakewright.storage.spec.options import TableOptions

_SYSTEM_ERROR = re.compile(r"\[errno \d+\]", re.IGNORECASE)


def open_data_file_writer(
    fs: FileSystem,
    path: str,
    schema: pa.Schema,
    options: TableOptions,
    encoding: FileEncoding,
) -> DataFileWriter:
    """Open a new data file; `options.file_encoding` gives the encoding of files of a level.

    Raises:
        UnsupportedError: the format has no type for a column; nothing was created.
        UnavailableError: the store refused the file.
    """
    if encoding.format == PARQUET:
        return ParquetFileWriter(fs, path, schema, encoding, options.format_tuning)
    if encoding.format == ORC:
        return OrcFileWriter(
            fs, path, schema, encoding, options.format_tuning, target_bytes=options.target_file_size
        )
    return AvroFileWriter(fs, path, schema, encoding, options.format_tuning)


def format_of_path(path: str) -> str:
    """The format of a data file, from the last suffix of its name.

    Raises:
        UnsupportedError: the format is not implemented.
    """
    suffix = path.rsplit("/", 1)[-1].rpartition(".")[2].lower()
    if suffix == COUNTED:
        return PARQUET
    if suffix not in COMPRESSIONS:
        raise UnsupportedError(
            f"data file {path} is of a format that is not implemented; implemented are "
            f"{', '.join(COMPRESSIONS)}",
            path=path,
        )
    return suffix


def read_rows(
    fs: FileSystem,
    path: str,
    columns: Sequence[str],
    *,
    expected_rows: int | None = None,
    batch_rows: int | None = None,
    may_lack: Collection[str] = (),
    format_name: str | None = None,
    reading: Reading = FOREIGN,
) -> Iterator[pa.Table]:
    """Columns of a data file, by their names in the file, whole or batch by batch.

    `format_name` is the format where the path does not tell it. Columns of `may_lack` that the
    file does not have are left out. If it has none of the columns, the tables have another column
    of the file, for their number of rows.

    Types are the file's, which may differ from the table's: ORC stores timestamps in nanoseconds
    and times as integers, Avro has no small integers. `reading` says how timestamps are read.

    Raises:
        FileMissing: the file does not exist.
        CorruptionError: the file is not of the format in its name, is cut short, lacks a column, or
            holds another number of rows than its metadata says.
        UnsupportedError: the format, or something in the file, is not implemented, or it is not
            known which day a value is.
        UnfitValues: a declared type of `reading` does not hold a value.
        UnavailableError: the store failed; a retry may succeed.
    """
    streams = batch_rows is not None
    with open_data_file(
        fs, path, streams=streams, format_name=format_name, reading=reading
    ) as file:
        held = set(file.column_names)
        asked = [name for name in columns if name in held or name not in may_lack]
        _check_rows_and_columns(file, path, asked, expected_rows)
        yield from file.tables(asked or file.column_names[:1], batch_rows)


@dataclass(frozen=True, slots=True)
class WantedPieces:
    """The pieces of files that `may_hold` takes, by the bounds of the columns `bounded`.

    With `any_writer` bounds are used only if the file says in which order they are.
    """

    bounded: Sequence[str]
    may_hold: Callable[[ColumnBounds], bool]
    any_writer: bool = False


def read_pieces(
    fs: FileSystem,
    path: str,
    columns: Sequence[str],
    *,
    expected_rows: int,
    wanted: WantedPieces,
    batch_rows: int | None = None,
    may_lack: Collection[str] = (),
    reading: Reading = FOREIGN,
) -> Iterator[tuple[int, pa.Table]]:
    """The pieces of a data file that may hold some rows, each with its first row's number.

    A piece is a row group of a Parquet file or a stripe of an ORC file, or a batch of one. An Avro
    file is read whole, since it has no such bounds.

    Raises:
        FileMissing, CorruptionError, UnsupportedError: as `read_rows`.
    """
    streams = batch_rows is not None
    with open_data_file(
        fs, path, streams=streams, any_writer=wanted.any_writer, reading=reading
    ) as file:
        held = set(file.column_names)
        asked = [name for name in columns if name in held or name not in may_lack]
        _check_rows_and_columns(file, path, asked, expected_rows)
        asked = asked or list(file.column_names[:1])
        if isinstance(file, ParquetFileReader | OrcFileReader):
            yield from file.row_groups(asked, wanted.bounded, wanted.may_hold, batch_rows)
        elif wanted.may_hold({}):
            start = 0
            for rows in file.tables(asked, batch_rows):
                yield start, rows
                start += rows.num_rows


def read_whole_days(
    fs: FileSystem, path: str, columns: Sequence[str], *, batch_rows: int | None
) -> Iterator[pa.Table]:
    """The columns of a Parquet file with INT96, with whole days in place of timestamps.

    Its tables have the rows of those of `read_rows`. There are none if no column has INT96.

    Raises:
        FileMissing, CorruptionError: as `read_rows`.
    """
    streams, reading = batch_rows is not None, Reading(of_table=True)
    with open_data_file(fs, path, streams=streams, reading=reading) as file:
        assert isinstance(file, ParquetFileReader)
        held = set(file.column_names)
        yield from file.whole_days([name for name in columns if name in held], batch_rows)


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself: its length, rows, columns, and bounds of some columns.

    Only Parquet files have bounds and counts of nulls, and only if their writer stored them and is
    known to store them right. Of `uncertain` columns the values must be read, to know whether they
    are what they are stored as and fit into the type that the schema shows.
    """

    file_size: int
    row_count: int
    bounds: ColumnBounds
    schema: pa.Schema
    null_counts: Mapping[str, int]
    uncertain: Sequence[str]


def read_footer(fs: FileSystem, path: str, bounded: Sequence[str] = ()) -> Footer:
    """Read a data file's own row count and bounds from its footer, or its Avro blocks.

    Bounds are given for the columns `bounded` that have any in a Parquet file; other formats have
    none.

    Raises:
        FileMissing: the file does not exist.
        CorruptionError: the file is not of the format in its name, or is cut short.
        UnsupportedError: the format is not implemented, or decimals are too wide.
    """
    name = format_of_path(path)
    with translated_reads(path), fs.open_input(path) as source:
        size = int(source.seek(0, SEEK_END))
        source.seek(0)
        file = _reader(name, source, path, streams=True, file_size=size, reading=FOREIGN)
        known: ColumnBounds = {}
        nulls: Mapping[str, int] = {}
        if isinstance(file, ParquetFileReader):
            file.check_decimals(path)
            known, nulls = file.bounds(bounded), file.null_counts(bounded)
        return Footer(size, file.row_count, known, file.schema, nulls, file.uncertain)


def stored_schema_of(schema: pa.Schema, options: TableOptions, format_name: str) -> pa.Schema:
    """How a file of a format that this library writes with a schema describes its columns."""
    sink = _Sink()
    encoding = FileEncoding(format_name, "none", f".{format_name}")
    writer = open_data_file_writer(
        cast(FileSystem, sink), f"empty.{format_name}", schema, options, encoding
    )
    writer.write(schema.empty_table())
    writer.close()
    source = pa.BufferReader(sink.data.getvalue())
    return _reader(format_name, source, writer.path, streams=True, reading=FOREIGN).schema


class _Sink:
    """The one output of a writer, kept in memory."""

    def __init__(self) -> None:
        self.data = _Kept()

    def open_output(self, path: str) -> BytesIO:
        return self.data


class _Kept(BytesIO):
    def close(self) -> None:
        """Keep the bytes."""


def _check_rows_and_columns(
    file: DataFileReader, path: str, columns: Sequence[str], expected_rows: int | None
) -> None:
    if expected_rows is not None and file.row_count != expected_rows:
        raise CorruptionError(
            f"data file {path} holds {file.row_count} rows, its manifest says {expected_rows}",
            path=path,
        )
    there = set(file.column_names)
    missing = [name for name in columns if name not in there]
    if missing:
        raise CorruptionError(
            f"data file {path} lacks column {missing[0]!r} that its schema has", path=path
        )


@contextmanager
def open_data_file(
    fs: FileSystem,
    path: str,
    *,
    streams: bool,
    format_name: str | None = None,
    any_writer: bool = False,
    reading: Reading = FOREIGN,
) -> Iterator[DataFileReader]:
    """The open file; errors of reading are raised as storage errors.

    With `streams`, memory holds a part of the file at a time. With `any_writer` the bounds of
    pieces are used only if the file says in which order they are.

    Raises:
        as `read_rows`.
    """
    name = format_name or format_of_path(path)
    with translated_reads(path), fs.open_input(path) as source:
        size = None
        if any_writer and name == PARQUET:
            size = int(source.seek(0, SEEK_END))
            source.seek(0)
        yield _reader(name, source, path, streams=streams, file_size=size, reading=reading)


@contextmanager
def translated_reads(path: str) -> Iterator[None]:
    """Raise what goes wrong as a file is read as an error of the storage library."""
    try:
        yield
    except FileMissing as error:
        raise FileMissing(
            f"data file {path} is missing; if the snapshot it belongs to was expired while being "
            "read, read again from the latest",
            path=path,
        ) from error
    except (pa.ArrowException, OSError) as error:
        # Arrow raises OSError for damage too. Only errors of the system have a number, which ORC's
        # have in their text.
        if _SYSTEM_ERROR.search(str(error)) or getattr(error, "errno", None) is not None:
            raise UnavailableError(
                f"data file {path} cannot be read now: {error}; try again", path=path
            ) from error
        raise CorruptionError(f"data file {path} cannot be read: {error}", path=path) from error


def _reader(
    name: str,
    source: Any,
    path: str,
    *,
    streams: bool,
    file_size: int | None = None,
    reading: Reading,
) -> DataFileReader:
    if name == PARQUET:
        return ParquetFileReader(
            source, path=path, streams=streams, file_size=file_size, reading=reading
        )
    if name == ORC:
        return OrcFileReader(source, path=path, reading=reading)
    assert name == AVRO
    return AvroFileReader(source, path=path, reading=reading)
