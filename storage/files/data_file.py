"""Protocols of data files that are read and written, the same for every format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, Protocol

import pyarrow as pa

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


class DataFileReader(Protocol):
    """One open data file."""

    row_count: int
    column_names: Sequence[str]

    @property
    def schema(self) -> pa.Schema:
        """The columns in the types in which they are read."""
        ...

    def tables(self, columns: Sequence[str], batch_rows: int | None) -> Iterator[pa.Table]:
        """Columns in the requested order: all rows in one table, or at most `batch_rows` in each.

        With `batch_rows`, memory holds one piece of the file at a time: rows of a Parquet file, a
        stripe of an ORC file, a block of an Avro file.
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
