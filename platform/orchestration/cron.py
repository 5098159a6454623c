"""Cron schedules, as Dagster understands them."""

from __future__ import annotations

import datetime as dt

from dagster._utils.schedules import reverse_cron_string_iterator


def last_tick_ms(now_ms: int, schedule: str, timezone: str) -> int:
    """The last moment, now or before, at which the schedule was due."""
    ticks = reverse_cron_string_iterator(now_ms / 1000, schedule, timezone)
    last: dt.datetime = next(ticks)
    return int(last.timestamp() * 1000)
