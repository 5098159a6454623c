"""Column values in their internal form, and conversions from and to Python values.

The internal form is what the format compares and stores: DATE days and TIME
milliseconds as int, timestamps as int nanoseconds since the epoch, decimals as
`Decimal` of the column's scale, text as str, bytes as bytes. `to_python` and
`from_python` convert for callers, who use `date`, `datetime` and text.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import INTEGER_BITS, AtomicType, DataType, TypeRoot

Value = bool | int | float | str | bytes | Decimal | None

NANOS_PER_MICRO = 1_000
NANOS_PER_MILLI = 1_000_000
NANOS_PER_SECOND = 1_000_000_000
# Characters of a value that an error message shows.
_MOST_SHOWN = 80
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = dt.date(1970, 1, 1)
_MICROS_OF_A_DAY = 86_400_000_000
# Wide enough for DECIMAL(38), independent of the caller's decimal context.
EXACT_DECIMALS = Context(prec=76)


class StoredNumber(int):
    """A moment in its internal form, by the unit of its type; any other number is no moment."""

    __slots__ = ()

    def __repr__(self) -> str:
        return int.__repr__(self)


def to_python(value: Value, data_type: DataType) -> object:
    """An internal value as a Python value that `from_python` converts back.

    Values without a Python counterpart stay internal, as a `StoredNumber`: dates outside of the
    years 1 to 9999, and such timestamps, or finer ones than microseconds; times beyond the day.
    """
    if value is None or not isinstance(data_type, AtomicType):
        return value
    try:
        return _to_python(value, data_type)
    except (OverflowError, ValueError):
        return StoredNumber(value) if isinstance(value, int) else value


def time_of_day(microseconds: int) -> dt.time:
    """A time of day by its count; raises a ValueError for one that is beyond the day."""
    if not 0 <= microseconds < _MICROS_OF_A_DAY:
        raise ValueError(f"{microseconds} microseconds of the day are not before 24:00:00")
    return (_EPOCH + dt.timedelta(microseconds=microseconds)).time()


def _to_python(value: Value, data_type: AtomicType) -> object:
    match data_type.root:
        case TypeRoot.DATE:
            assert isinstance(value, int)
            return _EPOCH_DAY + dt.timedelta(days=value)
        case TypeRoot.TIME:
            assert isinstance(value, int)
            return time_of_day(value * 1_000)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            assert isinstance(value, int)
            if value % NANOS_PER_MICRO:
                return StoredNumber(value)
            moment = _EPOCH + dt.timedelta(microseconds=value // NANOS_PER_MICRO)
            utc = data_type.root is TypeRoot.TIMESTAMP_LTZ
            return moment.replace(tzinfo=dt.UTC) if utc else moment
        case _:
            return value


def from_python(value: object, data_type: DataType) -> Value:
    """A caller's value in its internal form; texts are parsed for every type.

    Raises:
        InvalidRequestError: the value is not of that type.
    """
    if value is None:
        return None
    if not isinstance(data_type, AtomicType):
        raise InvalidRequestError(f"{_shown(value)} cannot be compared with a {data_type}")
    try:
        return _convert(value, data_type)
    except (ValueError, TypeError, OverflowError) as error:
        why = _cut(str(error))
        raise InvalidRequestError(f"{_shown(value)} is not a valid {data_type}: {why}") from error


def _shown(value: object) -> str:
    """The value's `repr`, cut if it is long."""
    try:
        return _cut(repr(value))
    except ValueError:
        # Python refuses to print numbers of more than some thousand digits.
        return "a very large number"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _convert(value: object, data_type: AtomicType) -> Value:
    root = data_type.root
    is_moment = root in (TypeRoot.DATE, TypeRoot.TIME) or root.is_timestamp
    if isinstance(value, StoredNumber) and not is_moment:
        raise TypeError("a moment is no value of that type")
    if root is TypeRoot.BOOLEAN:
        return _boolean(value)
    if root in INTEGER_BITS:
        return _integer(value, INTEGER_BITS[root])
    if root.is_floating:
        return _floating(value, single=root is TypeRoot.FLOAT)
    if root is TypeRoot.DECIMAL:
        return _decimal(value, data_type)
    if root.is_text:
        if isinstance(value, str):
            # Half of a surrogate pair raises a ValueError: no file can hold it.
            value.encode()
            return value
        raise TypeError("text is expected")
    if root.is_bytes:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, str):
            return bytes.fromhex(value)
        raise TypeError("bytes, or hexadecimal text, are expected")
    if root is TypeRoot.DATE:
        return _days(value)
    if root is TypeRoot.TIME:
        return _milliseconds_of_day(value)
    return _nanoseconds(value, data_type)


