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

from lakewright.platform.ingest.csv_text import (
    CheckedText,
    WrittenRow,
    check_text,
    ragged_row_number,
    written_rows,
)
from lakewright.platform.ingest.find_files import FoundFile
from lakewright.platform.ingest.source_columns import ragged_row
from lakewright.platform.ingest.source_records import (
    Records,
    RecordTypes,
    Unread,
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
    """Some rows of a file; `first_row` is the number of rows before them.

    `read` makes rows of some of them, by start and length, in the columns of some fields if they
    are records. `records` are those that the rows are made of.
    """

    column_names: tuple[str, ...]
    row_count: int
    first_row: int
    read: Callable[[int, int, Sequence[DataField]], pa.Table]
    records: Records | None = None

    @classmethod
    def of(cls, names: tuple[str, ...], rows: pa.Table, first_row: int = 0) -> Piece:
        """A piece of rows that are made."""

        def part(start: int, length: int, _: Sequence[DataField]) -> pa.Table:
            return rows.slice(start, length)

        return cls(names, rows.num_rows, first_row, part)


@dataclass(frozen=True, slots=True)
class UnreadRows:
    """What gets rows that are none: lines of JSON, and the number of those of a CSV so far.

    Those of a CSV are found by a second reading, `rows_of_csv`.
    """

    tell: Unread
    count_ragged: Callable[[int], None]


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
    unread: UnreadRows | None = None,
) -> Iterator[Piece]:
    """The pieces of a file, with the declared columns that it has; the first may have no rows.

    `unread` gets the rows that are no rows; without it they are errors.
    """
    match source.file_format:
        case "parquet":
            yield from _parquet(file, fields, row_groups)
        case "orc":
            yield from _orc(file, {field.name for field in fields})
        case "avro":
            yield from _avro(file)
        case "json":
            yield from _json(file, source, fields, unread)
        case _:
            names = [field.name for field in fields if field.name != ROW_KIND_COLUMN]
            yield from _csv(file, source, names, unread)


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
        yield Piece.of(given, empty)
        read = [name for name in given if name in names]
        # The library takes a name with a dot for the path of a member.
        some = (
            read if 0 < len(read) < len(given) and not any("." in each for each in read) else None
        )
        batches = opened_file.iter_batches(_ROWS_AT_ONCE, row_groups=row_groups, columns=some)
        if not int96:
            for batch in batches:
                yield Piece.of(given, pa.Table.from_batches([batch]))
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
                yield Piece.of(given, rows)


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
        yield Piece.of(given, reader.schema.empty_table())
        read = [name for name in given if name in names] or list(given)
        for rows in reader.tables(read, _ROWS_AT_ONCE):
            yield Piece.of(given, rows)


def _avro(file: FoundFile) -> Iterator[Piece]:
    def is_there(given: Sequence[str], name: str) -> bool:
        return name in given

    with file.fs.open_input(file.path) as source:
        for given, records in read_avro_records(source, path=file.shown):
            yield _of_records(given, records, is_there, file, RecordTypes())


def _json(
    file: FoundFile,
    source: SourceDeclaration,
    fields: Sequence[DataField],
    unread: UnreadRows | None,
) -> Iterator[Piece]:
    types = RecordTypes(source.date_format, source.timestamp_format)
    exact = any("DECIMAL" in str(field.type) for field in fields)
    told = {name for name, _ in file.values}

    def is_there(given: Sequence[str], name: str) -> bool:
        # A column of the path need not be in the file, and if it is, both are compared.
        return name in given or name not in told

    with opened(file) as stream:
        found: Iterator[Records] = read_json_records(
            stream,
            path=file.shown,
            encoding=source.encoding,
            exact=exact,
            unread=None if unread is None else unread.tell,
        )
        for records in found:
            yield _of_records(records.column_names, records, is_there, file, types)


def _of_records(
    given: tuple[str, ...],
    records: Records,
    is_there: Callable[[Sequence[str], str], bool],
    file: FoundFile,
    types: RecordTypes,
) -> Piece:
    def part(start: int, length: int, fields: Sequence[DataField]) -> pa.Table:
        present = [each for each in fields if is_there(given, each.name)]
        return records.part(start, length).table(present, path=file.shown, types=types)

    return Piece(given, len(records.records), 0, part, records)


def _csv(
    file: FoundFile,
    source: SourceDeclaration,
    declared: Sequence[str],
    unread: UnreadRows | None,
) -> Iterator[Piece]:
    told = {name for name, _ in file.values}
    names = None if source.header else [name for name in declared if name not in told]
    ragged: list[pa_csv.InvalidRow] = []

    def fail(row: pa_csv.InvalidRow) -> str:
        ragged.append(row)
        return "error" if unread is None else "skip"

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
                yield Piece.of(given, reader.schema.empty_table())
                for batch in reader:
                    yield Piece.of(given, pa.Table.from_batches([batch]), row)
                    row += batch.num_rows
                    if unread is not None:
                        unread.count_ragged(len(ragged))
                # Arrow skips ragged rows at the end, or all of a file, without a further batch.
                if unread is not None:
                    unread.count_ragged(len(ragged))
    except pa.ArrowInvalid as err:
        if not ragged or unread is not None:
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


def rows_of_csv(file: FoundFile, source: SourceDeclaration) -> Iterator[WrittenRow]:
    """The rows of a CSV as it has them, ragged ones too."""
    with opened(file) as stream:
        yield from written_rows(_text(stream, source.encoding), source)


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
