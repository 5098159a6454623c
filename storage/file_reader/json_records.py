"""The objects of JSON files: one on each line, or arrays of objects over any lines."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
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


def read_json_records(
    source: IO[bytes], *, path: str, encoding: str, unread: Unread | None = None
) -> Iterator[Records]:
    """The objects of a JSON file, whose numbers keep their digits.

    `unread` gets the line, the text and the reason of what is no object, and the others are read.

    Raises:
        InvalidRows: the file is not JSON, or without `unread` holds something else than objects.
    """
    found = _JsonObjects(_texts(source, encoding), path, unread)
    some = Records([], [])
    characters = 0
    for number, text, record in found.objects():
        if not isinstance(record, dict):
            error = InvalidRows(
                f"{path}: line {number}: {_cut(repr(record))} is not an object with a member for "
                "each column"
            )
            if unread is None:
                raise error
            unread(number, text, error)
            continue
        some.records.append(record)
        some.numbers.append(number)
        some.texts.append(text)
        characters += len(text)
        if len(some.records) == _ROWS_AT_ONCE or characters > _CHUNK_BYTES * 8:
            yield some
            some, characters = Records([], []), 0
    yield some


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


class _JsonObjects:
    """The values of a JSON file, each with its line and its text.

    A line that is no value goes to `unread`. Of an array it is not known where the next one begins.
    """

    def __init__(self, texts: Iterator[str], path: str, unread: Unread | None) -> None:
        self._texts = texts
        self._unread = unread
        self._path = path
        self._text = ""
        # Where the next value begins in the text, and the number of that line.
        self._at = 0
        self._line = 1

    def objects(self) -> Iterator[tuple[int, str, object]]:
        while not self._text.strip() and self._more():
            pass
        if self._text.lstrip().startswith("["):
            yield from self._of_arrays()
        else:
            yield from self._of_lines()

    def _more(self) -> bool:
        """Take the next piece; False at the end of the file."""
        piece = next(self._texts, None)
        if piece is None:
            return False
        self._text += piece
        return True

    def _of_lines(self) -> Iterator[tuple[int, str, object]]:
        is_open = True
        while is_open:
            is_open = self._more()
            lines = self._text.split("\n")
            self._text = lines.pop() if is_open else ""
            for line in lines:
                if line and not line.isspace():
                    try:
                        value = self._of_line(line)
                    except InvalidRows as error:
                        if self._unread is None:
                            raise
                        self._unread(self._line, line, error)
                    else:
                        yield self._line, line, value
                self._line += 1
            if len(self._text) > _MOST_CHARACTERS:
                why = f"the line has more than {_MOST_CHARACTERS} characters"
                raise self._error(self._line, 1, why, self._text, 0)

    def _of_line(self, line: str) -> object:
        start = len(line) - len(line.lstrip())
        end = len(line.rstrip())
        try:
            value, last = JSON_DECODER.raw_decode(line, start)
        except json.JSONDecodeError as error:
            why = error.msg
            if error.pos >= end:
                why += "; an object ends on the line where it begins, unless it is in an array"
            raise self._error(self._line, error.pos + 1, why, line, error.pos) from None
        except (RecursionError, ValueError) as error:
            raise self._error(self._line, start + 1, _why(error), line, start) from None
        if last < end:
            raise self._error(self._line, last + 1, "more follows the value", line, last)
        return value

    def _of_arrays(self) -> Iterator[tuple[int, str, object]]:
        """The elements of one array after the other, each decoded once it is there as a whole."""
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
        return self._error(line, column, why, self._text, at)

    def _error(self, line: int, column: int, why: str, text: str, at: int) -> InvalidRows:
        near = text[max(0, at - _MOST_SHOWN // 2) : at + _MOST_SHOWN // 2].strip()
        return InvalidRows(
            f"{self._path}: line {line}, column {column} is not JSON: {why}: {near!r}; nothing was "
            "written"
        )


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
