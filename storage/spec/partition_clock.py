"""Partitions by time: the values of partition keys that follow from the time of a row.

A layout writes a time with the letters of `partition.timestamp-formatter`; a DATE key needs none.
Partitions have a time order although their texts may not: a watermark is over all partitions that
lie before its own.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.partition import Partition, partition_value_text

DATE_LAYOUT = "yyyy-MM-dd"
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>(?P<letter>[A-Za-z])(?P=letter)*)|.")
# The unit of each letter, and how many digits a layout may give it.
_UNITS = {"y": ("year", (4,)), "M": ("month", (1, 2)), "d": ("day", (1, 2))}
_UNITS |= {"H": ("hour", (1, 2)), "m": ("minute", (1, 2)), "s": ("second", (1, 2))}
_ORDER = ("year", "month", "day", "hour", "minute", "second")
_PROBE = dt.datetime(2024, 2, 1, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class EventTime:
    """A partition key's value is the time in a column of the rows.

    `layout` writes it, such as yyyy-MM-dd or HH. `zone` is the clock of the partitions; a
    TIMESTAMP without a zone is what it shows. Rows may come `delay` late
    before their partition counts as over.
    """

    column: str
    layout: str | None = None
    zone: str = "UTC"
    delay: dt.timedelta = dt.timedelta()


@dataclass(frozen=True, slots=True)
class ProcessingTime:
    """A partition key's value is the time at which a batch is written, one for each batch."""

    layout: str | None = None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class ClockPart:
    """A piece of a layout: a unit of time with its least number of digits, or a text."""

    text: str
    digits: int = 0


@dataclass(frozen=True, kw_only=True)
class PartitionClock:
    """How times become the values of some partition keys of a table.

    `layouts` has None for a DATE key. `column` is None if the time is that of the batch.
    """

    fields: tuple[DataField, ...]
    layouts: tuple[str | None, ...]
    zone: str
    column: str | None = None
    delay: dt.timedelta = dt.timedelta()

    def spec_at(self, moment: dt.datetime) -> dict[str, object]:
        """The values of the keys at a time on the clock of the partitions."""
        return {
            field.name: _value(field, layout, moment)
            for field, layout in zip(self.fields, self.layouts, strict=True)
        }

    def is_over(self, partition: Partition, moment: dt.datetime) -> bool:
        """Whether a partition lies before the one of a time on the clock of the partitions."""
        begins = self._begin_of(partition)
        finest = max(_ORDER.index(unit) for unit in self.units)
        present = {unit: getattr(moment, unit) for unit in _ORDER[: finest + 1]}
        return begins is not None and begins < _moment(present)

    @property
    def units(self) -> set[str]:
        pieces = (parts_of(layout or DATE_LAYOUT) for layout in self.layouts)
        return {part.text for piece in pieces for part in piece if part.digits}

    def _begin_of(self, partition: Partition) -> dt.datetime | None:
        """The first moment of a partition; None if its values do not give one."""
        found: dict[str, int] = {}
        for field, layout in zip(self.fields, self.layouts, strict=True):
            value = partition.stored.get(field.name)
            text = partition_value_text(value, field, legacy_name=False)
            match = None if text is None else _pattern(layout or DATE_LAYOUT).fullmatch(text)
            if match is None:
                return None
            found |= {unit: int(digits) for unit, digits in match.groupdict().items()}
        try:
            return _moment(found)
        except ValueError:
            return None

    def tells(self, time_ms: int) -> bool:
        """Whether an instant lies in the years 1 to 9999, which the clock can tell."""
        try:
            self.local(time_ms)
        except OverflowError:
            return False
        return True

    def local(self, time_ms: int) -> dt.datetime:
        """An instant on the clock of the partitions."""
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=time_ms)
        return moment.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)

    def instant(self, shown_ms: int) -> int:
        """When the clock shows a time; times without a zone are those that it shows."""
        try:
            moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=shown_ms)
        except OverflowError:
            # No clock shows it.
            return shown_ms
        since = moment.replace(tzinfo=ZoneInfo(self.zone)) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return since // dt.timedelta(milliseconds=1)


