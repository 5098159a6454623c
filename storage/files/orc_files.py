"""ORC data files, with the types that Paimon's other writers choose (`OrcTypeUtil`).

A time is an integer of milliseconds. The attribute `paimon.id` holds the field ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import IO, Any

import pyarrow as pa
from pyarrow import orc

from lakewright.storage.codec.arrow_cast import compact_column, map_leaves, plain_lists
from lakewright.storage.codec.arrow_timestamps import (
    check_fits_nanoseconds,
    check_whole_seconds_before_1970,
)
from lakewright.storage.codec.arrow_types import FIELD_ID
from lakewright.storage.codec.hybrid_calendar import HybridCalendar, orc_calendar
from lakewright.storage.codec.orc_timestamps import NotDecoded, OrcTimestamps
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import CorruptionError, StorageError, UnsupportedError
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
from lakewright.storage.spec.file_format import FileEncoding, FormatTuning

# A stripe is read whole, and takes several times its size in memory.
_STRIPE_BYTES = 16 * 1024 * 1024
# Sizes of compressed blocks are multiples of this, below 8 MB.
_COMPRESS_BLOCK_BYTES = 64 * 1024
_MOST_COMPRESS_BLOCKS = 127
_ROW_INDEX_STRIDE = 10_000
# Rows that the library's writer takes in one batch.
_WRITE_BATCH_ROWS = 1 << 14
# The library's names of compressions that table options call differently.
_CODECS = {"none": "uncompressed"}
_PAIMON_ID = b"paimon.id"
_JAVA = "ORC_JAVA"
# Spark's timestamps without a zone are whole numbers with this attribute.
_SPARK_TYPE, _SPARK_LOCAL = b"spark.sql.catalyst.type", b"timestamp_ntz"


class OrcFileWriter:
    """One ORC file being written; its stripes are small enough for files of the target size."""

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        schema: pa.Schema,
        encoding: FileEncoding,
        tuning: FormatTuning,
        *,
        target_bytes: int,
    ) -> None:
        self.path = path
        self.row_count = 0
        self._schema = pa.schema([_stored_field(field) for field in schema])
        self._sink: IO[bytes] = fs.open_output(path)
        self._library_sink = _LibrarySink(self._sink)
        self._writer = orc.ORCWriter(
            self._library_sink,
            compression=_CODECS.get(encoding.compression, encoding.compression),
            stripe_size=min(tuning.orc_stripe_bytes or _STRIPE_BYTES, target_bytes),
            compression_block_size=_compress_block_bytes(tuning),
            row_index_stride=tuning.orc_row_index_stride or _ROW_INDEX_STRIDE,
            dictionary_key_size_threshold=tuning.orc_dictionary_threshold,
            batch_size=_WRITE_BATCH_ROWS,
        )

    def write(self, rows: pa.Table) -> None:
        check_fits_nanoseconds(rows, "ORC files")
        # The library would write negative fractions, which other readers reject; Java's writer
        # moves such values by a second.
        check_whole_seconds_before_1970(rows, "ORC files")
        columns = [
            compact_column(column, field.type)
            for column, field in zip(rows.columns, self._schema, strict=True)
        ]
        with writing(self.path):
            self._writer.write(pa.table(columns, schema=self._schema))
            self._library_sink.check()
        self.row_count += rows.num_rows

    @property
    def written_bytes(self) -> int:
        return int(self._sink.tell())

    def close(self) -> int:
        with writing(self.path):
            self._writer.close()
            self._library_sink.check()
            size = int(self._sink.tell())
            self._sink.close()
        return size

    def abandon(self) -> None:
        # Otherwise the garbage collector would make the writer add its footer to a closed file.
        self._writer.is_open = False
        let_go(self._sink)


class _LibrarySink:
    """The sink given to the library, which keeps a write error for `check`.

    The library aborts the process if the last bytes of a file cannot be written.
    """

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._failure: Exception | None = None
        self.closed = False

    def check(self) -> None:
        """Raise the kept write error, if any."""
        if self._failure is not None:
            raise self._failure

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._failure is None:
            try:
                self._sink.write(data)
            except (StorageError, OSError) as error:
                self._failure = error
        return size

    def flush(self) -> None:
        """Do nothing: closing the file flushes it."""

    def tell(self) -> int:
        return int(self._sink.tell())

    def close(self) -> None:
        """Do nothing: the file writer closes it."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _compress_block_bytes(tuning: FormatTuning) -> int:
    """The nearest size that the library accepts; other sizes abort the process."""
    asked = tuning.orc_compress_block_bytes or _COMPRESS_BLOCK_BYTES
    blocks = asked // _COMPRESS_BLOCK_BYTES
    return _COMPRESS_BLOCK_BYTES * min(max(blocks, 1), _MOST_COMPRESS_BLOCKS)


