"""Parquet data files, written so that every Paimon reader takes them.

Decimals of up to 18 digits are integers, and timestamps finer than microseconds are INT96, as
readers of the format expect (`ParquetSchemaConverter`). INT96 is read by a footer that calls it
bytes, since the library's own decoder wraps (`codec/int96.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.storage.codec.arrow_cast import map_leaves, plain_lists
from lakewright.storage.codec.arrow_timestamps import (
    OutOfRange,
    check_fits_nanoseconds,
    holds_timestamps,
)
from lakewright.storage.codec.hybrid_calendar import parquet_calendar
from lakewright.storage.codec.int96 import decoded_int96, whole_days_of_int96
from lakewright.storage.codec.parquet_footer import MAGIC, TAIL_BYTES, footer_with_raw_int96
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import UnfitValues, UnsupportedError
from lakewright.storage.files.data_file import (
    FOREIGN,
    ColumnBounds,
    Reading,
    as_declared,
    columns_of_moments,
    in_calendar_of_format,
    let_go,
    writing,
)
from lakewright.storage.files.parquet_trust import (
    is_right_writer,
    is_signed_integer,
    names_orders,
)
from lakewright.storage.spec.file_format import FileEncoding, FormatTuning

_INT96 = "INT96"
# The types of a column as bytes, and as the library would decode it.
_Kinds: TypeAlias = tuple[pa.DataType, pa.DataType]
# Bounds of floating numbers ignore NaN, and INT96 has no order.
_WITHOUT_BOUNDS = ("FLOAT", "DOUBLE", _INT96)
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

    def __init__(
        self,
        source: Any,
        *,
        path: str,
        streams: bool,
        file_size: int | None = None,
        reading: Reading = FOREIGN,
    ) -> None:
        """With `file_size` the file may be of any writer, and the end of its footer is read too."""
        self._source = source
        self._path = path
        self._streams = streams
        self._file_size = file_size
        self._reading = reading
        self._file = self._opened(None)
        metadata = self._file.metadata
        self._data, self._int96 = self._file, dict[str, _Kinds]()
        if _may_have_int96(self._file):
            self._data = self._opened(_with_raw_int96(metadata))
            self._int96 = _int96_columns(self._data.schema_arrow, self._file.schema_arrow)
        self._calendar = reading.calendar(parquet_calendar(metadata.metadata or {}))
        self.row_count = int(metadata.num_rows)
        self.piece_count = int(metadata.num_row_groups)
        self.column_names: Sequence[str] = self._file.schema_arrow.names
        marked = () if self._calendar is None else columns_of_moments(self._file.schema_arrow)
        self.uncertain: Sequence[str] = tuple(dict.fromkeys((*self._int96, *marked)))

    def _opened(self, metadata: pq.FileMetaData | None) -> pq.ParquetFile:
        # Without buffering, reading some rows of a column loads its whole row group.
        return pq.ParquetFile(
            self._source,
            metadata=metadata,
            buffer_size=_READ_BUFFER_BYTES if self._streams else 0,
            pre_buffer=not self._streams,
            page_checksum_verification=True,
        )

    @property
    def schema(self) -> pa.Schema:
        return self._as_declared(self._file.schema_arrow.empty_table()).schema

    def tables(
        self, columns: Sequence[str], batch_rows: int | None, pieces: Sequence[int] | None = None
    ) -> Iterator[pa.Table]:
        yield from map(self._as_read, self._tables(columns, batch_rows, pieces))

    def whole_days(self, columns: Sequence[str], batch_rows: int | None) -> Iterator[pa.Table]:
        """Rows as of `tables`, of the columns with INT96, with whole days in place of timestamps.

        They prove the timestamps: their arithmetic cannot leave 64 bits.
        """
        chosen = [name for name in columns if name in self._int96]
        if not chosen:
            return
        kinds = [_in_place_of_int96(*self._int96[name], pa.int64()) for name in chosen]

        def days(array: pa.Array, target: pa.DataType) -> pa.Array:
            is_other = array.type.equals(target)
            return array if is_other else whole_days_of_int96(array, self._calendar)

        for raw in self._tables(chosen, batch_rows, None):
            parts = zip(raw.columns, kinds, strict=True)
            yield pa.table([map_leaves(part, kind, days) for part, kind in parts], names=chosen)

    def _tables(
        self, columns: Sequence[str], batch_rows: int | None, pieces: Sequence[int] | None
    ) -> Iterator[pa.Table]:
        """The rows with INT96 as bytes."""
        asked = list(columns)
        if batch_rows is not None:
            for batch in self._data.iter_batches(
                batch_size=batch_rows, row_groups=pieces, columns=asked
            ):
                yield pa.Table.from_batches([batch])
        elif pieces is None:
            yield self._data.read(columns=asked)
        else:
            yield self._data.read_row_groups(pieces, columns=asked)

    def _as_read(self, rows: pa.Table) -> pa.Table:
        """The rows with their timestamps, in the format's calendar."""
        for name, kinds in self._int96.items():
            if name in rows.column_names:
                index = rows.column_names.index(name)
                rows = rows.set_column(index, name, self._decoded(rows.column(index), kinds, name))
        return self._as_declared(rows)

    def _as_declared(self, rows: pa.Table) -> pa.Table:
        found = self._calendar
        if found is not None:
            rows = in_calendar_of_format(rows, lambda: found, path=self._path)
        return as_declared(rows, self._reading, path=self._path, of_utc=self._int96)

    def _decoded(self, column: pa.ChunkedArray, kinds: _Kinds, name: str) -> pa.ChunkedArray:
        """A column with its INT96 as nanoseconds, or as microseconds if that does not hold them."""
        cut = name in self._reading.cut

        def leaf(array: pa.Array, target: pa.DataType) -> pa.Array:
            if array.type.equals(target):
                return array
            return decoded_int96(
                array, target, self._calendar, cut=cut, column=name, path=self._path
            )

        try:
            return map_leaves(column, _in_place_of_int96(*kinds, pa.timestamp("ns")), leaf)
        except OutOfRange as error:
            far = error
        try:
            return map_leaves(column, _in_place_of_int96(*kinds, pa.timestamp("us")), leaf)
        except OutOfRange as error:
            raise UnfitValues(
                f"column {name} of data file {self._path} holds {far.value}, which nanoseconds of "
                f"64 bits do not reach, beside {error.value}, of which microseconds do not hold "
                "all digits; alter the column of the table to TIMESTAMP(6), which leaves these "
                "digits out, write the file again, or leave the column out",
                path=self._path,
                column=name,
                value=far.value,
            ) from error

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
            told = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
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
            for rows in self.tables(columns, batch_rows, [number]):
                yield at, rows
                at += rows.num_rows

    def _trusted(self, leaves: dict[str, int]) -> dict[str, int]:
        """The columns whose bounds may be used."""
        if self._calendar is not None:
            # Bounds of days are in the file's calendar.
            kinds = {field.name: field.type for field in self._file.schema_arrow}
            leaves = {
                name: index
                for name, index in leaves.items()
                if self._calendar.recount_of(kinds[name]) is None
            }
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


