"""Option texts as values: sizes, durations, numbers, choices.

Units and spellings: Paimon, `MemorySize` and `TimeUtils`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import NoReturn

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.file_names import UnsafeName, plain_name
from lakewright.storage.spec.honoured_options import HONOURED_OPTIONS
from lakewright.storage.spec.schema import TableSchema

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
COLUMN_STATS_MODE = re.compile(r"fields\.(.+)\.stats-mode")
# Zeros in front count too; Python reads no more than thousands of digits.
_MOST_DIGITS = 100
_MOST_SHOWN = 120
_MAY_BE_ZERO = frozenset(
    {"snapshot.time-retained", "changelog.time-retained", "tag.creation-delay"}
)


class OptionReader:
    """Reads one option at a time; defaults are those of the descriptions.

    Every error names the option and its value.

    Paimon reads a duration without a unit as milliseconds, and a size without one as bytes.
    `bare_numbers=False` refuses both as likely mistakes.
    """

    def __init__(
        self, options: Mapping[str, str], table: str, *, bare_numbers: bool = True
    ) -> None:
        self.options = options
        self.table = table
        self.bare_numbers = bare_numbers

    def refuse(self, name: str, text: str, problem: str) -> NoReturn:
        """Raise an error about an option; `problem` follows its value in the message."""
        raise InvalidOption(
            f"{self.table}: {name}={text[:_MOST_SHOWN]}{problem}", option=name
        ) from None

    def text(self, name: str, *, default: str | None = None) -> str:
        """The text of an option, or its default; empty where there is neither."""
        return self.options.get(name, default or _defaults().get(name, ""))

    def file_name(self, name: str) -> str:
        """A text that is a name of files or folders, or the beginning of one."""
        text = self.text(name)
        try:
            return plain_name(text)
        except UnsafeName:
            self.refuse(name, text, " is not a plain name: it must not lead to another folder")

    def name_prefix(self, name: str) -> str:
        """The beginning of file names, which may be empty."""
        return self.file_name(name) if self.options.get(name) != "" else ""

    def integer(
        self,
        name: str,
        *,
        default: int | None = None,
        minimum: int | None = None,
        bits: int = 32,
    ) -> int:
        """A whole number. `default` is for an option whose default depends on other options."""
        text = self.options.get(name)
        if text is None:
            return int(_defaults()[name]) if default is None else default
        # Python reads 1_000 too, which other clients do not.
        if re.fullmatch(r"[-+]?[0-9]+", text) is None:
            self.refuse(name, text, " is not a whole number")
        value = bounded_number(text, bits)
        if value is None:
            self.refuse(name, text, f" does not fit into {bits} bits")
        if minimum is not None and value < minimum:
            self.refuse(name, text, f" is less than {minimum}")
        return value

    def boolean(self, name: str, *, default: bool | None = None) -> bool:
        text = self.options.get(name)
        if text is None:
            return _defaults()[name] == "true" if default is None else default
        if text.lower() not in ("true", "false"):
            self.refuse(name, text, " is neither true nor false")
        return text.lower() == "true"

    def size(self, name: str, *, default: int | None = None) -> int:
        text = self.options.get(name)
        if text is None:
            return parse_size(_defaults()[name]) if default is None else default
        return self._quantity(name, text, parse_size, "b, mb")

    def duration_ms(self, name: str, *, default: int | None = None) -> int:
        text = self.options.get(name)
        if text is None:
            return parse_duration_ms(_defaults()[name]) if default is None else default
        return self._quantity(name, text, parse_duration_ms, "ms, h, d")

    def optional_integer(self, name: str, *, minimum: int, bits: int = 32) -> int | None:
        if name not in self.options:
            return None
        return self.integer(name, minimum=minimum, bits=bits)

    def optional_duration_ms(self, name: str) -> int | None:
        return self.duration_ms(name) if name in self.options else None

    def optional_size(self, name: str) -> int | None:
        return self.size(name) if name in self.options else None

    def ratio(self, name: str, *, default: float | None = None) -> float:
        text = self.options.get(name)
        if text is None:
            return float(_defaults()[name]) if default is None else default
        try:
            value = float(text)
        except ValueError:
            self.refuse(name, text, " is not a number")
        if not 0 <= value <= 1:
            self.refuse(name, text, " is not between 0 and 1")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())

    def _quantity(self, name: str, text: str, parse: Callable[[str], int], units: str) -> int:
        if not self.bare_numbers and text.strip().isdigit():
            examples = " or ".join(f"{text.strip()} {unit}" for unit in units.split(", "))
            self.refuse(name, text, f" has no unit; write {examples}")
        try:
            value = parse(text)
        except InvalidOption as error:
            raise InvalidOption(f"{self.table}: {name}={error.message}", option=name) from None
        if value < 1 and name not in _MAY_BE_ZERO:
            self.refuse(name, text, " is not positive")
        return value

    def choice(self, name: str, values: Mapping[str, str]) -> str:
        """The value that `values` gives to the option's text."""
        text = self.text(name)
        if text.lower() not in values:
            self.refuse(name, text, f" is not one of {', '.join(values)}")
        return values[text.lower()]

    def optional_choice(self, name: str, values: Mapping[str, str]) -> str | None:
        return self.choice(name, values) if name in self.options else None

    def per_level(self, name: str, value_of: Callable[[str], str]) -> dict[int, str]:
        """Values by level, from a text such as `0:avro,5:parquet`."""
        found: dict[int, str] = {}
        for pair in filter(None, (each.strip() for each in self.text(name).split(","))):
            level, colon, value = pair.partition(":")
            number = bounded_number(level.strip(), 32)
            if not colon or number is None:
                raise InvalidOption(
                    f"{self.table}: {name} holds {pair[:_MOST_SHOWN]!r}; write levels and values "
                    "as in 0:x,5:y",
                    option=name,
                )
            try:
                found[number] = value_of(value.strip())
            except InvalidOption as error:
                raise InvalidOption(f"{self.table}: {name}: {error.message}", option=name) from None
        return found

    def stats_mode(self, name: str) -> str:
        text = self.text(name).lower().replace(" ", "")
        match = _STATS_MODES.fullmatch(text)
        if match is None or (match.group(1) and bounded_number(match.group(1), 32) is None):
            self.refuse(name, text, " is not one of none, counts, truncate(16), full")
        return text

    def column_stats_modes(self, schema: TableSchema) -> dict[str, str]:
        modes = {}
        for name in self.options:
            match = COLUMN_STATS_MODE.fullmatch(name)
            if match is None:
                continue
            if match.group(1) not in schema.field_names:
                self.refuse(
                    name, self.options[name], " names a column that the table does not have"
                )
            modes[match.group(1)] = self.stats_mode(name)
        return modes


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
        raise InvalidOption(f"{text[:_MOST_SHOWN]!r} is not {expected}")
    number = bounded_number(match.group(1), 64)
    value = None if number is None else number * units[match.group(2).lower()]
    if value is None or value >= 1 << 63:
        raise InvalidOption(f"{text[:_MOST_SHOWN]!r} does not fit into 64 bits")
    return value


def bounded_number(text: str, bits: int) -> int | None:
    """The whole number that a text says; None if it says none, or one of more bits."""
    if len(text) > _MOST_DIGITS or re.fullmatch(r"[-+]?[0-9]+", text) is None:
        return None
    value = int(text)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


@cache
def _defaults() -> Mapping[str, str]:
    return {each.name: each.default for each in HONOURED_OPTIONS if each.default is not None}


def trimmed(options: Mapping[str, str]) -> dict[str, str]:
    """Options without surrounding blanks; an older name sets the newer one too."""
    given = {name.strip(): str(value).strip() for name, value in options.items()}
    for option in HONOURED_OPTIONS:
        for older in option.older_names:
            if older in given:
                given.setdefault(option.name, given[older])
    return given