def _stored_field(field: pa.Field) -> pa.Field:
    number = (field.metadata or {}).get(FIELD_ID)
    metadata = None if number is None else {_PAIMON_ID: number}
    # ORC has no NOT NULL columns, and a member is null where its struct is null.
    return pa.field(field.name, _stored_type(field.type), True, metadata)


def _stored_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_map(kind):
        key = _stored_field(kind.key_field).with_nullable(False)
        return pa.map_(key, _stored_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_stored_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_stored_field(member) for member in kind])
    return kind


def _with_local(field: pa.Field) -> pa.DataType:
    """The type of a column with timestamps where Spark has some without a zone."""
    kind = field.type
    if pa.types.is_int64(kind) and (field.metadata or {}).get(_SPARK_TYPE) == _SPARK_LOCAL:
        return pa.timestamp("us")
    if pa.types.is_struct(kind):
        return pa.struct([member.with_type(_with_local(member)) for member in kind])
    if pa.types.is_map(kind):
        keys = kind.key_field.with_type(_with_local(kind.key_field))
        return pa.map_(keys, kind.item_field.with_type(_with_local(kind.item_field)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_local(kind.value_field)))
    return kind


def _as_local(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array if array.type.equals(target) else array.view(target)


class OrcFileReader:
    """One open ORC file."""

    def __init__(self, source: Any, *, path: str, reading: Reading = FOREIGN) -> None:
        self._path = path
        self._source = source
        self._reading = reading
        self._file = orc.ORCFile(source)
        self.row_count = int(self._file.nrows)
        self.piece_count = int(self._file.nstripes)
        self.column_names: Sequence[str] = self._file.schema.names
        self._metadata = dict(self._file.metadata or {})
        self._is_paimon = reading.of_table or any(
            _PAIMON_ID in (field.metadata or {}) for field in self._file.schema
        )
        # Paimon's writers leave no metadata.
        self._is_marked = self._file.writer == _JAVA and bool(self._metadata or not self._is_paimon)
        self.uncertain: Sequence[str] = (
            columns_of_moments(self._file.schema) if self._is_marked else ()
        )
        local = {field.name: _with_local(field) for field in self._file.schema}
        self._local = {
            name: kind for name, kind in local.items() if kind != self._file.schema.field(name).type
        }

    @property
    def schema(self) -> pa.Schema:
        return self._as_read(self._file.schema.empty_table()).schema

    def tables(
        self, columns: Sequence[str], batch_rows: int | None, pieces: Sequence[int] | None = None
    ) -> Iterator[pa.Table]:
        yield from map(self._as_read, self._tables(columns, batch_rows, pieces))

    def _tables(
        self, columns: Sequence[str], batch_rows: int | None, pieces: Sequence[int] | None
    ) -> Iterator[pa.Table]:
        # The library also takes a name with a dot for the path of a member, so such a file is read
        # whole.
        asked = None if any("." in name for name in columns) else list(columns)
        stripes = range(self.piece_count) if pieces is None else pieces
        if batch_rows is None and pieces is None:
            try:
                yield self._file.read(columns=asked).select(list(columns))
            except pa.ArrowInvalid as error:
                yield pa.concat_tables([self._far(each, columns, error) for each in stripes])
            return
        for stripe in stripes:
            rows = self._stripe(stripe, columns, asked)
            for start in range(0, rows.num_rows, batch_rows or max(1, rows.num_rows)):
                yield rows.slice(start, batch_rows)
            # Dropped here, so that memory does not hold two stripes while the next is read.
            del rows

    def _as_read(self, rows: pa.Table) -> pa.Table:
        if self._is_marked:
            rows = in_calendar_of_format(rows, lambda: self._calendar, path=self._path)
        # Whole numbers are of no calendar, whatever they stand for.
        for name, kind in self._local.items():
            if name in rows.column_names:
                index = rows.column_names.index(name)
                column = map_leaves(rows.column(index), plain_lists(kind), _as_local)
                rows = rows.set_column(index, name, column)
        return as_declared(rows, self._reading, path=self._path)

    @cached_property
    def _calendar(self) -> HybridCalendar | None:
        """How the file counts; its tail and its stripes' ends are read for it."""
        try:
            decoder = OrcTimestamps(self._source)
            zones = decoder.zones()
        except NotDecoded as error:
            raise CorruptionError(
                f"data file {self._path} cannot be read: {error}", path=self._path
            ) from error
        found = orc_calendar(self._metadata, decoder.calendar, zones, of_paimon=self._is_paimon)
        return self._reading.calendar(found)

    def row_groups(
        self,
        columns: Sequence[str],
        bounded: Sequence[str],
        may_hold: Callable[[ColumnBounds], bool],
        batch_rows: int | None,
    ) -> Iterator[tuple[int, pa.Table]]:
        """The stripes that `may_hold` takes, each whole or in batches, with their first rows.

        `may_hold` gets the bounds of those columns `bounded` that hold whole numbers.
        """
        names = {
            self.column_names.index(name): name for name in bounded if name in self.column_names
        }
        try:
            decoder = OrcTimestamps(self._source)
            counts, bounds = decoder.row_counts, decoder.bounds(list(names))
        except NotDecoded:
            counts, bounds = [], []
        if sum(counts) != self.row_count:
            start = 0
            for rows in self.tables(columns, batch_rows):
                yield start, rows
                start += rows.num_rows
            return
        asked = None if any("." in name for name in columns) else list(columns)
        for stripe, known in enumerate(bounds):
            if not may_hold({names[column]: pair for column, pair in known.items()}):
                continue
            first = sum(counts[:stripe])
            rows = self._as_read(self._stripe(stripe, columns, asked))
            for start in range(0, rows.num_rows, batch_rows or max(1, rows.num_rows)):
                yield first + start, rows.slice(start, batch_rows)
            del rows

    def _stripe(self, stripe: int, columns: Sequence[str], asked: list[str] | None) -> pa.Table:
        try:
            batch = self._file.read_stripe(stripe, columns=asked)
        except pa.ArrowInvalid as error:
            return self._far(stripe, columns, error)
        return pa.Table.from_batches([batch]).select(list(columns))

    def _far(self, stripe: int, columns: Sequence[str], error: pa.ArrowInvalid) -> pa.Table:
        """Columns of a stripe after the library failed with `error` on a timestamp."""
        if "out of range for nanosecond" not in str(error):
            raise error
        try:
            decoder = OrcTimestamps(self._source)
            places = {name: self.column_names.index(name) for name in columns}
            far = {name: at for name, at in places.items() if decoder.is_timestamp(at)}
            decoded = {name: decoder.read(stripe, at) for name, at in far.items()}
            others = [name for name in columns if name not in far]
            if any("." in name for name in others):
                raise NotDecoded("columns with a dot in their name")
            # Without columns, the library would lose the number of rows.
            rest = self._file.read_stripe(stripe, columns=others) if others else None
        except (NotDecoded, pa.ArrowInvalid) as reason:
            raise UnsupportedError(
                f"data file {self._path} holds a timestamp outside of the years 1677 to 2262, "
                f"which can be read from ORC files only in top-level columns: {reason}",
                path=self._path,
            ) from error
        arrays = [
            decoded[name] if rest is None or name in far else rest.column(name) for name in columns
        ]
        return pa.table(arrays, names=list(columns))
