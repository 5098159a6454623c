"""Cron schedules of Dagster's own, which says when they are due."""

from __future__ import annotations

import datetime as dt

from dagster._utils.schedules import cron_string_iterator


def is_tick(moment: dt.datetime, schedule: str, timezone: str) -> bool:
    """Whether the schedule is due at exactly this moment."""
    first: dt.datetime = next(cron_string_iterator(moment.timestamp(), schedule, timezone))
    return first == moment
