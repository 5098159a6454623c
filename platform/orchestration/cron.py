"""Cron schedules, as Dagster understands them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from dagster._utils.schedules import cron_string_iterator, reverse_cron_string_iterator


def last_tick_ms(now_ms: int, schedule: str, timezone: str) -> int:
    """The last moment, now or before, at which the schedule was due."""
    return next(ticks_back(now_ms, schedule, timezone))


def ticks_back(now_ms: int, schedule: str, timezone: str) -> Iterator[int]:
    """The moments at which the schedule was due, from now backwards."""
    ticks: Iterator[dt.datetime] = reverse_cron_string_iterator(now_ms / 1000, schedule, timezone)
    return (int(each.timestamp() * 1000) for each in ticks)


def is_tick(moment: dt.datetime, schedule: str, timezone: str) -> bool:
    """Whether the schedule is due at exactly this moment."""
    first: dt.datetime = next(cron_string_iterator(moment.timestamp(), schedule, timezone))
    return first == moment
