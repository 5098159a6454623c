"""The moment at which is decided, and when schedules were last due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from lakewright.platform.documents.cron import last_tick_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time, and the last time at which a cron schedule was due in a time zone."""

    now_ms: int
    last_tick_ms: Callable[[str, str], int]

    @classmethod
    def at(cls, now_ms: int) -> Clock:
        """The clock of a moment, with the ticks of schedules as cron has them."""
        return cls(now_ms=now_ms, last_tick_ms=cache(partial(last_tick_ms, now_ms)))
