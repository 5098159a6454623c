"""Literals of SQL as values of columns: one rule for filters, VALUES, clauses and defaults."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import (
    INTEGER_BITS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from lakewright.storage.spec.values import EXACT_DECIMALS, Value, from_python, to_python

# Python's parser cuts digits after the sixth, which would change the moment.
_FRACTION = re.compile(r"[.,](\d+)")


_HEX = re.compile(r"([0-9a-fA-F]{2})*")
TWO_DIGITS = "write two digits for each"


def bytes_of(text: str) -> bytes | None:
    """The bytes of `X'…'`; None for half a byte, and for what only Python reads, such as blanks."""
    return bytes.fromhex(text) if _HEX.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class Moment:
    """`DATE '…'`, `TIME '…'` or `TIMESTAMP '…'`; `kind` is the type that the keyword says."""

    text: str
    kind: TypeRoot


class Members(dict[str, object]):
    """A struct: members by name. A mapping of another kind is a map."""


def plain(value: object) -> object:
    """A literal as a Python value without the keyword of its type."""
    match value:
        case Moment():
            return value.text
        case list():
            return [plain(each) for each in value]
        case dict():
            return {plain(key): plain(each) for key, each in value.items()}
        case _:
            return value


def fitted(value: object, data_type: DataType) -> object:
    """A literal as a Python value that is written into a column of a type.

    Lists and mappings whose type has no such parts are left to the writer.

    Raises:
        InvalidRequestError: the literal is of another type, or the column would hold another value.
    """
    match data_type, value:
        case _, None:
            return None
        case ArrayType(element=element), list():
            return [fitted(each, element) for each in value]
        case ((MapType() | MultisetType()), Members()):
            raise InvalidRequestError("it is a struct; write MAP(key, value, …)")
        case MapType(key=key_type, value=value_type), dict():
            return {fitted(key, key_type): fitted(each, value_type) for key, each in value.items()}
        case MultisetType(element=element), dict():
            _check_counts(value)
            return {fitted(key, element): each for key, each in value.items()}
        case RowType(), dict() if not isinstance(value, Members):
            raise InvalidRequestError("it is a map; write NAMED_STRUCT('name', value, …)")
        case RowType(fields=fields), dict():
            types = {field.name: field.type for field in fields}
            return {
                name: fitted(each, types[name]) if name in types else plain(each)
                for name, each in value.items()
            }
        case AtomicType(), bool() | int() | float() | Decimal() | str() | bytes() | Moment():
            return _fitted_atom(value, data_type)
        case _:
            return plain(value)


def _check_counts(counts: Mapping[object, object]) -> None:
    for value, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InvalidRequestError(
                f"a multiset maps values to how often they are in it, from 1 on, and {value!r} has "
                f"{count!r}"
            )


def _fitted_atom(value: object, data_type: AtomicType) -> object:
    if isinstance(value, Moment):
        if data_type.root.is_text and value.kind is not TypeRoot.TIMESTAMP_LTZ:
            return _text_of(value)
        converted(value.text, data_type, value.kind)
        return value.text
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        converted(value, data_type)
        return value
    held = converted(Decimal(repr(value)), data_type)
    if isinstance(held, float) and math.isinf(held):
        raise InvalidRequestError(f"it is larger than every {data_type}")
    if isinstance(value, int) and isinstance(held, float) and held != value:
        raise InvalidRequestError(f"no {data_type} is equal to it, the nearest is {int(held)}")
    return value


def _text_of(moment: Moment) -> str:
    """A moment as Spark's casts write it, such as `2024-01-31 10:00:00.5`.

    Raises:
        InvalidRequestError: its text is no such moment.
    """
    own = AtomicType(moment.kind, precision=6 if moment.kind.is_timestamp else 0)
    text = str(to_python(converted(moment.text, own, moment.kind), own))
    return text.rstrip("0") if "." in text else text


def check_default(value: object, data_type: DataType) -> None:
    """Check that a literal means the same as its text, which is the default that a schema holds.

    Raises:
        InvalidRequestError: it does not; such as a number that is read as days since 1970.
    """
    is_text = isinstance(data_type, AtomicType) and data_type.root.is_text
    if isinstance(value, bytes) or (isinstance(value, (int, float, Decimal)) and not is_text):
        fitted(value, data_type)


def default_text(value: object) -> str | None:
    """A literal as the text of a default; None for NULL, which is no default.

    Raises:
        InvalidRequestError: it is no text in UTF-8.
    """
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case bytes():
            try:
                text = value.decode()
            except UnicodeDecodeError:
                raise InvalidRequestError(
                    "schemas hold defaults as texts, and these bytes are none in UTF-8; give the "
                    "column a value in every row"
                ) from None
        case _:
            text = str(value)
    # Readers take quotes around a default away.
    return f"'{text}'" if len(text) > 1 and text[0] == text[-1] == "'" else text


def converted(value: object, data_type: AtomicType, kind: TypeRoot | None = None) -> Value:
    """A literal in the internal form of a column's values; numbers are `Decimal`.

    Raises:
        InvalidRequestError: the literal is not of the column's type, or finer than the type.
    """
    root = data_type.root
    if kind is not None and not _comparable(kind, root):
        raise InvalidRequestError(f"it is a {kind.value.lower()}")
    if isinstance(value, Decimal):
        if root is TypeRoot.DATE:
            raise InvalidRequestError("write DATE '2024-01-31'")
        if root.is_timestamp:
            message = "a number is no moment; write TIMESTAMP '2024-01-31 13:45:00'"
            raise InvalidRequestError(message)
        if root.is_bytes:
            raise InvalidRequestError("write X'…' in hexadecimal")
        return from_python(value, data_type)
    if isinstance(value, str):
        if root.is_bytes:
            raise InvalidRequestError("write X'…' in hexadecimal")
        if root is TypeRoot.TIME:
            return _time_of_day(value, data_type)
        if root.is_timestamp:
            if kind is TypeRoot.DATE:
                _check_date(value)
            return _timestamp(value, data_type)
    return from_python(value, data_type)


def neighbours(number: Decimal, data_type: AtomicType) -> tuple[Decimal | None, Decimal | None]:
    """The values of an exact type next to a number: the largest below it, the smallest above it.

    Both are the number itself if the type has it. None is a side without values.
    """
    if data_type.root is TypeRoot.DECIMAL:
        unit = Decimal(1).scaleb(-data_type.scale)
        most = Decimal(10**data_type.precision - 1).scaleb(-data_type.scale, EXACT_DECIMALS)
        least = -most
    else:
        unit = Decimal(1)
        half = 2 ** (INTEGER_BITS[data_type.root] - 1)
        least, most = Decimal(-half), Decimal(half - 1)
    if number < least:
        return None, least
    if number > most:
        return most, None
    return (
        number.quantize(unit, ROUND_FLOOR, EXACT_DECIMALS),
        number.quantize(unit, ROUND_CEILING, EXACT_DECIMALS),
    )


def _comparable(kind: TypeRoot, root: TypeRoot) -> bool:
    if root.is_timestamp:
        return kind is TypeRoot.DATE or kind.is_timestamp
    return kind is root


def _check_date(text: str) -> None:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        raise InvalidRequestError("it is no date; write DATE '2024-01-31'") from None


def _time_of_day(text: str, data_type: AtomicType) -> Value:
    match = _FRACTION.search(text)
    if match is not None and len(match.group(1).rstrip("0")) > 3:
        raise InvalidRequestError("the column holds milliseconds")
    try:
        if dt.time.fromisoformat(text).tzinfo is not None:
            raise InvalidRequestError("it has a time zone, the column has none")
    except ValueError as error:
        if isinstance(error, InvalidRequestError):
            raise
        raise InvalidRequestError("write TIME '13:45:00'") from None
    return from_python(text, data_type)


def _timestamp(text: str, data_type: AtomicType) -> Value:
    digits = 9 if data_type.precision > 6 else 6 if data_type.precision > 3 else 3
    match = _FRACTION.search(text)
    fraction = match.group(1).rstrip("0") if match is not None else ""
    if len(fraction) > digits:
        raise InvalidRequestError(f"the column holds {digits} digits of a second")
    try:
        value = from_python(_FRACTION.sub("", text, count=1), data_type)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{error.__cause__ or error}; write TIMESTAMP '2024-01-31 13:45:00'"
        ) from None
    assert isinstance(value, int)
    return value + int(fraction.ljust(9, "0"))
