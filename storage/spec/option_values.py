"""The kinds of options: their texts as values, such as sizes, durations, numbers and choices.

Units and spellings: Paimon, `MemorySize` and `TimeUtils`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.file_names import UnsafeName, plain_name

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

KIB = 1024
MIB = 1024 * KIB

SIZE_UNITS = {
    "": 1,
    "b": 1,
    "bytes": 1,
    "k": KIB,
    "kb": KIB,
    "m": MIB,
    "mb": MIB,
    "g": 1024 * MIB,
    "gb": 1024 * MIB,
    "t": 1024 * 1024 * MIB,
    "tb": 1024 * 1024 * MIB,
}
TIME_UNITS_MS = {
    "": 1,
    "ms": 1,
    "s": 1000,
    "sec": 1000,
    "second": 1000,
    "seconds": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}
_STATS_MODES = re.compile(r"none|counts|full|truncate\((\d+)\)")
# Zeros in front count too; Python reads no more than thousands of digits.
MOST_DIGITS = 100
MOST_SHOWN = 120


def parse_size(text: str) -> int:
    """Bytes from `128 MB` or `8mb`.

    Raises:
        InvalidOption: the text is not a size.
    """
    return _quantity(text, SIZE_UNITS, "a size such as 128 MB")


def parse_duration_ms(text: str) -> int:
    """Milliseconds from `1 h`, `30min` or `7d`.

    Raises:
        InvalidOption: the text is not a duration.
    """
    return _quantity(text, TIME_UNITS_MS, "a duration such as 1 h")


def duration_of_ms(milliseconds: int) -> str:
    """Milliseconds as such a text, in the largest unit that holds them exactly: `90min`."""
    if milliseconds == 0:
        return "0s"
    units = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
    unit = next(unit for unit, size in units.items() if milliseconds % size == 0)
    return f"{milliseconds // units[unit]}{unit}"


def same_quantity(left: str, right: str) -> bool:
    """Whether two texts mean the same size or duration, such as `1 h` and `3600000`."""
    for parse in (parse_size, parse_duration_ms):
        try:
            if parse(left) == parse(right):
                return True
        except InvalidOption:
            continue
    return False


def _quantity(text: str, units: Mapping[str, int], expected: str) -> int:
    match = re.fullmatch(r"\s*([0-9]+)\s*([A-Za-z]*)\s*", text)
    if match is None or match.group(2).lower() not in units:
        raise InvalidOption(f"{text[:MOST_SHOWN]!r} is not {expected}")
    number = bounded_number(match.group(1), 64)
    value = None if number is None else number * units[match.group(2).lower()]
    if value is None or value >= 1 << 63:
        raise InvalidOption(f"{text[:MOST_SHOWN]!r} does not fit into 64 bits")
    return value


def bounded_number(text: str, bits: int) -> int | None:
    """The whole number that a text says; None if it says none, or one of more bits."""
    if len(text) > MOST_DIGITS or re.fullmatch(r"[-+]?[0-9]+", text) is None:
        return None
    value = int(text)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """The type of an option's value: its name, a test of texts, and what reads a text.

    `holds` is true of a text of the type, whatever its range or choice. `parse` raises
    InvalidOption, whose message follows the name of the option. `units` are examples of the units
    that a number should have.
    """

    says: str
    holds: Callable[[str], object]
    parse: Callable[[str], T_co]
    units: tuple[str, ...] = ()

    def parsed_by(self, parse: Callable[[str], T]) -> Kind[T]:
        """The kind of the same texts with other values."""
        return Kind(self.says, self.holds, parse, self.units)


def _any_text(_text: str) -> bool:
    return True


def wrong_value(text: str, problem: str) -> InvalidOption:
    """The error of a kind about a text."""
    return InvalidOption(f"={text[:MOST_SHOWN]}{problem}")


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise wrong_value(text, " is neither true nor false")
    return text.lower() == "true"


def integer(minimum: int | None = None, bits: int = 32) -> Kind[int]:
    """The kind of whole numbers of a range."""

    def parse(text: str) -> int:
        # Python reads 1_000 too, which other clients do not.
        if re.fullmatch(r"[-+]?[0-9]+", text) is None:
            raise wrong_value(text, " is not a whole number")
        value = bounded_number(text, bits)
        if value is None:
            raise wrong_value(text, f" does not fit into {bits} bits")
        if minimum is not None and value < minimum:
            raise wrong_value(text, f" is less than {minimum}")
        return value

    return Kind("a whole number", re.compile(r"[+-]?\d+").fullmatch, parse)


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise wrong_value(text, " is not a number") from None
    if not 0 <= value <= 1:
        raise wrong_value(text, " is not between 0 and 1")
    return value


def _is_quantity(parse: Callable[[str], int], text: str) -> bool:
    try:
        parse(text)
    except InvalidOption:
        return False
    return True


def _quantity_of(parse: Callable[[str], int], minimum: int, text: str) -> int:
    try:
        value = parse(text)
    except InvalidOption as error:
        raise InvalidOption(f"={error.message}") from None
    if value < minimum:
        raise wrong_value(text, " is not positive")
    return value


def choice(values: Mapping[str, T_co]) -> Kind[T_co]:
    """The kind of some names, each with its value."""

    def parse(text: str) -> T_co:
        if text.lower() not in values:
            raise wrong_value(text, f" is not one of {', '.join(values)}")
        return values[text.lower()]

    return Kind("one of some names", _any_text, parse)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _file_name(text: str) -> str:
    try:
        return plain_name(text)
    except UnsafeName:
        raise wrong_value(
            text, " is not a plain name: it must not lead to another folder"
        ) from None


def per_level(values: Collection[str] = ()) -> Kind[Mapping[int, str]]:
    """The kind of names by level, such as `0:avro,5:parquet`; `values` has all that there are."""

    def parse(text: str) -> Mapping[int, str]:
        found: dict[int, str] = {}
        for pair in _names(text):
            level, colon, value = pair.partition(":")
            number = bounded_number(level.strip(), 32)
            if not colon or number is None:
                raise InvalidOption(
                    f" holds {pair[:MOST_SHOWN]!r}; write levels and values as in 0:x,5:y"
                )
            found[number] = value.strip().lower()
            if values and found[number] not in values:
                raise InvalidOption(f": {value.strip()!r} is not one of {', '.join(values)}")
        return found

    return Kind("names and values such as 0:x,5:y", _any_text, parse)


def _stats_mode(given: str) -> str:
    text = given.lower().replace(" ", "")
    match = _STATS_MODES.fullmatch(text)
    if match is None or (match.group(1) and bounded_number(match.group(1), 32) is None):
        raise wrong_value(text, " is not one of none, counts, truncate(16), full")
    return text


BOOLEAN = Kind("true or false", re.compile("true|false", re.IGNORECASE).fullmatch, _boolean)
INTEGER = integer()
NUMBER = Kind("a number", re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?").fullmatch, _ratio)
SIZE = Kind(
    "a size such as 128 MB",
    partial(_is_quantity, parse_size),
    partial(_quantity_of, parse_size, 1),
    ("b", "mb"),
)
DURATION = Kind(
    "a duration such as 1 h",
    partial(_is_quantity, parse_duration_ms),
    partial(_quantity_of, parse_duration_ms, 1),
    ("ms", "h", "d"),
)
DURATION_OR_ZERO = DURATION.parsed_by(partial(_quantity_of, parse_duration_ms, 0))
CHOICE: Kind[object] = choice({})
MAP = per_level()
TEXT = Kind("a text", _any_text, str)
TEXT_OR_NONE = TEXT.parsed_by(lambda text: text or None)
LOWER_TEXT = TEXT.parsed_by(str.lower)
NAMES = TEXT.parsed_by(_names)
FILE_NAME = TEXT.parsed_by(_file_name)
# The beginning of file names, which may be empty.
NAME_PREFIX = TEXT.parsed_by(lambda text: _file_name(text) if text else "")
STATS_MODE = TEXT.parsed_by(_stats_mode)
