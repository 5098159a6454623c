"""One text for the values of a partition, and back: what people type and orchestrators keep.

Unlike its folder, the text tells null, the empty text and every other value apart. Values are
percent-encoded, so that it holds no `/`, `=`, `|`, `,`, brackets or control characters of theirs,
nor `...` or blanks at an end. Null and the empty text have tokens, which no encoded text can equal
since `%` is always encoded itself. All NaN have one text.

One column prints as its value, `2013-12-03`; several as `dt=2013-12-03/hh=07`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol
from urllib.parse import unquote

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, DataType, TypeRoot
from lakewright.storage.spec.values import (
    NANOS_PER_MICRO,
    StoredNumber,
    Value,
    from_python,
    to_python,
)

NULL_TEXT = "%null"
EMPTY_TEXT = "%empty"
# Before the stored number of a date or timestamp that Python's calendar does not have.
_STORED = "%stored"

_RESERVED = frozenset('%|[],/="\\')
# A dot beside a dot or at an end could become part of the range mark `...`, and blanks at an
# end are lost where texts are typed.
_RISKY = re.compile(r"^[ .]|[ .]\Z|\.(?=\.)|(?<=\.)\.")


class NamedColumn(Protocol):
    """A partition column."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> DataType: ...


def partition_text(values: Sequence[Value], columns: Sequence[NamedColumn]) -> str:
    """The text of a partition's stored values, one for each column."""
    texts = [_encode(value, column.type) for value, column in zip(values, columns, strict=True)]
    if len(columns) == 1:
        return texts[0]
    return "/".join(
        f"{_escape(column.name)}={text}" for column, text in zip(columns, texts, strict=True)
    )


def read_partition_text(text: str, columns: Sequence[NamedColumn]) -> tuple[Value, ...]:
    """The stored values of a partition from its text.

    Raises:
        InvalidRequestError: the text names other columns, or a value is not of its type.
    """
    if len(columns) == 1:
        return (_decode(text, columns[0]),)
    parts = text.split("/") if text else []
    expected = "/".join(f"{column.name}=…" for column in columns)
    if len(parts) != len(columns):
        raise InvalidRequestError(f"partition key {text!r} is not of the form {expected}")
    values = []
    for part, column in zip(parts, columns, strict=True):
        name, equals, value = part.partition("=")
        if not equals or unquote(name) != column.name:
            raise InvalidRequestError(f"partition key {text!r} is not of the form {expected}")
        values.append(_decode(value, column))
    return tuple(values)


def value_text(value: object) -> str:
    """A value as Python users know it, as text that `from_python` reads back."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case float():
            return repr(value)
        case Decimal():
            return format(value, "f")
        case dt.date() | dt.time():
            return value.isoformat()
        case _:
            return str(value)


def _encode(value: Value, data_type: DataType) -> str:
    if value is None:
        return NULL_TEXT
    known = shown_value(value, data_type)
    if _is_of_calendar(data_type) and isinstance(known, int):
        return f"{_STORED}{known}"
    return _escape(value_text(known)) or EMPTY_TEXT


def shown_value(value: Value, data_type: DataType) -> object:
    """A value as Python users know it; as text where Python's clock is too coarse for it."""
    known = to_python(value, data_type)
    if _is_of_calendar(data_type) and isinstance(known, int):
        return _nanosecond_text(known, data_type) or known
    return known


def _nanosecond_text(nanos: int, data_type: DataType) -> str | None:
    """A timestamp finer than microseconds; None where Python's calendar does not have it."""
    micros, below = divmod(nanos, NANOS_PER_MICRO)
    moment = to_python(micros * NANOS_PER_MICRO, data_type)
    if not isinstance(moment, dt.datetime) or not below:
        return None
    text = moment.isoformat(timespec="microseconds")
    end = text.index(".") + 7
    return f"{text[:end]}{below:03d}{text[end:]}"


def _decode(text: str, column: NamedColumn) -> Value:
    if text == NULL_TEXT:
        return None
    number = text.removeprefix(_STORED)
    if number != text and _is_of_calendar(column.type) and re.fullmatch(r"-?\d{1,30}", number):
        return from_python(StoredNumber(number), column.type)
    plain = "" if text == EMPTY_TEXT else _unescape(text)
    try:
        return from_python(plain, column.type)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{text!r} is not a value of partition column {column.name} {column.type}: {error}"
        ) from error


def _is_of_calendar(data_type: DataType) -> bool:
    if not isinstance(data_type, AtomicType):
        return False
    return data_type.root is TypeRoot.DATE or data_type.root.is_timestamp


def _escape(text: str) -> str:
    risky = {match.start() for match in _RISKY.finditer(text)}
    return "".join(
        f"%{ord(char):02X}" if at in risky else _escape_char(char) for at, char in enumerate(text)
    )


def _escape_char(char: str) -> str:
    if char in _RESERVED or not char.isprintable():
        return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
    return char


def _unescape(text: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text) or not text:
        raise InvalidRequestError(f"{text!r} is not an encoded partition value")
    return unquote(text, errors="surrogatepass")
