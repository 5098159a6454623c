"""Partition keys: one text for the values of a table partition, and back.

Dagster cannot take every text as a partition key: `|` parts dimensions, `...`
makes a range, control characters and empty keys break pages and queries. So
values are percent-encoded, and null and the empty text have tokens of their
own, which no encoded text can equal since `%` is always encoded itself.

One column prints as its value, `2013-12-03`; several as `dt=2013-12-03/hh=07`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import unquote

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import DataType
from lakewright.storage.spec.values import from_python, order_key, to_python

NULL_KEY = "%null"
EMPTY_KEY = "%empty"

# `[ ] ,` part lists of keys in Dagster, `/` and `=` part columns here.
_RESERVED = frozenset('%|[],/="\\')
# A dot beside a dot or at an end could become part of the range mark `...`, and blanks at an
# end are lost where keys are typed.
_RISKY = re.compile(r"^[ .]|[ .]\Z|\.(?=\.)|(?<=\.)\.")


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column of a table."""

    name: str
    type: DataType


class InvalidPartitionKeyError(ValueError):
    """A text that is the key of no partition, or values that have no key."""


def encode_partition(spec: Mapping[str, object], columns: Sequence[PartitionColumn]) -> str:
    """The key of a partition.

    Raises:
        InvalidPartitionKeyError: a column has no value, or one that is none of its type.
    """
    texts = []
    for column in columns:
        if column.name not in spec:
            raise InvalidPartitionKeyError(f"partition {dict(spec)} has no value for {column.name}")
        texts.append(_encode_value(spec[column.name], column))
    if len(columns) == 1:
        return texts[0]
    return "/".join(
        f"{_escape(column.name)}={text}" for column, text in zip(columns, texts, strict=True)
    )


def decode_partition(key: str, columns: Sequence[PartitionColumn]) -> dict[str, object]:
    """The values of a partition from its key.

    Raises:
        InvalidPartitionKeyError: the key names other columns, or a value is none of its type.
    """
    if len(columns) == 1:
        return {columns[0].name: _decode_value(key, columns[0])}
    parts = key.split("/") if key else []
    expected = "/".join(f"{column.name}=…" for column in columns)
    if len(parts) != len(columns):
        raise InvalidPartitionKeyError(f"partition key {key!r} is not of the form {expected}")
    spec = {}
    for part, column in zip(parts, columns, strict=True):
        name, equals, text = part.partition("=")
        if not equals or unquote(name) != column.name:
            raise InvalidPartitionKeyError(f"partition key {key!r} is not of the form {expected}")
        spec[column.name] = _decode_value(text, column)
    return spec


def describe_partition(spec: Mapping[str, object]) -> str:
    """A partition as messages name it: `dt=2013-12-03`, or `the table` where there is none."""
    if not spec:
        return "the table"
    return ", ".join(
        f"{name}={'null' if value is None else value_text(value)}" for name, value in spec.items()
    )


def partition_identity(spec: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    """Equal for the values of one partition only: NaN equals itself, and 0.0 is not -0.0."""
    return tuple(
        (name, order_key(value) if isinstance(value, float) else value)
        for name, value in sorted(spec.items())
    )


def value_text(value: object) -> str:
    """A value as text that `from_python` of storage reads back."""
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


def _encode_value(value: object, column: PartitionColumn) -> str:
    try:
        known = to_python(from_python(value, column.type), column.type)
    except InvalidRequestError as err:
        raise InvalidPartitionKeyError(f"{column.name}: {err}") from err
    if known is None:
        return NULL_KEY
    return _escape(value_text(known)) or EMPTY_KEY


def _decode_value(text: str, column: PartitionColumn) -> object:
    if text == NULL_KEY:
        return None
    plain = "" if text == EMPTY_KEY else _unescape(text)
    try:
        return to_python(from_python(plain, column.type), column.type)
    except InvalidRequestError as err:
        raise InvalidPartitionKeyError(
            f"{text!r} is no value of partition column {column.name} {column.type}: {err}"
        ) from err


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
        raise InvalidPartitionKeyError(f"{text!r} is no encoded partition value")
    return unquote(text, errors="surrogatepass")
