"""What a data file is to the rest of storage, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Protocol

import pyarrow as pa

from lakewright.storage.errors import UnavailableError
from lakewright.storage.files.remote_files import StoreOutput


class DataFileWriter(Protocol):
    """One data file being written; nothing of it counts until a commit names it."""

    path: str
    row_count: int

    @property
    def written_bytes(self) -> int:
        """Bytes that have reached the store; what is buffered is not counted."""
        ...

    def write(self, rows: pa.Table) -> None:
        """Append rows of the schema.

        Raises:
            InvalidRows: a value cannot be held by the format.
            UnavailableError: the store refused the bytes.
        """
        ...

    def close(self) -> int:
        """Finish the file; its size in bytes.

        Raises:
            UnavailableError: the store refused the bytes.
        """
        ...

    def abandon(self) -> None:
        """Let go of the file after a failure; whoever opened it deletes it."""
        ...


class DataFileReader(Protocol):
    """One data file that is open; it reads from the source it was given."""

    row_count: int
    column_names: Sequence[str]

    def tables(self, columns: Sequence[str], batch_rows: int | None) -> Iterator[pa.Table]:
        """Columns in the order asked for: all rows in one table, or at most `batch_rows` in each.

        With `batch_rows`, memory holds one piece of the file at a time: some rows of a Parquet
        file, a stripe of an ORC file, a block of an Avro file.
        """
        ...


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Say of a store's refusal which file it was about."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"file {path} cannot be written: {error}", path=path) from error


def let_go(sink: IO[bytes]) -> None:
    """Close a file that nobody wants; one that closing would make visible is dropped instead."""
    if isinstance(sink, StoreOutput):
        sink.discard()
    else:
        sink.close()
