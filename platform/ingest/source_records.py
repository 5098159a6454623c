"""Source files of records, as tables of the declared types: JSON, and the Avro of other systems.

JSON is an object on each line, or arrays of objects over any lines. Avro has the meaning of its
specification, in which `timestamp-millis` is a moment; Paimon's own data files have another.
"""

from __future__ import annotations

import codecs
import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from io import BytesIO
from typing import IO, Any

import fastavro
import pyarrow as pa

from lakewright.storage.codec.avro_container import read_block, read_block_head, read_header
from lakewright.storage.codec.python_columns import UnfitValueError, python_column
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot

# So many rows become one table.
_ROWS_AT_ONCE = 1 << 15
_CHUNK_BYTES = 1 << 20
# The text of one object; a longer one is taken for damage.
_MOST_CHARACTERS = 1 << 26
_MOST_SHOWN = 80
_BLANKS = re.compile(r"[ \t\r\n]*")
Unread = Callable[[int, str, InvalidRows], None]


@dataclass(frozen=True, slots=True)
class RecordTypes:
    """The layouts of `strptime` that texts of dates and timestamps have; ISO without."""

    date: str | None = None
    timestamp: str | None = None

    def read(self, values: list[object], field: DataField) -> list[object]:
        """The values of a column, with its texts as dates or moments.

        Raises:
            UnfitValueError: a text does not have the layout.
        """
        root = field.type.root if isinstance(field.type, AtomicType) else None
        is_date = root is TypeRoot.DATE
        layout = self.date if is_date else self.timestamp
        if layout is None or root is None or not (is_date or root.is_timestamp):
            return values
        read: list[object] = []
        for at, value in enumerate(values):
            if not isinstance(value, str):
                read.append(value)
                continue
            try:
                # The column's type decides whether a zone is required.
                moment = dt.datetime.strptime(value, layout)  # noqa: DTZ007
            except ValueError:
                why = f"is {field.type}, and {_cut(repr(value))} does not have the layout {layout}"
                raise UnfitValueError(at, field.name, why) from None
            read.append(moment.date() if is_date else moment)
        return read


