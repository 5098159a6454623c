"""Canonical JSON values: one spelling of every Paimon value that all clients and the tests share.

null, booleans and integers are themselves; floats are numbers, or "NaN", "Infinity", "-Infinity";
decimals are strings with their full scale; bytes are hex; dates and times are ISO strings;
arrays are lists, maps are lists of [key, value] in key order, rows are objects.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

EPOCH = date(1970, 1, 1)
MILLIS_PER_DAY = 86_400_000

DEFAULT_PRECISION = {"TIMESTAMP": 6, "TIMESTAMP_LTZ": 6, "TIME": 0, "DECIMAL": 10}
ATOMIC_TYPE = re.compile(
    r"(?P<root>[A-Z_]+)"
    r"(?:\(\s*(?P<precision>\d+)\s*(?:,\s*(?P<scale>\d+)\s*)?\))?"
    r"(?P<zone> WITH LOCAL TIME ZONE)?"
)


@dataclass(frozen=True, slots=True)
class ValueType:
    """A Paimon type as far as its values need it: nullability and field ids left out."""

    root: str
    precision: int = 0
    scale: int = 0
    element: ValueType | None = None
    key: ValueType | None = None
    fields: tuple[tuple[str, ValueType], ...] = ()


def parse_type(declared: str | Mapping[str, Any]) -> ValueType:
    """Read a type as it stands in a schema file: a string, or an object for nested types."""
    if isinstance(declared, str):
        return parse_atomic_type(declared)
    root = declared["type"].removesuffix(" NOT NULL")
    match root:
        case "ARRAY":
            return ValueType(root, element=parse_type(declared["element"]))
        case "MULTISET":
            return ValueType("MAP", key=parse_type(declared["element"]), element=ValueType("INT"))
        case "MAP":
            return ValueType(
                root, key=parse_type(declared["key"]), element=parse_type(declared["value"])
            )
        case "ROW":
            fields = tuple(
                (field["name"], parse_type(field["type"])) for field in declared["fields"]
            )
            return ValueType(root, fields=fields)
        case _:
            return parse_atomic_type(root)


def parse_atomic_type(text: str) -> ValueType:
    bare = text.upper().removesuffix(" NOT NULL").strip()
    found = ATOMIC_TYPE.fullmatch(bare)
    if found is None:
        raise ValueError(f"unknown type {text!r}")
    root = found["root"] + ("_LTZ" if found["zone"] else "")
    precision = int(found["precision"] or DEFAULT_PRECISION.get(root, 0))
    return ValueType(root, precision=precision, scale=int(found["scale"] or 0))


def date_text(days: int) -> str:
    return (EPOCH + timedelta(days=days)).isoformat()


def parse_date(text: str) -> int:
    return (date.fromisoformat(text) - EPOCH).days


def time_text(millis: int) -> str:
    seconds, fraction = divmod(millis, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:03d}"


def parse_time(text: str) -> int:
    """Milliseconds of the day."""
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1000 + int(
        fraction.ljust(3, "0")[:3]
    )


def timestamp_text(millis: int, nanos_of_milli: int, precision: int, zoned: bool) -> str:
    """Six digits of fraction, nine where the type holds more than microseconds."""
    day, millis_of_day = divmod(millis, MILLIS_PER_DAY)
    seconds, fraction = time_text(millis_of_day).split(".")
    nanos = f"{fraction}{nanos_of_milli:06d}"
    digits = nanos if precision > 6 else nanos[:6]
    return f"{date_text(day)}T{seconds}.{digits}{'Z' if zoned else ''}"


def parse_timestamp(text: str) -> tuple[int, int]:
    """Milliseconds since the epoch, and the nanoseconds beyond them."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    moment = datetime.fromisoformat(whole)
    nanos = int(fraction.ljust(9, "0")[:9])
    seconds = (
        (moment.date() - EPOCH).days * 86_400
        + moment.hour * 3600
        + moment.minute * 60
        + moment.second
    )
    return seconds * 1000 + nanos // 1_000_000, nanos % 1_000_000


def decimal_text(unscaled: int, scale: int) -> str:
    sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def float_value(number: float) -> float | str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def parse_float(value: float | str) -> float:
    return float(value)


def map_value(pairs: Iterable[Sequence[Any]]) -> list[list[Any]]:
    return sorted(([key, value] for key, value in pairs), key=lambda pair: key_order(pair[0]))


def key_order(key: Any) -> tuple[int, Any]:
    if key is None:
        return (0, 0)
    if isinstance(key, (int, float)):
        return (1, key)
    return (2, key if isinstance(key, str) else json.dumps(key))
