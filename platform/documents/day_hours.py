"""Hours of the day in which work may begin, such as 22:00-06:00."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError

_HOURS = re.compile(r"(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)")
_DAY_MINUTES = 24 * 60
EXAMPLE = "22:00-06:00"


@dataclass(frozen=True, slots=True)
class DayHours:
    """A span of each day, from one minute of the day to another one, which is not part of it.

    A span whose end is not after its begin goes over midnight.
    """

    begin_minute: int
    end_minute: int

    @classmethod
    def parse(cls, text: str) -> DayHours:
        """The hours of a text such as 22:00-06:00.

        Raises:
            InvalidRequestError: it is no such text, or a span without a minute.
        """
        match = _HOURS.fullmatch(text.strip())
        if match is None:
            raise InvalidRequestError(
                f"{text!r} are no hours of the day; write for example {EXAMPLE}"
            )
        begin_hour, begin_past, end_hour, end_past = map(int, match.groups())
        begin, end = begin_hour * 60 + begin_past, end_hour * 60 + end_past
        if max(begin_past, end_past) > 59 or begin >= _DAY_MINUTES or end > _DAY_MINUTES:
            raise InvalidRequestError(
                f"{text!r} are no hours of the day, which are 00:00 to 24:00; write for example "
                f"{EXAMPLE}"
            )
        if begin == end:
            raise InvalidRequestError(
                f"{text!r} has no minute between its ends; leave `hours` out for the whole day"
            )
        return cls(begin, end)

    def __str__(self) -> str:
        return f"{_clock(self.begin_minute)}-{_clock(self.end_minute)}"

    def hold(self, now_ms: int, timezone: str) -> bool:
        """Whether a moment is within the hours, by the clock of a time zone."""
        minute = _minute(_local(now_ms, timezone))
        if self.begin_minute < self.end_minute:
            return self.begin_minute <= minute < self.end_minute
        return minute >= self.begin_minute or minute < self.end_minute

    def next_ms(self, now_ms: int, timezone: str) -> int:
        """The first moment from now on that is within the hours."""
        if self.hold(now_ms, timezone):
            return now_ms
        local = _local(now_ms, timezone)
        days = 0 if _minute(local) < self.begin_minute else 1
        day = local.date() + dt.timedelta(days=days)
        hour, minute = divmod(self.begin_minute, 60)
        return int(
            dt.datetime.combine(day, dt.time(hour, minute), tzinfo=local.tzinfo).timestamp() * 1000
        )


def _clock(minute_of_day: int) -> str:
    return f"{minute_of_day // 60:02d}:{minute_of_day % 60:02d}"


def _local(now_ms: int, timezone: str) -> dt.datetime:
    return dt.datetime.fromtimestamp(now_ms / 1000, zoneinfo.ZoneInfo(timezone))


def _minute(local: dt.datetime) -> int:
    return local.hour * 60 + local.minute
