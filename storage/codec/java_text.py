"""Numbers, dates and times as Java clients read them from text, and times as they write them.

A text that Java cannot read raises `ValueError`. Where releases of Paimon differ, the newest
decides.
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from fractions import Fraction

import numpy as np

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_MS_PER_DAY = 86_400_000
_WHITE = "".join(map(chr, range(33)))
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SUFFIXED = re.compile(rf"(?P<number>{_NUMBER.pattern})[fFdD]?", re.ASCII)
_HEXADECIMAL = re.compile(
    r"(?P<number>[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?",
    re.ASCII,
)
_NAMED = {"NaN": "nan", "Infinity": "inf"}
_INTEGER = re.compile(r"([+-]?)(\d*)(?:\.\d*)?", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}|\+\d{5,9})-(\d{1,2})-(\d{1,2})"
    r"(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?)?",
    re.ASCII,
)
_MOST_YEAR = 9999


# --- texts to numbers --------------------------------------------------------------------------


def parse_boolean(text: str) -> bool:
    """One of the words for true and false, in any case."""
    lower = text.lower()
    if lower in ("t", "true", "y", "yes", "1"):
        return True
    if lower in ("f", "false", "n", "no", "0"):
        return False
    raise ValueError(text)


def parse_integer(text: str, bits: int) -> int:
    """The whole part of a decimal number without an exponent, as Hive reads it."""
    found = _INTEGER.fullmatch(text)
    if found is None or not text.lstrip("+-"):
        raise ValueError(text)
    value = int(found[1] + (found[2] or "0"))
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(text)
    return value


def parse_double(text: str) -> float:
    """A decimal or hexadecimal number, NaN or an infinity."""
    bare = text.strip(_WHITE)
    name = _NAMED.get(bare.lstrip("+-")) if len(bare) - len(bare.lstrip("+-")) < 2 else None
    if name is not None:
        return -float(name) if bare.startswith("-") else float(name)
    hexadecimal = _HEXADECIMAL.fullmatch(bare)
    if hexadecimal is not None:
        try:
            return float.fromhex(hexadecimal["number"])
        except OverflowError:
            return float("-inf" if bare.startswith("-") else "inf")
    found = _SUFFIXED.fullmatch(bare)
    if found is None:
        raise ValueError(text)
    return float(found["number"])


def parse_float(text: str) -> float:
    """The 32-bit number nearest to a text, rounded once."""
    wide = parse_double(text)
    with np.errstate(over="ignore"):
        narrow = np.float32(wide)
    found = _SUFFIXED.fullmatch(text.strip(_WHITE))
    if found is None or not np.isfinite(narrow) or float(narrow) == wide:
        return float(narrow)
    with np.errstate(over="ignore"):
        # The neighbour of the largest number is infinity.
        other = np.nextafter(narrow, np.float32(np.inf if wide > narrow else -np.inf))
    if (float(narrow) + float(other)) / 2 == wide:
        # The 64-bit number lies midway between two 32-bit ones, so the exact number decides.
        exact = Fraction(found["number"])
        if exact != Fraction(wide):
            return float(max(narrow, other) if exact > Fraction(wide) else min(narrow, other))
    return float(narrow)


def parse_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """A decimal, rounded half up; None if it has too many digits."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    try:
        return fitted_decimal(Decimal(text), precision, scale)
    except InvalidOperation as error:
        raise ValueError(text) from error


def fitted_decimal(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """A number with so many digits after the point, rounded half up; None if it is too wide."""
    if value and value.adjusted() >= precision - scale + 1:
        return None
    exact = Context(prec=max(len(value.as_tuple().digits), precision) + scale + 2)
    rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, exact)
    return None if rounded and rounded.adjusted() >= precision - scale else _unsigned_zero(rounded)


def _unsigned_zero(value: Decimal) -> Decimal:
    """The number without a minus sign if it is zero: decimals of tables have no negative zero."""
    return value or abs(value)


# --- dates and times ---------------------------------------------------------------------------