def _check_digits(value: object) -> None:
    """Refuse texts that only Python reads as numbers, such as `1_000`."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        raise ValueError("it is not a number")


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise TypeError("true or false is expected")


def _floating(value: object, *, single: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise TypeError("a number is expected")
    _check_digits(value)
    try:
        number = float(value)
    except ValueError:
        raise ValueError("it is not a number") from None
    if not single:
        return number
    # A FLOAT column holds the nearest 32-bit number, so a comparison must use it too.
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _integer(value: object, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal, float)):
        raise TypeError("a whole number is expected")
    if isinstance(value, float) and not value.is_integer():
        raise ValueError("it is not a whole number")
    _check_digits(value)
    # 1e9999999 as an integer would have ten million digits.
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() >= bits:
        raise ValueError(f"it does not fit in {bits} bits")
    try:
        number = int(value)
    except (ValueError, OverflowError):
        raise ValueError("it is not a whole number") from None
    if isinstance(value, Decimal) and number != value:
        raise ValueError("it is not a whole number")
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f"it does not fit in {bits} bits")
    return number


def _decimal(value: object, data_type: AtomicType) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise TypeError("a number is expected")
    _check_digits(value)
    try:
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except InvalidOperation:
        raise ValueError("it is not a number") from None
    if not exact.is_finite():
        raise ValueError("it is not a number of digits")
    if exact and exact.adjusted() >= data_type.precision - data_type.scale:
        raise ValueError(f"it has more than {data_type.precision} digits")
    scaled = exact.quantize(Decimal(1).scaleb(-data_type.scale), context=EXACT_DECIMALS)
    if scaled != exact:
        raise ValueError(f"it has more than {data_type.scale} digits after the point")
    if len(scaled.as_tuple().digits) > data_type.precision:
        raise ValueError(f"it has more than {data_type.precision} digits")
    # The format has no negative zero.
    return scaled or scaled.copy_abs()


# Digits that are no date of the form 20240131.
_NUMBER_TEXT = re.compile(r"\s*[+-]?(?!\d{8}\s*$)\d+(\.\d*)?\s*")


def is_number_text(text: str) -> bool:
    """Whether a text is a number, without a unit that would make it a moment."""
    return _NUMBER_TEXT.fullmatch(text) is not None


def _check_no_number(value: object, root: TypeRoot) -> None:
    """Refuse a number for a date or a timestamp: it may be days, seconds or milliseconds."""
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if is_number or (isinstance(value, str) and is_number_text(value)):
        unit = "epoch_days" if root is TypeRoot.DATE else "epoch_ms"
        raise TypeError(f"a number is no moment; convert it, or declare its unit (`from: {unit}`)")


def _days(value: object) -> int:
    if isinstance(value, StoredNumber):
        if not -(2**31) <= value < 2**31:
            raise ValueError("days since 1970 have 32 bits")
        return int(value)
    _check_no_number(value, TypeRoot.DATE)
    if isinstance(value, dt.datetime):
        raise TypeError("a date without a time is expected")
    if isinstance(value, str):
        value = dt.date.fromisoformat(value)
    if isinstance(value, dt.date):
        return (value - _EPOCH_DAY).days
    raise TypeError("a date is expected, such as 2024-01-31")


def _milliseconds_of_day(value: object) -> int:
    if isinstance(value, StoredNumber):
        if not -(2**31) <= value < 2**31:
            raise ValueError("it is not before 24:00:00")
        return int(value)
    if isinstance(value, str):
        if ":" not in value:
            # Python takes digits alone for a time, of however many digits.
            raise ValueError("hours and minutes are parted by a colon")
        parts = _FRACTION.fullmatch(value)
        if parts is not None and len(parts.group(2).rstrip("0")) > 3:
            # Python cuts a fraction after six digits.
            raise ValueError("it is finer than milliseconds")
        value = dt.time.fromisoformat(value)
    if not isinstance(value, dt.time):
        raise TypeError("a time of day is expected, such as 13:45:00")
    if value.tzinfo is not None:
        raise ValueError("it has a time zone, which a time of day has not")
    if value.microsecond % 1000:
        raise ValueError("it is finer than milliseconds")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


# A fraction is parsed apart, since Python keeps only six digits.
_FRACTION = re.compile(r"(.*\d\d:?\d\d:?\d\d)[.,](\d+)(.*)")
# A day, a time after a T or a blank, and a zone of that time. Python takes any character for the T,
# and so the zone of a day for a time.
_MOMENT = re.compile(
    r"(?:\d{4}-\d\d-\d\d|\d{8}|\d{4}-?W\d\d(?:-?\d)?)"
    r"(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?(?P<zone>Z|[+-]\d\d(?::?\d\d){0,2})?)?"
)


def has_zone(text: str) -> bool:
    """Whether the text of a moment says the zone of its time."""
    found = _MOMENT.fullmatch(text)
    return found is not None and found["zone"] is not None


def _nanoseconds(value: object, data_type: AtomicType) -> int:
    nanos = _unbounded_nanoseconds(value, data_type)
    if not -(2**63) <= nanos // stored_nanos(data_type.precision) < 2**63:
        held = ": the column holds the years 1677 to 2262" if data_type.precision > 6 else ""
        raise ValueError(f"it is too far from 1970{held}")
    return nanos


def stored_nanos(precision: int) -> int:
    """The unit in which 64 bits hold a timestamp, in nanoseconds: 1 ms, 1 µs or 1 ns."""
    return NANOS_PER_MILLI if precision <= 3 else NANOS_PER_MICRO if precision <= 6 else 1


def stored_digits(data_type: AtomicType) -> int:
    """The digits of a second that the unit of a type's storage holds."""
    if data_type.root is TypeRoot.TIME:
        return 3
    return 3 if data_type.precision <= 3 else 6 if data_type.precision <= 6 else 9


