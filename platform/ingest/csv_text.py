"""The text of a CSV file, read strictly: quotes that have no meaning are refused, never guessed at.

Arrow reads broken quotes as other rows, without an error. So the bytes are checked on the way to
it: within well-formed quotes, each quote of an even place begins a field or follows a quote, and
each one of an odd place ends a field or is followed by a quote. If that does not hold, Python's
`csv` decides (`strict=True`); of texts that it accepts, Arrow reads the same rows.

A declared escape counts before a quote or itself, in a quoted field, as Spark writes and reads it.
Everywhere else it is a character like others. Arrow takes it anywhere, and so gets two for one.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.storage.errors import InvalidRows

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_ENDS = b"\r\n"
_BLOCK_BYTES = 1 << 20
_NUL = "\0"
_MASK = b"xx"


class CheckedText(io.RawIOBase):
    """The bytes of a CSV in UTF-8, whose quotes are checked while they are read.

    The last line ends with a line break, and no mark of byte order is there. `decide` is called
    once, at the first quote that is not well-formed, and raises if the file is not.
    """

    def __init__(self, source: Any, form: SourceDeclaration, decide: Callable[[], None]) -> None:
        self._source = source
        self._decide = decide
        self._is_checked = True
        self._quote = form.quote.encode()
        self._escape = form.escape.encode()
        escaped = re.escape(self._escape)
        self._escaped = re.compile(escaped + b".", re.DOTALL) if self._escape else None
        self._plain = _PlainEscapes(self._quote, self._escape, form.delimiter.encode())
        self._neighbours = np.zeros(256, dtype=bool)
        self._neighbours[[*_LINE_ENDS, *form.delimiter.encode(), *self._quote]] = True
        self._is_first, self._is_last = True, False
        # Of what was read before: its last byte, whether a quote is open, whether one was closed
        # at its end, and whether its last byte escapes the next one.
        self._before = b"\n"
        self._is_open = self._is_closed = self._is_escaping = False
        self._held: bytes | None = None

    def readable(self) -> bool:
        return True

    def begins(self, count: int) -> bytes:
        """The first bytes, which stay to be read."""
        if self._held is None:
            self._held = self._next(count)
        return self._held

    def read(self, count: int = _BLOCK_BYTES) -> bytes:
        if self._held is None:
            return self._next(count)
        data, rest = self._held[:count], self._held[count:]
        self._held = rest or None
        return data

    def _next(self, count: int) -> bytes:
        if self._is_last:
            return b""
        data, self._is_last = self._whole(count)
        if self._is_first:
            self._is_first = False
            data = data.removeprefix(_BYTE_ORDER_MARK)
            if not data:
                data, self._is_last = self._whole(count)
        data = self._plain.doubled(data, is_last=self._is_last)
        while not data and not self._is_last:
            # All of it waits for the next byte.
            data, self._is_last = self._whole(count)
            data = self._plain.doubled(data, is_last=self._is_last)
        if data and not self._is_well_formed(data):
            self._doubt()
        if not self._is_last:
            return data
        if self._is_open or self._is_escaping:
            self._doubt()
        return data if self._before in (b"\n", b"\r") else data + b"\n"

    def _whole(self, count: int) -> tuple[bytes, bool]:
        """So many bytes, or those up to the end of the file, and whether it is reached."""
        parts: list[bytes] = []
        missing = count
        while missing > 0:
            part = bytes(self._source.read(missing))
            if not part:
                return b"".join(parts), True
            parts.append(part)
            missing -= len(part)
        return b"".join(parts), False

    def _doubt(self) -> None:
        if self._is_checked:
            self._is_checked = False
            self._decide()

    def _is_well_formed(self, data: bytes) -> bool:
        if self._escaped is not None:
            data = self._without_escapes(data)
        before, self._before = self._before, data[-1:]
        if b"\0" in data:
            return False
        if not self._quote or not self._is_checked:
            return True
        if self._is_closed and not self._neighbours[data[0]]:
            return False
        self._is_closed = False
        if self._quote not in data:
            return True
        found = np.frombuffer(before + data, np.uint8)
        places = np.flatnonzero(found[1:] == self._quote[0]) + 1
        opening, closing = places[int(self._is_open) :: 2], places[int(not self._is_open) :: 2]
        self._is_open = bool((len(places) + self._is_open) % 2)
        if len(closing) and closing[-1] == len(found) - 1:
            self._is_closed, closing = True, closing[:-1]
        beside = (found[opening - 1], found[closing + 1])
        return all(self._neighbours[each].all() for each in beside)

    def _without_escapes(self, data: bytes) -> bytes:
        """The data with other characters for those that are escaped, and for their escapes."""
        assert self._escaped is not None
        if self._is_escaping:
            data = _MASK[:1] + data[1:]
        masked = self._escaped.sub(_MASK, data)
        self._is_escaping = masked.endswith(self._escape)
        return masked


class _PlainEscapes:
    """Doubles the escapes of a text that escape nothing, block after block."""

    def __init__(self, quote: bytes, escape: bytes, delimiter: bytes) -> None:
        self._quote, self._escape = quote, escape
        self._begins = {b"", b"\r", b"\n", delimiter}
        self._marks = re.compile(b"|".join(map(re.escape, (quote, escape))))
        self._is_open = False
        # An escape at the end of a block waits for the next byte; the byte before; whether that
        # is a quote which closed a field.
        self._waiting, self._before, self._has_closed = b"", b"", False

    def doubled(self, data: bytes, *, is_last: bool) -> bytes:
        if not (self._quote and self._escape):
            # Without quotes an escape counts everywhere.
            return data
        data, self._waiting = self._waiting + data, b""
        parts: list[bytes] = []
        begun = skipped = 0
        closed_at = -1 if self._has_closed else -2
        for mark in self._marks.finditer(data):
            at = mark.start()
            if at < skipped:
                continue
            if mark.group() == self._quote:
                before = data[at - 1 : at] if at else self._before
                if self._is_open:
                    self._is_open, closed_at = False, at
                elif before in self._begins or closed_at == at - 1:
                    self._is_open = True
                continue
            following = data[at + 1 : at + 2]
            if self._is_open and not following and not is_last:
                data, self._waiting = data[:at], data[at:]
                break
            if self._is_open and following and following in (self._quote, self._escape):
                skipped = at + 2
                continue
            parts += [data[begun:at], 2 * self._escape]
            begun = at + 1
        self._before = data[-1:] or self._before
        self._has_closed = bool(data) and closed_at == len(data) - 1
        return b"".join([*parts, data[begun:]])


def check_text(lines: Iterable[str], form: SourceDeclaration, *, path: str) -> None:
    """Check the whole text of a file.

    Raises:
        InvalidRows: its quotes have no meaning, or it holds NUL; names the row.
    """
    number = -1 if form.header else 0
    try:
        for number, row in _numbered(lines, form):
            if any(_NUL in value for value in row):
                raise InvalidRows(
                    f"{path}: {_row(number)} holds a NUL character, which no text has; the file is "
                    "damaged, or has another encoding, such as `encoding: utf-16`"
                )
    except csv.Error as error:
        raise InvalidRows(
            f"{path}: {_row(number + 1)} is not well quoted: {error}; write a quote inside of "
            "quotes twice, or declare how it is written: `escape: \\` as Spark does, or "
            '`quote: ""` for a file without quotes'
        ) from None


def ragged_row_number(lines: Iterable[str], form: SourceDeclaration, columns: int) -> int | None:
    """The number of the first row without so many values, from 1 below the header.

    Arrow, which found the row, does not tell its number.
    """
    try:
        for number, row in _numbered(lines, form):
            if len(row) != columns:
                return number
    except (csv.Error, OSError, UnicodeError):
        return None
    return None


def _row(number: int) -> str:
    return f"row {number}" if number else "the header"


def _numbered(lines: Iterable[str], form: SourceDeclaration) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with its number, from 1 below the header."""
    number = 0 if form.header else 1
    with _fields_of_any_size():
        for row in _reader(lines, form):
            if row:
                yield number, row
                number += 1


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """A row as the file has it, where it begins, and its number of values."""

    line: int
    text: str
    columns: int


def written_rows(lines: Iterable[str], form: SourceDeclaration) -> Iterator[WrittenRow]:
    """The rows below the header that are not empty; the text of the file was checked before."""
    taken: list[str] = []

    def noted() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    is_header, begins = form.header, 1
    with _fields_of_any_size():
        for row in _reader(noted(), form):
            text = "".join(taken)
            line, begins = begins, begins + len(taken)
            taken.clear()
            if row and not is_header:
                mark = _BYTE_ORDER_MARK.decode() if line == 1 else ""
                yield WrittenRow(line, text.rstrip("\r\n").removeprefix(mark), len(row))
            is_header = is_header and not row


def _reader(lines: Iterable[str], form: SourceDeclaration) -> Iterator[list[str]]:
    return csv.reader(
        lines,
        delimiter=form.delimiter,
        quotechar=form.quote or None,
        quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE,
        escapechar=form.escape or None,
        strict=True,
    )


@contextmanager
def _fields_of_any_size() -> Iterator[None]:
    """Without the limit of Python's `csv`, which is one for the whole process."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)