@dataclass(frozen=True, slots=True)
class Records:
    """Some records of a file, and the number of the line, or row, where each begins.

    `texts` are the records as the file has them, if it is one of text.
    """

    records: list[Mapping[str, object]]
    numbers: list[int]
    unit: str = "line"
    texts: list[str] = field(default_factory=list)

    def part(self, start: int, length: int) -> Records:
        """Some of the records."""
        end = start + length
        return Records(
            self.records[start:end], self.numbers[start:end], self.unit, self.texts[start:end]
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of all members, each once."""
        return tuple(dict.fromkeys(name for each in self.records for name in each))

    def table(
        self, fields: Sequence[DataField], *, path: str, types: RecordTypes = RecordTypes()
    ) -> pa.Table:
        """The columns of these fields; a member that a record lacks is null.

        Raises:
            InvalidRows: a value is not of its column's type.
        """
        columns = []
        for one in fields:
            values = [each.get(one.name) for each in self.records]
            try:
                columns.append(python_column(types.read(values, one), one))
            except UnfitValueError as error:
                raise InvalidRows(
                    f"{path}: {self.unit} {self.numbers[error.at]}: column {error.path} "
                    f"{error.why}",
                    column=one.name,
                ) from error
        # A table without columns would lose the number of its rows.
        columns.append(pa.nulls(len(self.records)))
        return pa.table(columns, names=[*(each.name for each in fields), ""])


# --- JSON -----------------------------------------------------------------------------------------


def read_json_records(
    source: IO[bytes], *, path: str, encoding: str, exact: bool, unread: Unread | None = None
) -> Iterator[Records]:
    """The objects of a JSON file; `exact` keeps all digits of numbers, for decimals.

    `unread` gets the line, the text and the reason of what is no object, and the others are read.

    Raises:
        InvalidRows: the file is not JSON, or without `unread` holds something else than objects.
    """
    found = _JsonObjects(_texts(source, encoding), path, Decimal if exact else _finite, unread)
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


class _TooLargeError(Exception):
    """A number that would become infinite."""


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _TooLargeError(f"{text} is too large for a number of 64 bits")
    return number


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    # Python turns no text into a whole number that has thousands of digits.
    return str(error) if isinstance(error, _TooLargeError) else "a number has too many digits"


class _JsonObjects:
    """The values of a JSON file, each with its line and its text.

    A line that is no value goes to `unread`. Of an array it is not known where the next one begins.
    """

    def __init__(
        self,
        texts: Iterator[str],
        path: str,
        number: Callable[[str], object],
        unread: Unread | None,
    ) -> None:
        self._texts = texts
        self._unread = unread
        self._path = path
        self._text = ""
        # Where the next value begins in the text, and the number of that line.
        self._at = 0
        self._line = 1
        self._decoder = json.JSONDecoder(parse_float=number)

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
            value, last = self._decoder.raw_decode(line, start)
        except json.JSONDecodeError as error:
            why = error.msg
            if error.pos >= end:
                why += "; an object ends on the line where it begins, unless it is in an array"
            raise self._error(self._line, error.pos + 1, why, line, error.pos) from None
        except (RecursionError, ValueError, _TooLargeError) as error:
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
                return self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # The end of the text that was read may be in the middle of the element.
                is_cut = error.pos + 16 > len(self._text) or error.msg.startswith("Unterminated")
                wrong = self._wrong(error.pos, error.msg)
                if not is_cut or len(self._text) > _MOST_CHARACTERS or not self._grow():
                    raise wrong from None
            except (RecursionError, ValueError, _TooLargeError) as error:
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


# --- Avro -----------------------------------------------------------------------------------------


def read_avro_records(source: IO[bytes], *, path: str) -> Iterator[tuple[tuple[str, ...], Records]]:
    """The names of a file's columns with each of its blocks, the first time without records.

    Raises:
        CorruptionError: the file is not Avro, or cut short.
        InvalidRows: it holds something else than records.
    """
    header = read_header(source, path=path)
    try:
        schema: Any = fastavro.parse_schema(_without_uuids(header.schema))
    except Exception as error:
        # Avro has no error type of its own.
        raise InvalidRows(f"{path} has an invalid Avro schema: {error!r}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InvalidRows(f"{path} holds Avro values that are not records with columns")
    names = tuple(str(field["name"]) for field in schema["fields"])
    yield names, Records([], [], "row")
    # Decoded as one array of records, a block is one call.
    array: Any = fastavro.parse_schema({"type": "array", "items": schema})
    row = 0
    while head := read_block_head(source, path=path):
        data = read_block(source, head, header, path=path)
        records = _decoded(data, head.row_count, array, path)
        for start in range(0, len(records), _ROWS_AT_ONCE):
            part = records[start : start + _ROWS_AT_ONCE]
            first = row + start + 1
            yield names, Records(part, list(range(first, first + len(part))), "row")
        row += head.row_count


def _decoded(data: bytes, count: int, array: Any, path: str) -> list[Mapping[str, object]]:
    if not count:
        return []
    framed = BytesIO(_varint(count) + data + b"\0")
    try:
        records: Any = fastavro.schemaless_reader(framed, array, None)
    except Exception as error:
        # A damaged block fails wherever it is damaged.
        raise InvalidRows(f"{path} cannot be read as Avro: {error!r}") from error
    if len(records) != count or framed.read(1):
        raise InvalidRows(f"{path}: a block does not hold the {count} rows that it says")
    return list(records)


def _without_uuids(schema: Any) -> Any:
    """A schema whose UUIDs are the texts that they are stored as."""
    if isinstance(schema, dict):
        return {
            key: _without_uuids(value)
            for key, value in schema.items()
            if (key, value) != ("logicalType", "uuid")
        }
    return [_without_uuids(each) for each in schema] if isinstance(schema, list) else schema


def _varint(number: int) -> bytes:
    """A positive number as Avro writes it."""
    left, data = number << 1, bytearray()
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*data, left])
