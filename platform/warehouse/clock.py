"""The moment at which is decided, and when schedules were last due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time, and the last time at which a cron schedule was due in a time zone."""

    now_ms: int
    last_tick_ms: Callable[[str, str], int]
