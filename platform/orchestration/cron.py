"""Cron schedules of Dagster's own, which says when they are due."""

from __future__ import annotations

import datetime as dt

from dagster._utils.schedules import cron_string_iterator, reverse_cron_string_iterator


def last_tick_ms(now_ms: int, schedule: str, timezone: str) -> int:
    """The last moment, now or before, at which the schedule was due."""
    last: dt.datetime = next(reverse_cron_string_iterator(now_ms / 1000, schedule, timezone))
    return int(last.timestamp() * 1000)


def is_tick(moment: dt.datetime, schedule: str, timezone: str) -> bool:
    """Whether the schedule is due at exactly this moment."""
    first: dt.datetime = next(cron_string_iterator(moment.timestamp(), schedule, timezone))
    return first == moment
