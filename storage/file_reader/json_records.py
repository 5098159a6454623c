"""The objects of JSON files: one on each line, or arrays of objects over any lines."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from lakewright.storage.codec.json_atoms import JSON_DECODER
from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader.records import Records

# So many rows become one table.
_ROWS_AT_ONCE = 1 << 15
_CHUNK_BYTES = 1 << 20
# The text of one object; a longer one is taken for damage.
_MOST_CHARACTERS = 1 << 26
_MOST_SHOWN = 80
_BLANKS = re.compile(r"[ \t\r\n]*")
Unread = Callable[[int, str, InvalidRows], None]


def records_of_lines(lines: Sequence[tuple[int, bytes]], *, path: str, unread: Unread) -> Records:
    """The objects of lines, each with its number; their numbers keep their digits.

    `unread` gets the line, the text and the reason of what is no object, or raises.
    """
    some = Records([], [])
    for number, data in lines:
        line = data.decode()
        try:
            record = _of_line(line, number, path)
        except InvalidRows as error:
            unread(number, line, error)
            continue
        _add(some, number, line, record, path, unread)
    return some


def records_of_arrays(
    source: IO[bytes], *, path: str, encoding: str, unread: Unread
) -> Iterator[Records]:
    """The objects of a file of arrays.

    Raises:
        InvalidRows: the file is not JSON, or `unread` raises of something else than an object.
    """
    some = Records([], [])
    characters = 0
    for number, text, record in _Arrays(_texts(source, encoding), path).elements():
        _add(some, number, text, record, path, unread)
        characters += len(text)
        if len(some.records) == _ROWS_AT_ONCE or characters > _CHUNK_BYTES * 8:
            yield some
            some, characters = Records([], []), 0
    yield some


def _add(some: Records, number: int, text: str, record: object, path: str, unread: Unread) -> None:
    if isinstance(record, dict):
        some.records.append(record)
        some.numbers.append(number)
        some.texts.append(text)
        return
    error = InvalidRows(
        f"{path}: line {number}: {_cut(repr(record))} is not an object with a member for each "
        "column"
    )
    unread(number, text, error)


def _texts(source: IO[bytes], encoding: str) -> Iterator[str]:
    """The text of a file piece by piece, without a mark at its beginning."""
    decoder = codecs.getincrementaldecoder(encoding)()
    is_first = True
    while data := source.read(_CHUNK_BYTES):
        text = decoder.decode(data)
        yield text.removeprefix("\ufeff") if is_first else text
        is_first = False
    yield decoder.decode(b"", final=True)


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    # Python turns no text into a whole number that has thousands of digits.
    return "a number has too many digits" if "digits" in str(error) else str(error)


def _of_line(line: str, number: int, path: str) -> object:
    start = len(line) - len(line.lstrip())
    end = len(line.rstrip())
    try:
        value, last = JSON_DECODER.raw_decode(line, start)
    except json.JSONDecodeError as error:
        why = error.msg
        if error.pos >= end:
            why += "; an object ends on the line where it begins, unless it is in an array"
        raise _error(path, number, error.pos + 1, why, line, error.pos) from None
    except (RecursionError, ValueError) as error:
        raise _error(path, number, start + 1, _why(error), line, start) from None
    if last < end:
        raise _error(path, number, last + 1, "more follows the value", line, last)
    return value


class _Arrays:
    """The elements of one array after the other, each with its line and its text."""

    def __init__(self, texts: Iterator[str], path: str) -> None:
        self._texts = texts
        self._path = path
        self._text = ""
        # Where the next value begins in the text, and the number of that line.
        self._at = 0
        self._line = 1

    def _more(self) -> bool:
        """Take the next piece; False at the end of the file."""
        piece = next(self._texts, None)
        if piece is None:
            return False
        self._text += piece
        return True

    def elements(self) -> Iterator[tuple[int, str, object]]:
        """The elements, each decoded once it is there as a whole."""
        self._take("[")
        while True:
            if self._first() == "]":
                self._take("]")
                if self._first() == "":
                    return
                self._take("[")
                continue
            line = self._line
            value, end = self._element()
            # The search for the end may have dropped the text before the element.
            text = self._text[self._at : end]
            self._go_to(end)
            yield line, text, value
            if self._first() == ",":
                self._take(",")
                if self._first() == "]":
                    raise self._wrong(self._at, "an element is missing after the comma")
            elif self._first() != "]":
                raise self._wrong(self._at, "a comma, or ] at the end, is missing")

    def _element(self) -> tuple[object, int]:
        """The next element, and where it ends in the text."""
        while True:
            try:
                return JSON_DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # The end of the text that was read may be in the middle of the element.
                is_cut = error.pos + 16 > len(self._text) or error.msg.startswith("Unterminated")
                wrong = self._wrong(error.pos, error.msg)
                if not is_cut or len(self._text) > _MOST_CHARACTERS or not self._grow():
                    raise wrong from None
            except (RecursionError, ValueError) as error:
                raise self._wrong(self._at, _why(error)) from None

    def _grow(self) -> bool:
        """Take as much again, so that a long element is not decoded for each piece."""
        self._text, self._at = self._text[self._at :], 0
        size = len(self._text)
        while len(self._text) <= 2 * size:
            if not self._more():
                break
        return len(self._text) > size

    def _first(self) -> str:
        """The next character that is no blank; "" at the end."""
        while True:
            found = _BLANKS.match(self._text, self._at)
            assert found is not None
            self._go_to(found.end())
            if self._at < len(self._text):
                return self._text[self._at]
            self._text, self._at = "", 0
            if not self._more():
                return ""

    def _take(self, mark: str) -> None:
        if self._first() != mark:
            raise self._wrong(self._at, f"{mark} is expected")
        self._go_to(self._at + 1)

    def _go_to(self, at: int) -> None:
        self._line += self._text.count("\n", self._at, at)
        self._at = at

    def _wrong(self, at: int, why: str) -> InvalidRows:
        """The error at a place of the text, whose line is that of `_at` and the breaks between."""
        line = self._line + self._text.count("\n", self._at, at)
        column = at - self._text.rfind("\n", 0, at)
        return _error(self._path, line, column, why, self._text, at)


def _error(path: str, line: int, column: int, why: str, text: str, at: int) -> InvalidRows:
    near = text[max(0, at - _MOST_SHOWN // 2) : at + _MOST_SHOWN // 2].strip()
    return InvalidRows(
        f"{path}: line {line}, column {column} is not JSON: {why}: {near!r}; nothing was written"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
