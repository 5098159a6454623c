"""Opens source files and reads them piece by piece, one function for each format.

A piece is the names of all columns of the file, or of a piece of it in JSON, and some of its rows.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from lakewright.platform.ingest.csv_text import CheckedText, check_text, ragged_row_number
from lakewright.platform.ingest.find_files import FoundFile
from lakewright.platform.ingest.source_columns import ragged_row
from lakewright.platform.ingest.source_records import (
    Records,
    RecordTypes,
    read_avro_records,
    read_json_records,
)
from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.files.orc_files import OrcFileReader
from lakewright.storage.operations.read.row_kinds import ROW_KIND_COLUMN
from lakewright.storage.spec.data_types import DataField

_BLOCK_BYTES = 8 * 1024 * 1024
_READ_BUFFER_BYTES = 1 << 20
_ROWS_AT_ONCE = 1 << 16
# How files of a format begin.
_BEGINNINGS = {b"PAR1": "parquet", b"ORC": "orc", b"Obj\x01": "avro"}


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a file; `first_row` is the number of rows before them."""

    column_names: tuple[str, ...]
    rows: pa.Table
    first_row: int


@contextmanager
def opened(file: FoundFile) -> Iterator[Any]:
    """The bytes of a file; a CSV or JSON file with the suffix of a compression is unpacked."""
    with file.fs.open_input(file.path) as source:
        if not _is_packed(file):
            yield source
            return
        codec = pa.Codec.detect(file.path.lower()).name
        with pa.CompressedInputStream(source, codec) as unpacked:
            yield unpacked


def _is_packed(file: FoundFile) -> bool:
    return file.path.lower().endswith((".gz", ".bz2", ".zst"))


def pieces(
    file: FoundFile,
    source: SourceDeclaration,
    fields: Sequence[DataField],
    row_groups: Sequence[int] | None,
) -> Iterator[Piece]:
    """The pieces of a file, with the declared columns that it has; the first may have no rows."""
    match source.file_format:
        case "parquet":
            yield from _parquet(file, fields, row_groups)
        case "orc":
            yield from _orc(file, {field.name for field in fields})
        case "avro":
            yield from _avro(file, fields)
        case "json":
            yield from _json(file, source, fields)
        case _:
            names = [field.name for field in fields if field.name != ROW_KIND_COLUMN]
            yield from _csv(file, source, names)


def row_group_count(file: FoundFile) -> int:
    """The number of row groups of a Parquet file."""
    with file.fs.open_input(file.path) as source:
        return int(pq.ParquetFile(source).metadata.num_row_groups)


def other_format(file: FoundFile, declared: str | None) -> str:
    """A hint, if a file begins as one of another format does."""
    with file.fs.open_input(file.path) as source:
        beginning = bytes(source.read(4))
    for mark, name in _BEGINNINGS.items():
        if beginning.startswith(mark) and name != declared:
            return f"; the file begins as a file of format {name} does: declare `{name}:`"
    if beginning.startswith(b"\x1f\x8b") and not _is_packed(file):
        return "; the file begins as one of gzip does: let its name end in .gz"
    return ""


def _parquet(
    file: FoundFile, fields: Sequence[DataField], row_groups: Sequence[int] | None
) -> Iterator[Piece]:
    names = {field.name for field in fields}
    with file.fs.open_input(file.path) as source:
        # Without a buffer, Arrow would hold a whole row group.
        opened_file = pq.ParquetFile(
            source, buffer_size=_READ_BUFFER_BYTES, coerce_int96_timestamp_unit="us"
        )
        schema = opened_file.schema_arrow
        given = tuple(schema.names)
        int96 = _int96_columns(opened_file, fields)
        empty = schema.empty_table()
        for field in int96:
            column = empty.column(field.name).combine_chunks()
            column = _of_int96(column, column.cast(pa.timestamp("ns")), field)
            empty = empty.set_column(given.index(field.name), field.name, column)
        # A file without rows has columns too, and they may differ from the declared ones.
        yield Piece(given, empty, 0)
        read = [name for name in given if name in names]
        # The library takes a name with a dot for the path of a member.
        some = (
            read if 0 < len(read) < len(given) and not any("." in each for each in read) else None
        )
        batches = opened_file.iter_batches(_ROWS_AT_ONCE, row_groups=row_groups, columns=some)
        if not int96:
            for batch in batches:
                yield Piece(given, pa.Table.from_batches([batch]), 0)
            return
        with file.fs.open_input(file.path) as again:
            in_nanos = pq.ParquetFile(again, buffer_size=_READ_BUFFER_BYTES).iter_batches(
                _ROWS_AT_ONCE, row_groups=row_groups, columns=some
            )
            for batch, exact in zip(batches, in_nanos, strict=True):
                rows = pa.Table.from_batches([batch])
                for field in int96:
                    at = rows.column_names.index(field.name)
                    column = _of_int96(batch.column(field.name), exact.column(field.name), field)
                    rows = rows.set_column(at, field.name, column)
                yield Piece(given, rows, 0)