def time_text(millis: int, precision: int) -> str:
    """A time of day; its fraction has at least one digit and no further trailing zeros."""
    seconds, fraction = divmod(millis % _MS_PER_DAY, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if precision == 0:
        return text
    digits = f"{fraction:03d}"[: min(precision, 3)].rstrip("0") if fraction else ""
    return f"{text}.{digits or '0'}"


def parse_date(text: str) -> int:
    """Days since 1970 of a date, or of the date at the beginning of a timestamp."""
    if text.isascii() and text.isdigit():
        return parse_integer(text, 32)
    day = text[: text.index(" ")] if text.find(" ") > 0 else text
    parts = [_digits(part.strip(_WHITE)) for part in day.split("-", 2)]
    year, month, day_of_month = [*parts, 1, 1][:3]
    if year == 0:
        # Python's calendar begins with the year 1; 400 years are a whole number of weeks.
        return dt.date(400, month, day_of_month).toordinal() - _EPOCH_DAY - 146_097
    return dt.date(year, month, day_of_month).toordinal() - _EPOCH_DAY


def parse_time(text: str) -> int:
    """Milliseconds of the day; an offset after the time is applied by its sign."""
    if text.isascii() and text.isdigit():
        return parse_integer(text, 32)
    sign = -1 if "-" in text else 1
    clock, _, offset = text.partition("-" if sign < 0 else "+")
    if ":" in offset and clock.count(":") < 2:
        raise ValueError(text)
    hours, minutes, seconds = [*clock.split(":", 2), "0", "0"][:3]
    whole, _, fraction = seconds.partition(".")
    zone_hours, zone_minutes = [*offset.split(":", 1), "0"][:2] if offset else ("0", "0")
    total_minutes = _clean(hours) * 60 + _clean(minutes)
    total_minutes += sign * (_clean(zone_hours) * 60 + _clean(zone_minutes))
    millis = (total_minutes * 60 + _clean(whole)) * 1000 + _rounded_millis(fraction.strip(_WHITE))
    if not 0 <= millis < _MS_PER_DAY:
        raise ValueError(text)
    return millis


def _clean(text: str) -> int:
    return _digits(text.strip(_WHITE))


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def _rounded_millis(fraction: str) -> int:
    digits = [int(each) if each in "0123456789" else 0 for each in fraction[:3].ljust(3, "0")]
    rounds_up = len(fraction) > 3 and fraction[3] >= "5"
    return digits[0] * 100 + digits[1] * 10 + digits[2] + rounds_up


def parse_timestamp(text: str, precision: int) -> tuple[int, int]:
    """Milliseconds since 1970 and the remaining nanoseconds, cut to a precision.

    A day beyond the end of its month counts as the last day; 24:00:00 is the start of the next day.
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    nanos = int((found[7] or "").ljust(9, "0"))
    nanos -= nanos % 10 ** (9 - precision)
    midnight_after = hour == 24 and minute == second == nanos == 0
    if not (0 < year <= _MOST_YEAR and 0 < month < 13 and 0 < day < 32):
        raise ValueError(text)
    if not (hour < 24 or midnight_after) or minute > 59 or second > 59:
        raise ValueError(text)
    last = monthrange(year, month)[1]
    days = dt.date(year, month, min(day, last)).toordinal() - _EPOCH_DAY
    millis = days * _MS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1000
    return millis + nanos // 1_000_000, nanos % 1_000_000


_UNITS_PER_SECOND = {0: 1, 3: 1000, 6: 1_000_000, 9: 1_000_000_000}


def parse_epoch(text: str, precision: int) -> tuple[int, int]:
    """A timestamp as a number of its smallest unit since 1970."""
    if precision not in _UNITS_PER_SECOND:
        raise ValueError(text)
    number = parse_integer(text, 64)
    if precision == 0:
        # Java's milliseconds wrap.
        return (number * 1000 + (1 << 63)) % (1 << 64) - (1 << 63), 0
    nanos = number * (1_000_000_000 // _UNITS_PER_SECOND[precision])
    return nanos // 1_000_000, nanos % 1_000_000
