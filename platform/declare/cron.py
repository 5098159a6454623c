"""Cron schedules of upkeep: five fields, and the moments at which they are due.

Fields are numbers, names of months and days, `*`, ranges, lists and steps. Where clocks are put
forward, a moment that is left out is due an hour later; where they are put back, one that comes
twice is due the first time, and both times if the schedule is due at every hour.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from zoneinfo import ZoneInfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_PART = re.compile(r"(?:[*?]|(\w+)(?:-(\w+))?)(?:/([1-9]\d*))?")
_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Cron:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    # If both are restricted, a day of either is due.
    any_day: bool
    any_weekday: bool

    def is_due_on(self, day: dt.date) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        either = not self.any_day and not self.any_weekday
        fits = of_month or of_week if either else of_month and of_week
        return fits and day.month in self.months

    def moments_ms(self, day: dt.date, zone: ZoneInfo) -> list[int]:
        """The moments of a day, latest first."""
        folds = (0, 1) if len(self.hours) == 24 else (0,)
        times = [dt.time(hour, minute) for hour in self.hours for minute in self.minutes]
        moments = [dt.datetime.combine(day, each, zone) for each in times]
        found = {each.replace(fold=fold).timestamp() for each in moments for fold in folds}
        return sorted((int(each * 1000) for each in found), reverse=True)


def check_cron(schedule: str) -> str | None:
    """What is wrong with a schedule, if it is one that upkeep cannot follow."""
    try:
        _parsed(schedule)
    except ValueError:
        return f"{schedule!r} is not a cron schedule; write for example '0 3 * * *'"
    return None


def last_tick_ms(now_ms: int, schedule: str, timezone: str) -> int:
    """The last moment, now or before, at which the schedule was due."""
    return next(ticks_back(now_ms, schedule, timezone))


def ticks_back(now_ms: int, schedule: str, timezone: str) -> Iterator[int]:
    """The moments at which the schedule was due, from now backwards."""
    cron, zone = _parsed(schedule), ZoneInfo(timezone)
    day = dt.datetime.fromtimestamp(now_ms / 1000, zone).date()
    while True:
        if cron.is_due_on(day):
            yield from (each for each in cron.moments_ms(day, zone) if each <= now_ms)
        day -= _DAY


@lru_cache(maxsize=256)
def _parsed(schedule: str) -> _Cron:
    fields = _SHORT.get(schedule.strip().lower(), schedule).lower().split()
    minutes, hours, days, months, weekdays = fields
    found = _Cron(
        _values(minutes, 0, 59),
        _values(hours, 0, 23),
        _values(days, 1, 31),
        _values(months, 1, 12, _MONTHS),
        frozenset(each % 7 for each in _values(weekdays, 0, 7, _WEEKDAYS)),
        any_day=days in ("*", "?"),
        any_weekday=weekdays in ("*", "?"),
    )
    if found.any_weekday and all(_LONGEST[each - 1] < min(found.days) for each in found.months):
        raise ValueError(f"no month of {schedule!r} has such a day")
    return found


def _values(field: str, first: int, last: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    def value(text: str) -> int:
        found = names.index(text) + first if text in names else int(text)
        if not first <= found <= last:
            raise ValueError(f"{text} is not in {first} to {last}")
        return found

    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is no part of a schedule")
        low, high, step = match.groups()
        begin = first if low is None else value(low)
        # A single value with a step is a range without an end.
        end = value(high) if high else begin if low and not step else last
        # Past the end it goes on at the beginning, as in 22-2.
        span = end - begin if begin <= end else end - begin + last - first + 1
        places = range(begin - first, begin - first + span + 1, int(step or 1))
        found |= {first + each % (last - first + 1) for each in places}
    return frozenset(found)
