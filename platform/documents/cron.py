"""Cron schedules of upkeep: five fields, and the moments at which they are due, as Dagster's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_MINUTE = dt.timedelta(minutes=1)


def check_cron(schedule: str) -> str | None:
    """What is wrong with a schedule, None if it can be followed."""
    try:
        next(ticks_back(0, schedule, "UTC"))
    except (CronSimError, StopIteration):
        return f"{schedule!r} is not a cron schedule; write for example '0 3 * * *'"
    return None


def last_tick_ms(now_ms: int, schedule: str, timezone: str) -> int:
    """The last moment, now or before, at which the schedule was due."""
    return next(ticks_back(now_ms, schedule, timezone))


def ticks_back(now_ms: int, schedule: str, timezone: str) -> Iterator[int]:
    """The moments at which the schedule was due, from now backwards."""
    written = _SHORT.get(schedule.strip().lower(), schedule)
    if len(written.split()) != 5:
        raise CronSimError("a schedule has five fields")
    # The library begins before the moment that it is given.
    after = dt.datetime.fromtimestamp(now_ms / 1000, ZoneInfo(timezone)) + _MINUTE
    for moment in CronSim(written, after.replace(second=0, microsecond=0), reverse=True):
        yield int(moment.timestamp() * 1000)
