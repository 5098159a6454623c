"""Parquet data files, written so that every Paimon reader takes them.

Decimals of up to 18 digits are integers, and timestamps finer than microseconds are INT96, as
readers of the format expect (`ParquetSchemaConverter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.storage.codec.arrow_timestamps import check_fits_nanoseconds, holds_timestamps
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.data_file import ColumnBounds, let_go, writing
from lakewright.storage.files.parquet_trust import (
    is_right_writer,
    is_signed_integer,
    names_orders,
)
from lakewright.storage.spec.file_format import FileEncoding, FormatTuning

# Bounds of floating numbers ignore NaN, and INT96 has no order.
_WITHOUT_BOUNDS = ("FLOAT", "DOUBLE", "INT96")
# Rows per row group: small enough to prune within a file, large enough to compress.
_ROW_GROUP_ROWS = 1 << 20
# Decimals of more digits are no integers.
_LONGEST_INTEGER_DIGITS = 18
_MOST_DECIMAL_BYTES, _MOST_DECIMAL_DIGITS = 16, 38
# The size of pieces in which a column chunk is read.
_READ_BUFFER_BYTES = 1 << 20


class ParquetFileWriter:
    """One Parquet file being written."""

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        schema: pa.Schema,
        encoding: FileEncoding,
        tuning: FormatTuning,
    ) -> None:
        self.path = path
        self.row_count = 0
        self._row_group_bytes = tuning.parquet_row_group_bytes
        self._needs_int96 = any(holds_timestamps(field.type, unit="ns") for field in schema)
        level = tuning.parquet_zstd_level or tuning.zstd_level
        self._sink: IO[bytes] = fs.open_output(path)
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=encoding.compression,
            compression_level=level if encoding.compression == "zstd" else None,
            data_page_size=tuning.parquet_page_bytes,
            use_dictionary=tuning.parquet_dictionary and _with_dictionary(schema),
            # Without checksums, damage inside of a page would decode to other values, without an
            # error.
            write_page_checksum=True,
            store_decimal_as_integer=True,
            use_deprecated_int96_timestamps=self._needs_int96,
        )

    def write(self, rows: pa.Table) -> None:
        if self._needs_int96:
            check_fits_nanoseconds(rows, "files with a TIMESTAMP(7) or finer column")
        with writing(self.path):
            self._writer.write_table(rows, row_group_size=self._row_group_rows(rows))
        self.row_count += rows.num_rows

    def _row_group_rows(self, rows: pa.Table) -> int:
        if self._row_group_bytes is None or rows.num_rows == 0:
            return _ROW_GROUP_ROWS
        per_row = max(1, rows.nbytes // rows.num_rows)
        return max(1, min(_ROW_GROUP_ROWS, self._row_group_bytes // int(per_row)))

    @property
    def written_bytes(self) -> int:
        return int(self._sink.tell())

    def close(self) -> int:
        with writing(self.path):
            self._writer.close()
            size = int(self._sink.tell())
            self._sink.close()
        return size

    def abandon(self) -> None:
        # Otherwise the garbage collector would make the writer add its footer to a closed file.
        self._writer.is_open = False
        let_go(self._sink)


def _with_dictionary(schema: pa.Schema) -> bool | list[str]:
    """The leaves of columns that get a dictionary: all but decimals of more than 18 digits.

    Java's filter `=` looks for such a value in the dictionary by its shortest bytes, does not find
    those of full length, and leaves the row group out. Java's own files have no such dictionary.
    """
    if not any(map(_holds_long_decimals, schema.types)):
        return True
    with pa.BufferOutputStream() as sink:
        pq.write_table(schema.empty_table(), sink, store_decimal_as_integer=True)
        leaves = pq.ParquetFile(sink.getvalue()).schema
    found = (leaves.column(each) for each in range(len(leaves)))
    return [
        each.path
        for each in found
        if (each.physical_type, each.logical_type.type) != ("FIXED_LEN_BYTE_ARRAY", "DECIMAL")
    ]


def _holds_long_decimals(of: pa.DataType) -> bool:
    if pa.types.is_decimal(of):
        return bool(of.precision > _LONGEST_INTEGER_DIGITS)
    return any(_holds_long_decimals(of.field(each).type) for each in range(of.num_fields))


class ParquetFileReader:
    """One open Parquet file."""

    def __init__(self, source: Any, *, streams: bool, file_size: int | None = None) -> None:
        """With `file_size` the file may be of any writer, and the end of its footer is read too."""
        self._source = source
        self._file_size = file_size
        # Without buffering, reading some rows of a column loads its whole row group.
        self._file = pq.ParquetFile(
            source,
            buffer_size=_READ_BUFFER_BYTES if streams else 0,
            pre_buffer=not streams,
            page_checksum_verification=True,
        )
        self.row_count = int(self._file.metadata.num_rows)
        self.column_names: Sequence[str] = self._file.schema_arrow.names

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema_arrow

    def tables(self, columns: Sequence[str], batch_rows: int | None) -> Iterator[pa.Table]:
        if batch_rows is None:
            yield self._file.read(columns=list(columns))
            return
        for batch in self._file.iter_batches(batch_size=batch_rows, columns=list(columns)):
            yield pa.Table.from_batches([batch])

    def bounds(self, names: Sequence[str]) -> ColumnBounds:
        """The least and the greatest value of the columns that have bounds in every row group."""
        metadata = self._file.metadata
        found: dict[str, tuple[Any, Any]] = {}
        for name, index in self._trusted(self._leaves(names)).items():
            groups = range(metadata.num_row_groups)
            parts = [_bounds(metadata.row_group(group).column(index)) for group in groups]
            known = [part for part in parts if part is not None]
            if known and len(known) == len(parts):
                found[name] = (min(low for low, _ in known), max(high for _, high in known))
        return found

    def check_decimals(self, path: str) -> None:
        """Refuse decimals in more bytes than the library reads.

        Raises:
            UnsupportedError: names the first such column.
        """
        schema = self._file.schema
        for column in map(schema.column, range(len(schema))):
            is_decimal = column.logical_type.type == "DECIMAL"
            is_small = is_decimal and column.precision <= _MOST_DECIMAL_DIGITS
            if is_small and column.length > _MOST_DECIMAL_BYTES:
                raise UnsupportedError(
                    f"data file {path} holds column {column.path}, DECIMAL({column.precision}, "
                    f"{column.scale}), in {column.length} bytes, of which at most "
                    f"{_MOST_DECIMAL_BYTES} are read; write it again with fewer",
                    path=path,
                    column=column.path,
                )

    def null_counts(self, names: Sequence[str]) -> Mapping[str, int]:
        """The number of nulls of the columns for which every row group has it."""
        metadata = self._file.metadata
        found: dict[str, int] = {}
        if not is_right_writer(metadata.created_by):
            return found
        for name, index in self._leaves(names).items():
            chunks = [
                metadata.row_group(number).column(index)
                for number in range(metadata.num_row_groups)
            ]
            told = [each.statistics for each in chunks if each.is_stats_set]
            if len(told) == len(chunks) and all(each.has_null_count for each in told):
                found[name] = sum(each.null_count for each in told)
        return found

    def row_groups(
        self,
        columns: Sequence[str],
        bounded: Sequence[str],
        may_hold: Callable[[ColumnBounds], bool],
        batch_rows: int | None,
    ) -> Iterator[tuple[int, pa.Table]]:
        """The row groups that `may_hold` takes, each whole or in batches, with their first rows.

        `may_hold` gets the known bounds of the columns `bounded` for each row group.
        """
        metadata = self._file.metadata
        leaves = self._trusted(self._leaves(bounded))
        start = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            found = {name: _bounds(group.column(index)) for name, index in leaves.items()}
            known = {name: bounds for name, bounds in found.items() if bounds is not None}
            at, start = start, start + int(group.num_rows)
            if not may_hold(known):
                continue
            if batch_rows is None:
                yield at, self._file.read_row_group(number, columns=list(columns))
                continue
            for batch in self._file.iter_batches(
                batch_size=batch_rows, row_groups=[number], columns=list(columns)
            ):
                yield at, pa.Table.from_batches([batch])
                at += batch.num_rows

    def _trusted(self, leaves: dict[str, int]) -> dict[str, int]:
        """The columns whose bounds may be used."""
        schema = self._file.schema
        if all(is_signed_integer(schema.column(index)) for index in leaves.values()):
            return leaves
        if self._writer_is_right():
            return leaves
        return {
            name: index for name, index in leaves.items() if is_signed_integer(schema.column(index))
        }

    def _writer_is_right(self) -> bool:
        metadata = self._file.metadata
        if not is_right_writer(metadata.created_by):
            return False
        # Files of this table's writers name the orders: no request is spent on them.
        size, columns = self._file_size, metadata.num_columns
        return size is None or names_orders(self._source, size, columns)

    def _leaves(self, names: Sequence[str]) -> dict[str, int]:
        """The places of the column chunks of atomic columns.

        By position: a dotted path could mean the column `a.b` or the member `b` of `a`.
        """
        found: dict[str, int] = {}
        index = 0
        for field in self._file.schema_arrow:
            count = _leaf_count(field.type)
            if field.name in names and not field.type.num_fields:
                found[field.name] = index
            index += count
        return found


def _leaf_count(kind: pa.DataType) -> int:
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return sum(map(_leaf_count, inner)) if inner else 1


def _bounds(column: Any) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column chunk, None where the writer left them out."""
    if column.physical_type in _WITHOUT_BOUNDS or not column.is_stats_set:
        return None
    statistics = column.statistics
    if not statistics.has_min_max:
        return None
    try:
        low, high = statistics.min, statistics.max
    except (ValueError, OverflowError, pa.ArrowException):
        # Bytes that are no value of the type, such as a text that was cut within a character.
        return None
    return (low, high) if low <= high else None