def _int96_columns(file: pq.ParquetFile, fields: Sequence[DataField]) -> list[DataField]:
    """The declared columns that a file holds as INT96, as Spark and Impala write timestamps."""
    leaves = (file.schema.column(at) for at in range(len(file.schema)))
    int96 = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    return [field for field in fields if field.name in int96]


def _of_int96(micros: pa.Array, nanos: pa.Array, field: DataField) -> pa.Array:
    """Moments with all digits that they have: 64 bits of nanoseconds do not reach all of them.

    INT96 counts from 1970 in UTC: a moment for a column with a zone, and its local time otherwise.

    Raises:
        pa.ArrowInvalid: a moment has more digits, or is further from 1970, than its type holds.
    """
    is_near = pc.equal(pc.floor_temporal(nanos, unit="microsecond").cast("timestamp[us]"), micros)
    target = to_arrow_type(field.type)
    if pa.types.is_timestamp(target) and target.unit == "ns":
        if pc.all(is_near).as_py() is False:
            raise pa.ArrowInvalid(
                f"column {field.name} is {field.type}, which holds the years 1677 to 2262, and a "
                "value is outside of them"
            )
        found = nanos
    else:
        # Finer digits fail the cast.
        nanos.filter(is_near).cast("timestamp[us]")
        found = micros
    has_zone = pa.types.is_timestamp(target) and target.tz is not None
    return found.cast(pa.timestamp(found.type.unit, tz="UTC")) if has_zone else found


def _orc(file: FoundFile, names: set[str]) -> Iterator[Piece]:
    with file.fs.open_input(file.path) as source:
        reader = OrcFileReader(source, path=file.shown)
        given = tuple(reader.column_names)
        yield Piece(given, reader.schema.empty_table(), 0)
        read = [name for name in given if name in names] or list(given)
        for rows in reader.tables(read, _ROWS_AT_ONCE):
            yield Piece(given, rows, 0)


def _avro(file: FoundFile, fields: Sequence[DataField]) -> Iterator[Piece]:
    with file.fs.open_input(file.path) as source:
        for given, records in read_avro_records(source, path=file.shown):
            present = [field for field in fields if field.name in given]
            yield Piece(given, records.table(present, path=file.shown), 0)


def _json(
    file: FoundFile, source: SourceDeclaration, fields: Sequence[DataField]
) -> Iterator[Piece]:
    types = RecordTypes(source.date_format, source.timestamp_format)
    exact = any("DECIMAL" in str(field.type) for field in fields)
    told = {name for name, _ in file.values}
    with opened(file) as stream:
        found: Iterator[Records] = read_json_records(
            stream, path=file.shown, encoding=source.encoding, exact=exact
        )
        for records in found:
            given = records.column_names
            # A column of the path need not be in the file, and if it is, both are compared.
            present = [each for each in fields if each.name in given or each.name not in told]
            yield Piece(given, records.table(present, path=file.shown, types=types), 0)


def _csv(file: FoundFile, source: SourceDeclaration, declared: Sequence[str]) -> Iterator[Piece]:
    told = {name for name, _ in file.values}
    names = None if source.header else [name for name in declared if name not in told]
    ragged: list[pa_csv.InvalidRow] = []

    def fail(row: pa_csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    def decide() -> None:
        with opened(file) as again:
            check_text(_text(again, source.encoding), source, path=file.shown)

    row = 0
    try:
        with opened(file) as stream:
            text = CheckedText(_in_utf8(stream, source.encoding), source, decide)
            if not source.header and not text.begins(_BLOCK_BYTES).strip(b"\r\n"):
                return
            with _reader(text, source, names, fail) as reader:
                given = tuple(reader.schema.names)
                yield Piece(given, reader.schema.empty_table(), 0)
                for batch in reader:
                    yield Piece(given, pa.Table.from_batches([batch]), row)
                    row += batch.num_rows
    except pa.ArrowInvalid as err:
        if not ragged:
            # Of an open quote, Arrow only tells that a row is too long.
            decide()
            raise
        counts = (ragged[0].expected_columns, ragged[0].actual_columns)
        with opened(file) as stream:
            number = ragged_row_number(_text(stream, source.encoding), source, counts[0])
        raise ragged_row(
            ragged[0].text,
            counts,
            number,
            path=file.shown,
            source=source,
            declared=len(declared) - len(told),
        ) from err


def _reader(
    text: CheckedText,
    source: SourceDeclaration,
    names: Sequence[str] | None,
    fail: Callable[[pa_csv.InvalidRow], str],
) -> pa_csv.CSVStreamingReader:
    return pa_csv.open_csv(
        pa.PythonFile(text, mode="r"),
        pa_csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES),
        pa_csv.ParseOptions(
            delimiter=source.delimiter,
            quote_char=source.quote or False,
            escape_char=source.escape or False,
            newlines_in_values=True,
            invalid_row_handler=fail,
        ),
        pa_csv.ConvertOptions(
            default_column_type=pa.string(),
            null_values=list(source.nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _in_utf8(stream: Any, encoding: str) -> Any:
    if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
        return stream
    return pa.transcoding_input_stream(stream, encoding, "utf-8")


def _text(stream: IO[bytes], encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(stream, encoding=encoding, newline="")
