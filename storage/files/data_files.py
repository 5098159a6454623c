"""Data files: Parquet written so that every Paimon reader takes it, and read back.

Decimals of up to 18 digits are integers and timestamps beyond microseconds are
INT96, since that is what readers of the format expect (`ParquetSchemaConverter`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewright.storage.env import FileSystem
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    InvalidRows,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.spec.options import TableOptions

PARQUET_SUFFIX = ".parquet"
# Rows per row group: small enough to prune within a file, large enough to compress.
_ROW_GROUP_ROWS = 1 << 20


class ParquetFileWriter:
    """One data file being written; nothing of it counts until a commit names it."""

    def __init__(self, fs: FileSystem, path: str, schema: pa.Schema, options: TableOptions) -> None:
        self.fs = fs
        self.path = path
        self.row_count = 0
        self._schema = schema
        self._needs_int96 = any(_holds_nanoseconds(field.type) for field in schema)
        self._sink: IO[bytes] = fs.open_output(path)
        compression = options.file_compression
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=compression,
            compression_level=options.file_compression_level if compression == "zstd" else None,
            store_decimal_as_integer=True,
            use_deprecated_int96_timestamps=self._needs_int96,
        )

    def write(self, rows: pa.Table) -> None:
        """Append rows of the schema.

        Raises:
            InvalidRows: a timestamp lies outside of what INT96 nanoseconds hold.
            UnavailableError: the store refused the bytes.
        """
        if self._needs_int96:
            _check_nanosecond_range(rows)
        try:
            self._writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
        except OSError as error:
            raise UnavailableError(f"file {self.path} cannot be written: {error}") from error
        self.row_count += rows.num_rows

    @property
    def written_bytes(self) -> int:
        """Bytes that have reached the store; what is buffered is not counted."""
        return int(self._sink.tell())

    def close(self) -> int:
        """Finish the file; its size in bytes."""
        try:
            self._writer.close()
            size = int(self._sink.tell())
            self._sink.close()
        except OSError as error:
            raise UnavailableError(f"file {self.path} cannot be written: {error}") from error
        return size

    def abandon(self) -> None:
        """Let go of the file after a failure; whoever opened it deletes it."""
        # Otherwise the writer would add its footer when it is collected, to a file that is closed.
        self._writer.is_open = False
        self._sink.close()


def _holds_nanoseconds(arrow_type: pa.DataType) -> bool:
    if pa.types.is_timestamp(arrow_type):
        return bool(arrow_type.unit == "ns")
    inner = (arrow_type.field(index).type for index in range(arrow_type.num_fields))
    return any(_holds_nanoseconds(each) for each in inner)


def _check_nanosecond_range(rows: pa.Table) -> None:
    limits = np.iinfo(np.int64)
    for name in rows.column_names:
        for array in (part for chunk in rows.column(name).chunks for part in _timestamps(chunk)):
            per_unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[array.type.unit]
            bounds = pc.min_max(array.cast(pa.int64())).as_py()
            for value in (bounds["min"], bounds["max"]):
                if value is not None and not limits.min <= value * per_unit <= limits.max:
                    raise InvalidRows(
                        f"column {name} holds a timestamp outside of the years 1677 to 2262; "
                        "files with a TIMESTAMP(7) or finer column cannot hold it"
                    )


def _timestamps(array: pa.Array) -> Iterator[pa.Array]:
    """An array of timestamps, or those nested in another."""
    if pa.types.is_timestamp(array.type):
        yield array
    elif pa.types.is_map(array.type):
        entries = array.filter(array.is_valid())
        yield from _timestamps(entries.keys)
        yield from _timestamps(entries.items)
    elif pa.types.is_list(array.type):
        yield from _timestamps(array.flatten())
    elif pa.types.is_struct(array.type):
        for member in array.filter(array.is_valid()).flatten():
            yield from _timestamps(member)


def read_rows(
    fs: FileSystem,
    path: str,
    columns: Sequence[str],
    *,
    expected_rows: int | None = None,
    batch_rows: int | None = None,
) -> Iterator[pa.Table]:
    """Columns of a data file by the names it holds them under, whole or batch by batch.

    Raises:
        FileMissing: it is not there.
        CorruptionError: it is no Parquet file, is cut short, lacks a column, or holds another
            number of rows than its metadata says.
        UnsupportedError: it is of another format.
    """
    if not path.endswith(PARQUET_SUFFIX):
        raise UnsupportedError(
            f"data file {path} is of a format that is not implemented; parquet is"
        )
    try:
        with fs.open_input(path) as source:
            file = pq.ParquetFile(source)
            if expected_rows is not None and file.metadata.num_rows != expected_rows:
                raise CorruptionError(
                    f"data file {path} holds {file.metadata.num_rows} rows, its manifest says "
                    f"{expected_rows}",
                    path=path,
                )
            held = set(file.schema_arrow.names)
            missing = [name for name in columns if name not in held]
            if missing:
                raise CorruptionError(
                    f"data file {path} lacks column {missing[0]!r} that its schema has", path=path
                )
            if batch_rows is None:
                yield file.read(columns=list(columns))
            else:
                for batch in file.iter_batches(batch_size=batch_rows, columns=list(columns)):
                    yield pa.Table.from_batches([batch])
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptionError(f"data file {path} cannot be read: {error}", path=path) from error
    except FileMissing as error:
        raise FileMissing(
            f"data file {path} is missing; if the snapshot it belongs to was expired while being "
            "read, read again from the latest",
            path=path,
        ) from error