def _may_have_int96(file: pq.ParquetFile) -> bool:
    """Whether the text of the schema names the type; to ask each column takes longer."""
    return " int96 " in repr(file.schema)


def _with_raw_int96(metadata: pq.FileMetaData) -> pq.FileMetaData:
    """The footer of a file, by which the library reads INT96 as bytes."""
    sink = BytesIO()
    metadata.write_metadata_file(sink)
    data = sink.getvalue()
    length = int.from_bytes(data[-TAIL_BYTES : -len(MAGIC)], "little")
    footer = footer_with_raw_int96(data[-TAIL_BYTES - length : -TAIL_BYTES])
    tail = len(footer).to_bytes(TAIL_BYTES - len(MAGIC), "little") + MAGIC
    return pq.read_metadata(BytesIO(MAGIC + footer + tail))


def _int96_columns(raw: pa.Schema, own: pa.Schema) -> dict[str, _Kinds]:
    """The columns with INT96, with their types as bytes and as the library would decode them."""
    pairs = zip(raw, own, strict=True)
    return {
        field.name: (field.type, other.type)
        for field, other in pairs
        if not field.type.equals(other.type)
    }


def _in_place_of_int96(raw: pa.DataType, own: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """The type of a column with a type in place of INT96, and with plain lists."""
    return plain_lists(_replaced(raw, own, kind))


def _replaced(raw: pa.DataType, own: pa.DataType, kind: pa.DataType) -> pa.DataType:
    def inner(field: pa.Field, other: pa.Field) -> pa.Field:
        return field.with_type(_replaced(field.type, other.type, kind))

    if pa.types.is_struct(raw):
        return pa.struct(list(map(inner, raw, own)))
    if pa.types.is_map(raw):
        keys = inner(raw.key_field, own.key_field)
        return pa.map_(keys, inner(raw.item_field, own.item_field))
    if pa.types.is_nested(raw):
        return pa.list_(inner(raw.value_field, own.value_field))
    return raw if raw.equals(own) else kind


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
