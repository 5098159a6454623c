"""The pieces of a file, one reading for each format.

A piece has the names of all columns of the file, or of a piece of it in JSON, and some of its rows.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakewright.storage.codec.arrow_json import arrow_rows
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader.avro_records import read_avro_records, typed_atom
from lakewright.storage.file_reader.bad_rows import RowForm
from lakewright.storage.file_reader.csv_rows import (
    CsvBlock,
    RaggedRow,
    in_utf8,
    read_csv_blocks,
)
from lakewright.storage.file_reader.file_form import AVRO, ORC, PARQUET, FileForm
from lakewright.storage.file_reader.json_records import records_of_arrays, records_of_lines
from lakewright.storage.file_reader.location import PACKED, FoundFile
from lakewright.storage.file_reader.records import Records
from lakewright.storage.file_reader.row_texts import row_text, row_texts
from lakewright.storage.files.data_file import Reading
from lakewright.storage.files.data_files import open_data_file
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.rows import ROW_KIND_COLUMN

_ROWS_AT_ONCE = 1 << 16
_BLOCK_BYTES = 4 << 20
# How files of a format begin.
_BEGINNINGS = {b"PAR1": PARQUET, b"ORC": ORC, b"Obj\x01": AVRO}
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LINE_FEED = re.compile(rb"\r?\n")
# A longer line is taken for damage.
_MOST_LINE_BYTES = 1 << 28
_PEEKED_BYTES = 1 << 16


class Piece(ABC):
    """Some rows of a file; `first_row` is the number of rows before them."""

    column_names: tuple[str, ...]
    row_count: int
    first_row: int = 0
    # Whether its texts are to be read as values.
    is_text: bool = False

    @abstractmethod
    def read(self, start: int, length: int, fields: Sequence[DataField]) -> pa.Table:
        """Some of the rows, with those of the columns that the piece has."""

    @abstractmethod
    def original(self, at: int, fields: Sequence[DataField]) -> tuple[int | None, str, RowForm]:
        """A row as the file has it: its line, where it has one, its text, and what that is."""

    def rows_of_records(self) -> list[Mapping[str, object]]:
        """The records of a piece that has any."""
        return []


@dataclass(frozen=True, slots=True)
class UnreadRows:
    """What gets rows that are none: lines of JSON, and rows of a CSV with other values."""

    line: Callable[[int, str, InvalidRows], None]
    ragged: Callable[[RaggedRow], None]


@contextmanager
def opened(file: FoundFile) -> Iterator[Any]:
    """The bytes of a file of text; one with the suffix of a compression is unpacked."""
    with file.fs.open_input(file.path) as source:
        if not _is_packed(file):
            yield source
            return
        codec = pa.Codec.detect(file.path.lower()).name
        with pa.CompressedInputStream(source, codec) as unpacked:
            yield unpacked


def _is_packed(file: FoundFile) -> bool:
    return file.path.lower().endswith(PACKED)


def pieces(
    file: FoundFile,
    form: FileForm,
    fields: Sequence[DataField],
    row_groups: Sequence[int] | None,
    unread: UnreadRows,
) -> Iterator[Piece]:
    """The pieces of a file, with the declared columns that it has; the first may have no rows.

    `unread` raises, or keeps what is left out.
    """
    match form.format:
        case "avro" if not form.own_avro:
            yield from _avro(file, form)
        case "parquet" | "orc" | "avro":
            yield from _columnar(file, form, fields, row_groups)
        case "json":
            yield from _json(file, form, fields, unread)
        case "csv":
            yield from _csv(file, form, fields, unread)
        case _:
            yield from _lines(file, form, fields)


def row_group_count(file: FoundFile) -> int:
    """The number of row groups of a Parquet file."""
    with open_data_file(file.fs, file.path, streams=True, format_name=PARQUET) as source:
        return source.piece_count


def other_format(file: FoundFile, declared: str) -> str:
    """A hint, if a file begins as one of another format does."""
    with file.fs.open_input(file.path) as source:
        beginning = bytes(source.read(4))
    for mark, name in _BEGINNINGS.items():
        if beginning.startswith(mark) and name != declared:
            return f"; the file begins as a file of format {name} does: declare `{name}:`"
    if beginning.startswith(b"\x1f\x8b") and not _is_packed(file):
        return "; the file begins as one of gzip does: let its name end in .gz"
    return ""


# --- columns --------------------------------------------------------------------------------------


@dataclass
class _Columns(Piece):
    """Rows of Arrow."""

    column_names: tuple[str, ...]
    rows: pa.Table
    first_row: int = 0

    @property
    def row_count(self) -> int:  # type: ignore[override]
        return int(self.rows.num_rows)

    def read(self, start: int, length: int, fields: Sequence[DataField]) -> pa.Table:
        return self.rows.slice(start, length)

    def original(self, at: int, fields: Sequence[DataField]) -> tuple[int | None, str, RowForm]:
        return None, row_texts(self.rows.slice(at, 1), fields)[0], RowForm.READ


def _columnar(
    file: FoundFile, form: FileForm, fields: Sequence[DataField], row_groups: Sequence[int] | None
) -> Iterator[Piece]:
    types = {field.name: to_arrow_type(field.type) for field in fields}
    # The rule for values then judges row by row.
    reading = Reading(types, unfit_stay=True)
    with open_data_file(
        file.fs, file.path, streams=True, format_name=form.format, reading=reading
    ) as source:
        given = tuple(source.column_names)
        # A file without rows has columns too, and they may differ from the declared ones.
        yield _Columns(given, source.schema.empty_table())
        names = {field.name for field in fields}
        read = [name for name in given if name in names] or list(given[:1])
        for rows in source.tables(read, _ROWS_AT_ONCE, row_groups):
            yield _Columns(given, rows)


# --- records --------------------------------------------------------------------------------------


@dataclass
class _OfRecords(Piece):
    """Records of JSON or Avro."""

    column_names: tuple[str, ...]
    records: Records
    path: str
    form: FileForm

    @property
    def row_count(self) -> int:  # type: ignore[override]
        return len(self.records.records)

    def read(self, start: int, length: int, fields: Sequence[DataField]) -> pa.Table:
        wanted = fields
        if self.form.format == AVRO or not self.form.json.requires_members:
            wanted = [field for field in fields if field.name in self.column_names]
        part = self.records.part(start, length)
        reading = self.form.json.reading
        if self.form.format == AVRO:
            reading = replace(reading, reader=typed_atom)
        return part.table(wanted, reading, path=self.path)

    def rows_of_records(self) -> list[Mapping[str, object]]:
        return self.records.records

    def original(self, at: int, fields: Sequence[DataField]) -> tuple[int | None, str, RowForm]:
        line, texts = self.records.numbers[at], self.records.texts
        if texts:
            return line, texts[at], RowForm.ORIGINAL
        # Only JSON has texts, and parses them for any type.
        row = row_text(self.records.records[at], fields, parses_texts=False)
        return line, row, RowForm.READ


def _avro(file: FoundFile, form: FileForm) -> Iterator[Piece]:
    with file.fs.open_input(file.path) as source:
        for given, records in read_avro_records(source, path=file.shown):
            yield _OfRecords(given, records, file.shown, form)


@dataclass
class _OfJsonLines(_Columns):
    """Lines of JSON that Arrow read."""

    lines: Sequence[tuple[int, bytes]] = ()

    def original(self, at: int, fields: Sequence[DataField]) -> tuple[int | None, str, RowForm]:
        number, line = self.lines[at]
        return number, line.decode(), RowForm.ORIGINAL


def _json(
    file: FoundFile, form: FileForm, fields: Sequence[DataField], unread: UnreadRows
) -> Iterator[Piece]:
    """Objects on lines, or arrays of them, as the first character of the file says."""
    if not _begins_array(file, form.encoding):
        yield from _json_lines(file, form, fields, unread)
        return
    with opened(file) as stream:
        for records in records_of_arrays(
            stream, path=file.shown, encoding=form.encoding, unread=unread.line
        ):
            yield _OfRecords(records.column_names, records, file.shown, form)


def _begins_array(file: FoundFile, encoding: str) -> bool:
    with opened(file) as stream:
        text = in_utf8(stream, encoding)
        while block := bytes(text.read(_PEEKED_BYTES)):
            if begin := block.removeprefix(codecs.BOM_UTF8).strip():
                return begin.startswith(b"[")
    return False


def _json_lines(
    file: FoundFile, form: FileForm, fields: Sequence[DataField], unread: UnreadRows
) -> Iterator[Piece]:
    said = {name for name, _ in file.values}
    wanted = [field for field in fields if field.name not in said]
    names = {each.name for each in wanted}
    first = 1
    for block in read_lines(file, form.encoding, ends=_LINE_FEED):
        lines = [(number, line) for number, line in enumerate(block, first) if line.strip()]
        first += len(block)
        rows = None
        if wanted and form.json.is_plain:
            # Members that are refused, or compared with the path, are to be seen.
            refuses = form.extra_columns is ExtraColumns.REFUSE or not form.json.ignores_unknown
            infers = refuses or bool(said)
            texts = [line.strip() for _, line in lines]
            rows = arrow_rows(texts, wanted, infers=infers)
        # Of a column without a value, the names of the members may say why.
        if rows is not None and all(rows.column(name).null_count < rows.num_rows for name in names):
            yield _OfJsonLines(tuple(rows.column_names), rows, lines=lines)
            continue
        records = records_of_lines(lines, path=file.shown, unread=unread.line)
        yield _OfRecords(records.column_names, records, file.shown, form)


# --- texts ----------------------------------------------------------------------------------------


@dataclass
class _OfTexts(Piece):
    """Rows of a CSV."""

    column_names: tuple[str, ...]
    block: CsvBlock
    is_text = True

    @property
    def row_count(self) -> int:  # type: ignore[override]
        return int(self.block.texts.num_rows)

    @property
    def first_row(self) -> int:  # type: ignore[override]
        return self.block.first_row

    def read(self, start: int, length: int, fields: Sequence[DataField]) -> pa.Table:
        return self.block.texts.slice(start, length)

    def original(self, at: int, fields: Sequence[DataField]) -> tuple[int | None, str, RowForm]:
        row = self.block.written(at)
        return row.line, row.text.removeprefix("\ufeff"), RowForm.ORIGINAL


def _csv(
    file: FoundFile, form: FileForm, fields: Sequence[DataField], unread: UnreadRows
) -> Iterator[Piece]:
    said = {name for name, _ in file.values}
    names = [
        field.name for field in fields if field.name != ROW_KIND_COLUMN and field.name not in said
    ]
    with opened(file) as stream:
        for block in read_csv_blocks(
            stream,
            form.csv,
            path=file.shown,
            names=None if form.csv.header else names,
            on_ragged=unread.ragged,
            encoding=form.encoding,
        ):
            yield _OfTexts(tuple(block.texts.column_names), block)


def _lines(file: FoundFile, form: FileForm, fields: Sequence[DataField]) -> Iterator[Piece]:
    """The lines of a file, as the one column that is not of its path."""
    said = {name for name, _ in file.values}
    (name,) = [field.name for field in fields if field.name not in said]
    row = 0
    for lines in read_lines(file, form.encoding):
        texts = pa.array(lines, pa.binary()).cast(pa.string())
        yield _Columns((name,), pa.table([texts], names=[name]), row)
        row += len(lines)


def read_lines(
    file: FoundFile, encoding: str = "utf-8", *, ends: re.Pattern[bytes] = _LINE_END
) -> Iterator[list[bytes]]:
    """The lines of a file in UTF-8, some at a time, without their ends and a mark of byte order.

    Raises:
        InvalidRows: a line does not end within 256 MiB.
    """
    rest, is_first = b"", True
    with opened(file) as stream:
        source = in_utf8(stream, encoding)
        while True:
            block = bytes(source.read(max(_BLOCK_BYTES, len(rest))))
            data = rest + block
            if is_first:
                data, is_first = data.removeprefix(codecs.BOM_UTF8), False
            # A carriage return at the end of a block may be half of a line end.
            is_half = bool(block) and data.endswith(b"\r")
            lines = ends.split(data[:-1] if is_half else data)
            if block:
                rest = lines.pop() + (b"\r" if is_half else b"")
                if len(rest) > _MOST_LINE_BYTES:
                    raise InvalidRows(
                        f"{file.shown}: a line does not end within {len(rest)} bytes; the file is "
                        "damaged, or of another format"
                    )
            elif not lines[-1]:
                lines.pop()
            if lines:
                yield lines
            if not block:
                return