def partition_clock(
    fields: Mapping[str, DataField],
    given: Mapping[str, EventTime | ProcessingTime],
    *,
    table: str,
    formatter: str | None = None,
) -> PartitionClock:
    """The clock of the keys that a caller gave a time; `formatter` is the table's option.

    Raises:
        InvalidRequestError: the times differ in more than their layouts, a zone does not exist, or
            a layout does not fit its key.
    """
    first, *others = given.values()
    if any(_without_layout(each) != _without_layout(first) for each in others):
        raise InvalidRequestError(
            f"the partition keys {', '.join(given)} of {table} need one time; give them the same "
            "column, zone and delay, and differing layouts"
        )
    try:
        ZoneInfo(first.zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise InvalidRequestError(
            f"{first.zone!r} is not a time zone such as Europe/Berlin"
        ) from None
    default = formatter if formatter is not None and len(given) == 1 else DATE_LAYOUT
    layouts = {
        name: None if _root(fields[name]) is TypeRoot.DATE else each.layout or default
        for name, each in given.items()
    }
    clock = PartitionClock(
        fields=tuple(fields[name] for name in given),
        layouts=tuple(layouts.values()),
        zone=first.zone,
        column=first.column if isinstance(first, EventTime) else None,
        delay=first.delay if isinstance(first, EventTime) else dt.timedelta(),
    )
    _check(clock, given, table)
    return clock


def parts_of(layout: str) -> Iterator[ClockPart]:
    """The pieces of a layout.

    Raises:
        InvalidRequestError: a letter is not implemented, or repeated too often.
    """
    for token in _TOKEN.finditer(layout):
        letter, letters, quoted = token["letter"], token["letters"], token["quoted"]
        if letter is None:
            yield ClockPart(token[0] if quoted is None else quoted.replace("''", "'") or "'")
            continue
        unit, digits = _UNITS.get(letter, ("", ()))
        if len(letters) not in digits:
            raise InvalidRequestError(
                f"layout {layout!r}: {letters!r} is not implemented; write a layout such as "
                "yyyy-MM-dd, yyyyMMdd or HH, of the letters yyyy MM dd HH mm ss"
            )
        yield ClockPart(unit, len(letters))


def _check(
    clock: PartitionClock, given: Mapping[str, EventTime | ProcessingTime], table: str
) -> None:
    for field, layout in zip(clock.fields, clock.layouts, strict=True):
        root = _root(field)
        if layout is None:
            if given[field.name].layout is not None:
                raise InvalidRequestError(
                    f"partition key {field.name} of {table} is a DATE, which needs no layout; "
                    "leave it out"
                )
            continue
        if root is None or not (root.is_text or root.is_integer):
            raise InvalidRequestError(
                f"partition key {field.name} of {table} is {field.type}, and a time is written "
                "into STRING, DATE and whole numbers"
            )
        written = write_time(layout, _PROBE)
        if root.is_integer and (not written.isdecimal() or str(int(written)) != written):
            raise InvalidRequestError(
                f"layout {layout!r} writes {written!r}, which the number {field.name} of {table} "
                "cannot hold; write a layout of digits without leading zeros, such as yyyyMMdd, H"
            )
    if "year" not in clock.units:
        raise InvalidRequestError(
            f"the layouts of {', '.join(given)} of {table} give no year, so no partition would "
            "ever be over; give the time to the key of the day too"
        )


def write_time(layout: str, moment: dt.datetime) -> str:
    """A time as a layout writes it."""
    return "".join(
        str(getattr(moment, part.text)).zfill(part.digits) if part.digits else part.text
        for part in parts_of(layout)
    )


def _value(field: DataField, layout: str | None, moment: dt.datetime) -> object:
    if layout is None:
        return moment.date()
    root, text = _root(field), write_time(layout, moment)
    return int(text) if root is not None and root.is_integer else text


def _pattern(layout: str) -> re.Pattern[str]:
    """The texts that a layout writes."""
    return re.compile("".join(map(_piece, parts_of(layout))))


def _piece(part: ClockPart) -> str:
    most = max(part.digits, 2)
    return rf"(?P<{part.text}>\d{{{part.digits},{most}}})" if part.digits else re.escape(part.text)


def _moment(found: Mapping[str, int]) -> dt.datetime:
    numbers = [found.get(unit, int(unit in ("month", "day"))) for unit in _ORDER]
    year, month, day, hour, minute, second = numbers
    return dt.datetime(year, month, day, hour, minute, second)


def _root(field: DataField) -> TypeRoot | None:
    return field.type.root if isinstance(field.type, AtomicType) else None


def _without_layout(time: EventTime | ProcessingTime) -> tuple[object, ...]:
    if isinstance(time, EventTime):
        return (time.column, time.zone, time.delay)
    return (time.zone,)
