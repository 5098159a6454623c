"""Protocols of data files that are read and written, the same for every format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

import pyarrow as pa

from lakewright.storage.codec.arrow_cast import map_leaves, plain_lists
from lakewright.storage.codec.arrow_timestamps import (
    OutOfRange,
    holds_moments,
    timestamps_as_declared,
    unfit_timestamp,
)
from lakewright.storage.codec.hybrid_calendar import HybridCalendar, may_be_before_switch
from lakewright.storage.errors import UnavailableError
from lakewright.storage.files.remote_files import StoreOutput

# Bounds of some columns, by name.
ColumnBounds = Mapping[str, tuple[Any, Any]]


class DataFileWriter(Protocol):
    """One data file being written; it has no effect until a commit names it."""

    path: str
    row_count: int

    @property
    def written_bytes(self) -> int:
        """Bytes sent to the store, without buffered bytes."""
        ...

    def write(self, rows: pa.Table) -> None:
        """Append rows of the schema.

        Raises:
            InvalidRows: the format cannot hold a value.
            UnavailableError: the store refused the bytes.
        """
        ...

    def close(self) -> int:
        """Finish the file and return its size in bytes.

        Raises:
            UnavailableError: the store refused the bytes.
        """
        ...

    def abandon(self) -> None:
        """Close the file after a failure; the caller that opened it deletes it."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """How the moments of a file are read.

    Timestamps of columns with declared `types` come in the units of these; a value that they do
    not hold is refused by name, or with `unfit_stay` leaves its column in the file's units. Without
    `types`, they come in the file's units, and those of INT96 in nanoseconds, or in microseconds if
    there are some that nanoseconds do not reach. Then those of the columns `cut` may lose the
    digits that microseconds do not hold.

    `of_table` is for files of Paimon tables, whose ORC writers mark a calendar that they do not
    mean. Without `recounts`, days that would be counted anew are refused, since other readers would
    take them as they are stored.
    """

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    cut: Collection[str] = ()
    unfit_stay: bool = False
    of_table: bool = False
    recounts: bool = True

    def calendar(self, found: HybridCalendar | None) -> HybridCalendar | None:
        """The calendar of a file, as far as it is read."""
        if found is None or self.recounts:
            return found
        return found.refusing("and other readers take days as they are stored")


# A file of any writer, in its own types.
FOREIGN = Reading()


def columns_of_moments(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that hold dates or timestamps, at any depth."""
    return tuple(field.name for field in schema if holds_moments(field.type))


def in_calendar_of_format(
    rows: pa.Table, calendar: Callable[[], HybridCalendar | None], *, path: str
) -> pa.Table:
    """Rows of a file with its days counted as the format counts them.

    `calendar` is asked if there is a value that may be concerned.

    Raises:
        UnsupportedError: it is not known which day a value is.
    """
    for index, name in enumerate(rows.column_names):
        column = rows.column(index)

        def recounted(array: pa.Array, _: pa.DataType, name: str = name) -> pa.Array:
            found = calendar() if may_be_before_switch(array) else None
            return array if found is None else found.recounted(array, column=name, path=path)

        if holds_moments(column.type):
            found = map_leaves(column, plain_lists(column.type), recounted)
            rows = rows.set_column(index, name, found)
    return rows


def as_declared(
    rows: pa.Table, reading: Reading, *, path: str, of_utc: Collection[str] = ()
) -> pa.Table:
    """Rows of a file with timestamps of the declared types.

    The columns `of_utc` have timestamps without a zone that count from 1970 in UTC.

    Raises:
        UnfitValues: a declared type does not hold a value.
    """
    for index, name in enumerate(rows.column_names if reading.types else ()):
        declared = reading.types.get(name)
        if declared is None:
            continue
        try:
            found = timestamps_as_declared(
                rows.column(index),
                declared,
                of_utc=name in of_utc,
                unfit_stay=reading.unfit_stay,
            )
        except OutOfRange as error:
            raise unfit_timestamp(error, column=name, path=path) from error
        rows = rows.set_column(index, name, found)
    return rows


class DataFileReader(Protocol):
    """One open data file.

    Its pieces are the row groups of a Parquet file, the stripes of an ORC file, or all of an Avro
    file. Values of `uncertain` columns are not sure to be what they are stored as, or to fit into
    a type that the file's schema allows.
    """

    row_count: int
    column_names: Sequence[str]
    piece_count: int
    uncertain: Sequence[str]

    @property
    def schema(self) -> pa.Schema:
        """The columns in the types in which they are read."""
        ...

    def tables(
        self,
        columns: Sequence[str],
        batch_rows: int | None,
        pieces: Sequence[int] | None = None,
    ) -> Iterator[pa.Table]:
        """Columns in the requested order: all rows in one table, or at most `batch_rows` in each.

        With `batch_rows`, memory holds a part of the file at a time: rows of a Parquet file, a
        stripe of an ORC file, a block of an Avro file. `pieces` are those to read, by their
        numbers.
        """
        ...


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Add the file's path to a store's error."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"file {path} cannot be written: {error}", path=path) from error


def let_go(sink: IO[bytes]) -> None:
    """Close an abandoned file; discard it if closing would make it visible."""
    if isinstance(sink, StoreOutput):
        sink.discard()
    else:
        sink.close()
