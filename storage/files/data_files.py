"""Data files of every format: written in the one asked for, read by the one their suffix names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import SEEK_END
from typing import Any

import pyarrow as pa

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.avro_files import AvroFileReader, AvroFileWriter
from lakewright.storage.files.data_file import DataFileReader, DataFileWriter
from lakewright.storage.files.orc_files import OrcFileReader, OrcFileWriter
from lakewright.storage.files.parquet_files import (
    ColumnBounds,
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
    """A new data file; which encoding those of a level have says `options.file_encoding`.

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
    """The format of a data file, which the last suffix of its name says.

    Raises:
        UnsupportedError: it is of none that is implemented.
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
) -> Iterator[pa.Table]:
    """Columns of a data file by the names it holds them under, whole or batch by batch.

    Types are those the file has, which may be others than the table's: ORC knows timestamps as
    nanoseconds and times as integers, Avro has no small integers.

    Raises:
        FileMissing: it is not there.
        CorruptionError: it is no file of the format its name says, is cut short, lacks a column,
            or holds another number of rows than its metadata says.
        UnsupportedError: it is of another format, or holds something that is not read.
        UnavailableError: the store failed, and may not the next time.
    """
    with _opened(fs, path, streams=batch_rows is not None) as file:
        _check_rows_and_columns(file, path, columns, expected_rows)
        yield from file.tables(columns, batch_rows)


def read_pieces(
    fs: FileSystem,
    path: str,
    columns: Sequence[str],
    *,
    expected_rows: int,
    bounded: Sequence[str],
    may_hold: Callable[[ColumnBounds], bool],
) -> Iterator[tuple[int, pa.Table]]:
    """Those pieces of a data file that may hold what is sought, each with its first row's number.

    Pieces are the row groups of Parquet files; `may_hold` is asked for each, with what is known
    of the columns `bounded`. Other formats know nothing of their pieces and are one.

    Raises:
        FileMissing, CorruptionError, UnsupportedError: as `read_rows`.
    """
    with _opened(fs, path, streams=False) as file:
        _check_rows_and_columns(file, path, columns, expected_rows)
        if isinstance(file, ParquetFileReader):
            yield from file.row_groups(columns, bounded, may_hold)
        elif may_hold({}):
            for rows in file.tables(columns, None):
                yield 0, rows


@dataclass(frozen=True, slots=True)
class Footer:
    """What the store and a file say of the file: its length, its rows, bounds of some columns."""

    file_size: int
    row_count: int
    bounds: ColumnBounds


def read_footer(fs: FileSystem, path: str, bounded: Sequence[str] = ()) -> Footer:
    """What a data file says of itself: in its footer, or in Avro files block by block.

    Bounds are those of the columns `bounded` that Parquet files have any of; others have none.

    Raises:
        FileMissing: it is not there.
        CorruptionError: it is no file of the format its name says, or is cut short.
        UnsupportedError: it is of another format.
    """
    name = format_of_path(path)
    with _translated(path), fs.open_input(path) as source:
        size = int(source.seek(0, SEEK_END))
        source.seek(0)
        file = _reader(name, source, path, streams=True)
        known = file.bounds(bounded) if isinstance(file, ParquetFileReader) else {}
        return Footer(size, file.row_count, known)


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
def _opened(fs: FileSystem, path: str, *, streams: bool) -> Iterator[DataFileReader]:
    """The file; what goes wrong while it is read is told in storage's words."""
    name = format_of_path(path)
    with _translated(path), fs.open_input(path) as source:
        yield _reader(name, source, path, streams=streams)


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except FileMissing as error:
        raise FileMissing(
            f"data file {path} is missing; if the snapshot it belongs to was expired while being "
            "read, read again from the latest",
            path=path,
        ) from error
    except (pa.ArrowException, OSError) as error:
        # Damage is an OSError too; only the system gives a number, which ORC keeps in its text.
        if _SYSTEM_ERROR.search(str(error)) or getattr(error, "errno", None) is not None:
            raise UnavailableError(
                f"data file {path} cannot be read now: {error}; try again", path=path
            ) from error
        raise CorruptionError(f"data file {path} cannot be read: {error}", path=path) from error


def _reader(name: str, source: Any, path: str, *, streams: bool) -> DataFileReader:
    if name == PARQUET:
        return ParquetFileReader(source, streams=streams)
    if name == ORC:
        return OrcFileReader(source, path=path)
    assert name == AVRO
    return AvroFileReader(source, path=path)