def _unbounded_nanoseconds(value: object, data_type: AtomicType) -> int:
    if isinstance(value, StoredNumber):
        return int(value)
    _check_no_number(value, data_type.root)
    below_second = 0
    if isinstance(value, str):
        if _MOMENT.fullmatch(value) is None:
            raise ValueError("a day and a time are expected, such as 2024-01-31T13:45:00")
        parts = _FRACTION.fullmatch(value)
        if parts is not None:
            digits = parts.group(2).rstrip("0")
            if len(digits) > 9:
                raise ValueError("it has more than 9 digits below the second")
            below_second = int(digits.ljust(9, "0"))
            value = parts.group(1) + parts.group(3)
        value = dt.datetime.fromisoformat(value)
    elif isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if not isinstance(value, dt.datetime):
        raise TypeError("a timestamp is expected, such as 2024-01-31T13:45:00")
    if below_microsecond := getattr(value, "nanosecond", 0):
        # A Timestamp of pandas, as Arrow gives for columns of nanoseconds.
        below_second += below_microsecond
        value = value.replace(nanosecond=0)  # type: ignore[call-arg] # pandas is not imported here
    if value.tzinfo is not None:
        if data_type.root is TypeRoot.TIMESTAMP:
            raise ValueError("it has a time zone, the column has none")
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    micros = (value - _EPOCH) // dt.timedelta(microseconds=1)
    nanos = micros * NANOS_PER_MICRO + below_second
    # The format keeps the digits of the unit in which it stores a type, and so do its writers.
    unit = stored_nanos(data_type.precision)
    if nanos % unit:
        raise ValueError(f"the column holds {10 - len(str(unit))} digits of a second")
    return nanos


def order_key(value: Value) -> Any:
    """A key with the order of the format: NaN above all numbers, -0.0 below 0.0."""
    if isinstance(value, float):
        if math.isnan(value):
            return (1, 0.0, 0)
        return (0, value, 0 if math.copysign(1.0, value) < 0 else 1)
    return value


def same_value(left: Value, right: Value) -> bool:
    """Whether values are equal as partitions and keys: NaN equals NaN, 0.0 differs from -0.0."""
    return bool(order_key(left) == order_key(right))


def comparison_key(value: Value) -> Any:
    """A key with the order of SQL: NaN above all numbers and equal to itself, -0.0 = 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value
