"""Hours of the day, such as 22:00-06:00, in a time zone."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from lakewright.storage.errors import InvalidRequestError

_FORM = re.compile(r"\s*(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s*")


@dataclass(frozen=True, slots=True)
class DayHours:
    """From `start` to `end`, which is left out; an end before the start is on the next day."""

    start: dt.time
    end: dt.time
    timezone: ZoneInfo

    @classmethod
    def parse(cls, text: str, timezone: str) -> DayHours:
        """The hours of a text.

        Raises:
            InvalidRequestError: the text has another form, or no such hour exists.
        """
        found = _FORM.fullmatch(text)
        try:
            if found is None:
                raise ValueError
            start, end = (
                dt.time(int(found[at]) % 24, int(found[at + 1]))
                for at in (1, 3)
                if int(found[at]) <= 24
            )
        except ValueError:
            raise InvalidRequestError(
                f"{text!r} are no hours of the day; write for example 22:00-06:00"
            ) from None
        return cls(start, end, ZoneInfo(timezone))

    def contain(self, time_ms: int) -> bool:
        """Whether the moment lies in the hours; equal ends mean the whole day."""
        now = self._local(time_ms).time()
        if self.start < self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end

    def next_start_ms(self, time_ms: int) -> int:
        """The first start after a moment."""
        now = self._local(time_ms)
        for days in range(3):
            day = now.date() + dt.timedelta(days=days)
            start = dt.datetime.combine(day, self.start, self.timezone)
            if start > now:
                return int(start.timestamp() * 1000)
        raise AssertionError(self)

    def _local(self, time_ms: int) -> dt.datetime:
        return dt.datetime.fromtimestamp(time_ms / 1000, self.timezone)
