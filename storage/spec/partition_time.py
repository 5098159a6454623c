"""The time that the values of a partition stand for, by Paimon's pattern and formatter.

The pattern is a text with `$key` in place of each key's value; without one, the first key counts.
The formatter is a layout of Java's `DateTimeFormatter`, of which the letters of dates and times are
read. A date without a time is midnight. Days beyond the end of a month are read as Java reads them.
Dates and timestamps are written in ISO for the pattern, with a space between day and time.

Sources: Paimon `PartitionTimeExtractor`, `DateTimeFormatter`.
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.partition import Partition, partition_value_text
from lakewright.storage.spec.text_shapes import (
    ANY_TEXT,
    Run,
    Shape,
    digits,
    literal,
    share_a_text,
)

PATTERN_OPTION = "partition.timestamp-pattern"
FORMATTER_OPTION = "partition.timestamp-formatter"

# What Paimon reads without a formatter.
_DEFAULT_WORDS = "yyyy-MM-dd, or yyyy-MM-dd HH:mm:ss"
_DEFAULT = re.compile(
    r"(?P<year>\d{1,10})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"( (?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2})(\.(?P<fraction>\d{1,9}))?)?"
)
_DATE = [digits(1, 10), *literal("-"), digits(1, 2), *literal("-"), digits(1, 2)]
_TIME = [*literal(" "), digits(1, 2), *literal(":"), digits(1, 2), *literal(":"), digits(1, 2)]
_DEFAULT_SHAPES = (_DATE, [*_DATE, *_TIME], [*_DATE, *_TIME, *literal("."), digits(1, 9)])
_MOMENT = [*_DATE, *_TIME, Run(frozenset("."), 0, 1), digits(0, 9)]
_NUMBER = [Run(frozenset("-"), 0, 1), digits(1, 20)]
# What the values of keys of some types are written as; others may be written as anything.
_SHAPES: Mapping[TypeRoot, Shape] = {
    TypeRoot.DATE: _DATE,
    TypeRoot.TIMESTAMP: _MOMENT,
    TypeRoot.TIMESTAMP_LTZ: _MOMENT,
    TypeRoot.TINYINT: _NUMBER,
    TypeRoot.SMALLINT: _NUMBER,
    TypeRoot.INT: _NUMBER,
    TypeRoot.BIGINT: _NUMBER,
}
_NAMES = {"y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute"}
_NAMES |= {"s": "second", "S": "fraction"}
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>(?P<letter>[A-Za-z])(?P=letter)*)|.")
_NAMED = re.compile(r"\$[^\W\d]\w*")
_MICROSECOND_DIGITS = 6


@dataclass(frozen=True)
class PartitionTimes:
    """How the time of a partition is read."""

    pattern: str | None = None
    formatter: str | None = None

    def text_of(self, partition: Partition) -> str | None:
        """The text that the time is read from; None if a value of it is null."""
        texts = [
            partition_value_text(value, field, legacy_name=False)
            for value, field in zip(partition.values, partition.keys.fields, strict=True)
        ]
        if self.pattern is None:
            return texts[0]
        values = dict(zip(partition.keys.names, texts, strict=True))
        keys = _keys_in_pattern(partition.keys.names)
        if any(values[found[1]] is None for found in keys.finditer(self.pattern)):
            return None
        return keys.sub(lambda found: values[found[1]] or "", self.pattern)

    def of(self, partition: Partition) -> dt.datetime | None:
        """The time of a partition; None if its values do not give one."""
        text = self.text_of(partition)
        found = None if text is None else self._layout.fullmatch(text)
        if found is None:
            return None
        parts = {name: part for name, part in found.groupdict().items() if part is not None}
        fraction = parts.pop("fraction", "")
        micros = int(fraction[:_MICROSECOND_DIGITS].ljust(_MICROSECOND_DIGITS, "0"))
        numbers = {name: int(part) for name, part in parts.items()}
        year = numbers.pop("year", 0) or 2000 + numbers.pop("short_year", 0)
        resolve = _lenient if self.formatter is None else _clamped
        time = (numbers.get(name, 0) for name in ("hour", "minute", "second"))
        try:
            return resolve(year, numbers["month"], numbers["day"], *time, micros)
        except (ValueError, OverflowError):
            return None

    @cached_property
    def _layout(self) -> re.Pattern[str]:
        return _DEFAULT if self.formatter is None else _layout_of(self.formatter)[0]

    @property
    def _shapes(self) -> Sequence[Shape]:
        return _DEFAULT_SHAPES if self.formatter is None else [_layout_of(self.formatter)[1]]

    def check(self) -> None:
        """Check the formatter.

        Raises:
            InvalidOption: it has a letter that is not implemented, or gives no day.
        """
        assert self._layout.groups

    def check_names(self, keys: Sequence[str], *, table: str) -> None:
        """Check that the pattern names partition keys, and nothing else.

        Raises:
            InvalidOption: it names none, or something else.
        """
        if self.pattern is None:
            return
        rest = _keys_in_pattern(keys).sub(" ", self.pattern)
        unknown = _NAMED.search(rest)
        if unknown is None and rest != self.pattern:
            return
        what = f"{unknown[0] if unknown else 'it'} names no partition key"
        raise InvalidOption(
            f"{PATTERN_OPTION}={self.pattern!r}: {what} of {table}; write its keys as "
            f"{', '.join(f'${key}' for key in keys)}",
            option=PATTERN_OPTION,
        )

    def check_gives_times(self, keys: Sequence[DataField], *, table: str) -> None:
        """Check that some values of the keys stand for a time.

        A formatter with letters that are not implemented is not judged: other clients may read it.

        Raises:
            InvalidOption: no values do, or the pattern names something else than keys.
        """
        names = [key.name for key in keys]
        self.check_names(names, table=table)
        try:
            shapes = self._shapes
        except _UnreadLayout:
            return
        written = self._written(keys)
        if any(share_a_text(written, shape) for shape in shapes):
            return
        first, option = f"the first key {names[0]}", FORMATTER_OPTION
        if self.pattern is not None:
            first, option = f"{PATTERN_OPTION}={self.pattern!r}", PATTERN_OPTION
        layout = f"{FORMATTER_OPTION}={self.formatter!r}" if self.formatter else _DEFAULT_WORDS
        listed = ", ".join(f"{key.name} {key.type}" for key in keys)
        raise InvalidOption(
            f"no partition of {table}, whose keys are {listed}, would ever have a time: {first} "
            f"gives no text that is read by {layout}; write a pattern of "
            f"{', '.join(f'${name}' for name in names)} that gives one, or a formatter of what "
            "it gives",
            option=option,
        )

    def _written(self, keys: Sequence[DataField]) -> Shape:
        """The shape of the texts that times are read from."""
        shapes = {key.name: _shape_of(key) for key in keys}
        if self.pattern is None:
            return shapes[keys[0].name]
        shape: list[Run] = []
        end = 0
        for place in _keys_in_pattern([*shapes]).finditer(self.pattern):
            shape += [*literal(self.pattern[end : place.start()]), *shapes[place[1]]]
            end = place.end()
        return [*shape, *literal(self.pattern[end:])]


def _shape_of(key: DataField) -> Shape:
    root = key.type.root if isinstance(key.type, AtomicType) else None
    return _SHAPES.get(root, [ANY_TEXT]) if root is not None else [ANY_TEXT]


class _UnreadLayout(InvalidOption):
    """A formatter has letters that are not implemented."""


def _keys_in_pattern(keys: Sequence[str]) -> re.Pattern[str]:
    """The places of keys in a pattern; of a key and a longer one that begins with it, the longer.

    Values are put into all places at once, so that a value that looks like a place is none.
    """
    longest_first = sorted(keys, key=len, reverse=True)
    return re.compile(rf"\$({'|'.join(map(re.escape, longest_first))})")


def _lenient(year: int, month: int, day: int, *time: int) -> dt.datetime:
    """A moment where fields may overflow into the next, as Paimon reads without a formatter."""
    hours, minutes, seconds, micros = time
    start = dt.datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
    return start + dt.timedelta(
        days=day - 1, hours=hours, minutes=minutes, seconds=seconds, microseconds=micros
    )


def _clamped(year: int, month: int, day: int, *time: int) -> dt.datetime:
    """A moment whose day may lie beyond the end of its month, as Java reads by a formatter."""
    hour, minute, second, micros = time
    last = monthrange(year, month)[1]
    within = last if last < day <= 31 else day
    return dt.datetime(year, month, within, hour, minute, second, micros)


def _layout_of(formatter: str) -> tuple[re.Pattern[str], Shape]:
    """A pattern for the texts of a formatter, and their shape."""
    parts, named = [], set[str]()
    shape: list[Run] = []
    for token in _TOKEN.finditer(formatter):
        letter, letters, quoted = token["letter"], token["letters"], token["quoted"]
        if letter is None:
            text = token[0] if quoted is None else quoted.replace("''", "'") or "'"
            if quoted is None and text in "[]{}#'":
                _refuse(formatter, f"{text} outside of quotes is not implemented", _UnreadLayout)
            parts.append(re.escape(text))
            shape += literal(text)
            continue
        name = "short_year" if letters in ("yy", "uu") else _NAMES.get(letter)
        most = {"year": 4, "fraction": 9}.get(name or "", 2)
        if name is None or name in named or len(letters) > most or letters in ("yyy", "uuu"):
            _refuse(formatter, f"{letters!r} is not implemented there", _UnreadLayout)
        named.add(name)
        least, most = _digits(letters, name)
        parts.append(rf"(?P<{name}>\d{{{least},{most}}})")
        shape.append(digits(least, most))
    if not {"month", "day"} <= named or not {"year", "short_year"} & named:
        _refuse(
            formatter,
            "it gives no day; let partition.timestamp-pattern add one, as in '$month-01'",
        )
    return re.compile("".join(parts)), shape


def _digits(letters: str, name: str) -> tuple[int, int]:
    """The least and the greatest number of digits."""
    if len(letters) > 1 or name == "fraction":
        return len(letters), len(letters)
    return 1, 4 if name == "year" else 2


def _refuse(formatter: str, why: str, error: type[InvalidOption] = InvalidOption) -> NoReturn:
    raise error(
        f"{FORMATTER_OPTION}={formatter!r}: {why}; write a layout such as yyyy-MM-dd, yyyyMMdd or "
        "yyyy-MM-dd HH:mm, of the letters y M d H m s S",
        option=FORMATTER_OPTION,
    )
