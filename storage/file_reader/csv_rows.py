"""The rows of a CSV: blocks of whole rows, which Arrow reads where its reading is the dialect's.

`scan` is the definition of a dialect: it goes through the text field by field. Arrow reads a block
instead if no quote is out of place, no escape and no comment is in it, and each row has a value for
each column; then both give the same rows. A file is read once: the text and the line of a bad row
are found in its block.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.csv_dialect import CsvDialect

_BLOCK_BYTES = 8 << 20
# A row of more bytes than this is taken for a quote that never ends.
_MOST_ROW_BYTES = 1 << 28
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """A row as the file has it: the line where it begins, its values, and where it ends."""

    line: int
    text: str
    values: list[str | None]
    end: int


class NotWellFormedError(ValueError):
    """A row that has no meaning in the dialect: `rows` and `line` are before it."""

    def __init__(self, rows: int, line: int, why: str) -> None:
        super().__init__(why)
        self.rows, self.line, self.why = rows, line, why


# --- the definition of a dialect ------------------------------------------------------------------


@lru_cache(maxsize=64)
def _field(delimiter: str, quote: str, escape: str, escapes_all: bool) -> re.Pattern[str]:
    ends, quoted_mark, mark = re.escape(delimiter), re.escape(quote), re.escape(escape)
    if escapes_all and escape:
        plain = rf"(?P<plain>(?:[^{ends}{mark}\r\n]|{mark}.)*)"
        inside = rf"[^{quoted_mark}{mark}]|{mark}."
    else:
        plain = rf"(?P<plain>[^{ends}\r\n]*)"
        inside = rf"[^{quoted_mark}{mark}]"
        inside += rf"|{mark}[{quoted_mark}{mark}]?" if escape else ""
    if not quote:
        return re.compile(rf"(?P<quoted>(?!))|{plain}", re.DOTALL)
    quoted = rf"{quoted_mark}(?P<quoted>(?:{inside}|{quoted_mark}{quoted_mark})*+){quoted_mark}"
    return re.compile(rf"{quoted}|(?!{quoted_mark}){plain}", re.DOTALL)


def scan(
    text: str, dialect: CsvDialect, *, line: int = 1, is_end: bool = True
) -> Iterator[WrittenRow]:
    """The rows of a text, blank lines as rows without a value; the last one only if it has ended.

    With `is_end` the end of the text ends a row.

    Raises:
        NotWellFormedError: a quote or an escape is out of place.
    """
    pattern = _field(dialect.delimiter, dialect.quote, dialect.escape, dialect.escapes_all)
    at = count = 0
    while at < len(text):
        begin, values = at, list[str | None]()
        if dialect.comments and text.startswith("#", at):
            end = _line_end(text, at)
            if end is None and not is_end:
                return
            at = len(text) if end is None else end
            line += 1
            continue
        while True:
            matched = pattern.match(text, at)
            if not is_end and (matched is None or text[matched.end() :] in ("", dialect.escape)):
                return
            if matched is None:
                why = (
                    "its quote does not end"
                    if text.startswith(dialect.quote, at)
                    else ("its last character is an escape")
                )
                raise NotWellFormedError(count, line, why)
            at = matched.end()
            values.append(_value(matched, dialect))
            following = text[at : at + 1]
            if following != dialect.delimiter:
                break
            at += 1
        if following not in ("", "\r", "\n"):
            why = f"{dialect.delimiter!r} is expected after {dialect.quote!r}"
            if matched["quoted"] is None:
                why = "its last character is an escape"
            raise NotWellFormedError(count, line, f"{why}, and {text[at : at + 10]!r} follows")
        if following == "\r" and at + 1 == len(text) and not is_end:
            return
        row_end = at
        at += 2 if text.startswith("\r\n", at) else len(following)
        is_blank = row_end == begin
        yield WrittenRow(line, text[begin:row_end], [] if is_blank else values, at)
        line += 1 + _line_ends(text[begin:row_end])
        count += 1


def _value(found: re.Match[str], dialect: CsvDialect) -> str | None:
    quoted = found["quoted"]
    if quoted is None:
        plain = found["plain"]
        if plain in dialect.nulls:
            return None
        value = plain
        if dialect.escapes_all and dialect.escape and dialect.escape in plain:
            value = _unescaped(plain, dialect)
    elif dialect.escape and dialect.escape in quoted:
        value = _unescaped(quoted, dialect)
    else:
        value = quoted.replace(2 * dialect.quote, dialect.quote)
    return None if dialect.quoted_nulls and value in dialect.nulls else value


def _unescaped(text: str, dialect: CsvDialect) -> str:
    escape, quote = re.escape(dialect.escape), re.escape(dialect.quote)
    after = "." if dialect.escapes_all else f"[{quote}{escape}]"
    doubled = rf"|{quote}{quote}" if dialect.quote else ""

    def meant(found: re.Match[str]) -> str:
        character = found.group(1)
        return dialect.quote if character is None else dialect.escaped.get(character, character)

    return re.sub(rf"{escape}({after}){doubled}", meant, text, flags=re.DOTALL)


def _line_end(text: str, at: int) -> int | None:
    """Where the next line begins."""
    found = re.compile(r"\r\n|\n|\r").search(text, at)
    return None if found is None else found.end()


def _line_ends(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


# --- blocks of a file -----------------------------------------------------------------------------


@dataclass(slots=True)
class CsvBlock:
    """Some rows of a file, as columns of text; `first_row` is the number of rows before them."""

    texts: pa.Table
    first_row: int
    data: bytes
    first_line: int
    dialect: CsvDialect
    _written: list[WrittenRow] | None = None

    def written(self, at: int) -> WrittenRow:
        """A row as the file has it."""
        if self._written is None:
            text = codecs.decode(self.data, "utf-8")
            width = self.texts.num_columns
            rows = scan(text, self.dialect, line=self.first_line)
            fitted = (_fitted(row, width, self.dialect) for row in rows)
            self._written = [each for each in fitted if len(each.values) == width]
        return self._written[at]


@dataclass(frozen=True, slots=True, kw_only=True)
class RaggedRow:
    """A row with more or fewer values than the file has columns; `number` counts from 1."""

    row: WrittenRow
    number: int
    columns: int


def read_csv_blocks(
    stream: Any,
    dialect: CsvDialect,
    *,
    path: str,
    names: Sequence[str] | None,
    on_ragged: Callable[[RaggedRow], None],
    encoding: str = "utf-8",
) -> Iterator[CsvBlock]:
    """The rows of a file, block by block; the first block may have none.

    `names` are the columns of a file without a header. A file without a header and without rows has
    no block. `on_ragged` raises, or keeps a row that is left out.

    Raises:
        InvalidRows: the file is not well quoted, holds NUL, or lacks its header.
    """
    reader = _Blocks(in_utf8(stream, encoding), dialect, path, on_ragged)
    yield from reader.blocks(names)


def in_utf8(stream: Any, encoding: str) -> Any:
    """A stream of text of an encoding as one of UTF-8."""
    if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
        return stream
    return pa.transcoding_input_stream(stream, encoding, "utf-8")


class _Blocks:
    def __init__(
        self, stream: Any, dialect: CsvDialect, path: str, on_ragged: Callable[[RaggedRow], None]
    ) -> None:
        self._stream, self._dialect, self._path = stream, dialect, path
        self._on_ragged = on_ragged
        self._data = b""
        self._is_end = False
        # Of the data that waits: its first line, and the number of rows before it.
        self._line = 1
        self._row = 0

    def blocks(self, names: Sequence[str] | None) -> Iterator[CsvBlock]:
        self._more(_BLOCK_BYTES)
        self._data = self._data.removeprefix(codecs.BOM_UTF8)
        if self._dialect.header:
            names = self._header()
        assert names is not None
        if self._dialect.header:
            # A file without rows has columns too, and they may differ from the declared ones.
            yield self._block(_no_rows(names), b"")
        while self._data or not self._is_end:
            block = self._next(names)
            if block is not None:
                yield block

    def _block(self, texts: pa.Table, data: bytes) -> CsvBlock:
        return CsvBlock(texts, self._row, data, self._line, self._dialect)

    def _header(self) -> list[str]:
        while True:
            for row in self._scanned(is_header=True):
                if row.values:
                    self._drop_to(row)
                    return ["" if each is None else each for each in row.values]
            if self._is_end:
                raise InvalidRows(
                    f"{self._path} is empty, and a CSV begins with the names of its columns; "
                    "declare `header: false` if it has none"
                )
            self._grow()

    def _scanned(self, *, is_header: bool) -> Iterator[WrittenRow]:
        """The rows of the data that waits, by the definition of the dialect."""
        text, _ = codecs.utf_8_decode(self._data, "strict", self._is_end)
        number = 0 if is_header else self._row + 1
        try:
            for row in scan(text, self._dialect, line=self._line, is_end=self._is_end):
                if "\0" in row.text:
                    raise InvalidRows(
                        f"{self._path}: {_named(number)} holds a NUL character, which no text has; "
                        "the file is damaged, or has another encoding, such as `encoding: utf-16`"
                    )
                yield row
                number += bool(row.values) or is_header
        except NotWellFormedError as error:
            raise InvalidRows(
                f"{self._path}: {_named(number)} is not well quoted: {error.why}; write a quote "
                "inside of quotes twice, or declare how it is written: `escape: \\` as Spark does, "
                'or `quote: ""` for a file without quotes'
            ) from None

    def _drop_to(self, row: WrittenRow) -> bytes:
        """Takes away the data up to the end of a row."""
        text, _ = codecs.utf_8_decode(self._data, "strict", self._is_end)
        size = len(text[: row.end].encode())
        data, self._data = self._data[:size], self._data[size:]
        self._line = row.line + 1 + _line_ends(row.text)
        return data

    def _next(self, names: Sequence[str]) -> CsvBlock | None:
        """The next rows; None if none has ended yet, or none is left."""
        if len(self._data) < _BLOCK_BYTES and not self._is_end:
            self._more(_BLOCK_BYTES - len(self._data))
        if not self._data:
            return None
        cut = self._plain_end()
        if cut == 0 and not self._is_end:
            self._grow()
            return None
        texts = None if cut is None else self._read(self._data[:cut], names)
        if texts is None:
            return self._by_definition(names)
        assert cut is not None
        return self._taken(texts, cut)

    def _taken(self, texts: pa.Table, end: int) -> CsvBlock:
        data, self._data = self._data[:end], self._data[end:]
        block = self._block(texts, data)
        self._row += texts.num_rows
        self._line += data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
        return block

    def _plain_end(self) -> int | None:
        """Where the last row ends that Arrow reads as it is meant; None if it would not."""
        data, dialect = self._data, self._dialect
        escape, quote = dialect.escape.encode(), dialect.quote.encode()
        if b"\0" in data or (dialect.comments and b"#" in data):
            return None
        is_quoted = bool(quote) and quote in data
        if escape and escape in data and (is_quoted or dialect.escapes_all):
            return None
        if not is_quoted:
            return len(data) if self._is_end else _last_line_end(data)
        characters = np.frombuffer(b"\n" + data + b"\n", np.uint8)
        places = np.flatnonzero(characters == quote[0])
        neighbours = np.zeros(256, dtype=bool)
        neighbours[[*b"\r\n", *dialect.delimiter.encode(), *quote]] = True
        opening, closing = places[0::2], places[1::2]
        if not self._is_end and len(closing) and closing[-1] == len(characters) - 2:
            closing = closing[:-1]
        beside = (characters[opening - 1], characters[closing + 1])
        if not all(neighbours[each].all() for each in beside):
            return None
        if self._is_end:
            return len(data) if len(places) % 2 == 0 else None
        # A line ends a row if as many quotes were opened as closed before it.
        mark = "\n" if b"\n" in data else "\r"
        line_ends = np.flatnonzero(characters[1:-2] == ord(mark))
        outside = line_ends[np.searchsorted(places - 1, line_ends) % 2 == 0]
        return int(outside[-1]) + 1 if len(outside) else 0

    def _read(self, data: bytes, names: Sequence[str]) -> pa.Table | None:
        """The rows of a block by Arrow; None if a row is ragged."""
        if not data.strip(b"\r\n") and len(names) != 1:
            return _no_rows(names)
        dialect = self._dialect
        ragged = False

        def fail(_: pa_csv.InvalidRow) -> str:
            nonlocal ragged
            ragged = True
            return "error"

        places = [str(at) for at in range(len(names))]
        try:
            rows = pa_csv.read_csv(
                pa.BufferReader(data),
                pa_csv.ReadOptions(column_names=places, block_size=len(data) + 1),
                pa_csv.ParseOptions(
                    delimiter=dialect.delimiter,
                    quote_char=dialect.quote or False,
                    escape_char=False,
                    newlines_in_values=True,
                    ignore_empty_lines=len(names) != 1,
                    invalid_row_handler=fail,
                ),
                pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(places, pa.string()),
                    null_values=list(dialect.nulls),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=dialect.quoted_nulls,
                ),
            )
        except pa.ArrowInvalid:
            if ragged:
                return None
            raise
        return rows.rename_columns([*names])

    def _by_definition(self, names: Sequence[str]) -> CsvBlock | None:
        width = len(names)
        rows: list[list[str | None]] = []
        number, first_line = self._row, self._line
        last: WrittenRow | None = None
        for row in self._scanned(is_header=False):
            last = row
            fitted = _fitted(row, width, self._dialect)
            if not fitted.values:
                continue
            number += 1
            if len(fitted.values) == width:
                rows.append(fitted.values)
            else:
                self._on_ragged(RaggedRow(row=row, number=number, columns=width))
        if last is None and not self._is_end:
            self._grow()
            return None
        data = b"" if last is None else self._drop_to(last)
        if self._is_end:
            self._data = b""
        columns = [pa.array([row[at] for row in rows], pa.string()) for at in range(width)]
        texts = pa.table(columns, names=[*names])
        first_row, self._row = self._row, self._row + len(rows)
        return CsvBlock(texts, first_row, data, first_line, self._dialect)

    def _more(self, count: int) -> None:
        parts = [self._data]
        missing = count
        while missing > 0:
            part = bytes(self._stream.read(missing))
            if not part:
                self._is_end = True
                break
            parts.append(part)
            missing -= len(part)
        self._data = b"".join(parts)

    def _grow(self) -> None:
        """Take as much again, of a row that has not ended."""
        if len(self._data) > _MOST_ROW_BYTES:
            raise InvalidRows(
                f"{self._path}: row {self._row + 1} does not end within {len(self._data)} bytes; "
                'end its quote, or declare `quote: ""` for a file without quotes'
            )
        self._more(max(len(self._data), _BLOCK_BYTES))


def _fitted(row: WrittenRow, width: int, dialect: CsvDialect) -> WrittenRow:
    """The row with the values that its dialect adds or leaves out; blank lines of one column."""
    values = row.values
    if not values and width == 1:
        values = [None if "" in dialect.nulls else ""]
    elif len(values) == width + 1 and dialect.ends_with_delimiter and not values[-1]:
        values = values[:-1]
    elif values and len(values) < width and dialect.fills:
        values = values + [None] * (width - len(values))
    return row if values is row.values else WrittenRow(row.line, row.text, values, row.end)


def _last_line_end(data: bytes) -> int:
    """Where the last whole line ends; a carriage return at the end may be half of a line end."""
    at = data.rfind(b"\n")
    return at + 1 if at >= 0 else data[:-1].rfind(b"\r") + 1


def _no_rows(names: Sequence[str]) -> pa.Table:
    return pa.table([pa.array([], pa.string())] * len(names), names=[*names])


def _named(number: int) -> str:
    return f"row {number}" if number else "the header"


# --- messages -------------------------------------------------------------------------------------


def split_messages(
    messages: Sequence[bytes], dialect: CsvDialect, width: int, on_bad: Callable[[int, str], None]
) -> tuple[list[pa.Array], list[int]]:
    """The fields of messages that are one row each, and the places of the messages that gave one.

    `on_bad` gets the place of a message that is none of so many fields, and why.
    """
    plain = _plain_messages(messages, dialect, width)
    if plain is not None:
        return plain, list(range(len(messages)))
    rows: list[list[str | None]] = []
    places: list[int] = []
    for place, message in enumerate(messages):
        try:
            found = [_fitted(each, width, dialect) for each in scan(message.decode(), dialect)]
        except UnicodeDecodeError as error:
            on_bad(place, str(error))
            continue
        except NotWellFormedError as error:
            on_bad(place, f"{error.why}: {_cut(message)}")
            continue
        if not found:
            if not dialect.comments:
                on_bad(place, "it is empty")
            continue
        if len(found) > 1:
            on_bad(place, f"it holds more than one line, and a message is one row: {_cut(message)}")
        elif len(found[0].values) != width:
            count = len(found[0].values)
            on_bad(place, f"it has {count} fields, and the table {width}: {_cut(message)}")
        else:
            rows.append(found[0].values)
            places.append(place)
    return [pa.array([row[at] for row in rows], pa.string()) for at in range(width)], places


def _plain_messages(
    messages: Sequence[bytes], dialect: CsvDialect, width: int
) -> list[pa.Array] | None:
    """The fields of messages in which nothing but delimiters has a meaning, read by Arrow."""
    text = b"\n".join(messages)
    marks = (dialect.quote, dialect.escape, "\r", "\0", "#" if dialect.comments else "")
    if (
        not messages
        or not dialect.delimiter.isascii()
        or text.count(b"\n") != len(messages) - 1
        or any(mark and mark.encode() in text for mark in marks)
        or text.startswith(codecs.BOM_UTF8)
    ):
        return None
    names = [str(at) for at in range(width)]
    try:
        rows = pa_csv.read_csv(
            pa.BufferReader(text),
            pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(text) + 1),
            pa_csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=False,
                escape_char=False,
                ignore_empty_lines=False,
            ),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=list(dialect.nulls),
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowException:
        return None
    if rows.num_rows != len(messages):
        return None
    return [rows.column(name).combine_chunks() for name in names]


def _cut(message: bytes) -> str:
    text = message.decode(errors="backslashreplace").rstrip("\r\n")
    return repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}…"
