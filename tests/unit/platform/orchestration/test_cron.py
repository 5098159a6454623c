"""Cron schedules: what is due at a moment."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from dagster._utils.schedules import schedule_execution_time_iterator

from lakewright.platform.orchestration.cron import is_tick

BERLIN = "Europe/Berlin"


def test_a_schedule_is_due_at_its_moments_and_not_beside_them() -> None:
    at = dt.datetime(2026, 11, 23, 4, 47, tzinfo=ZoneInfo(BERLIN))
    assert is_tick(at, "47 4 * * *", BERLIN)
    assert not is_tick(at, "47 4 * * *", "UTC")
    assert not is_tick(at, "47 5 * * *", BERLIN)
    assert not is_tick(at + dt.timedelta(seconds=30), "47 4 * * *", BERLIN)


@pytest.mark.parametrize("change", [dt.datetime(2026, 3, 28), dt.datetime(2026, 10, 24)])
def test_each_moment_of_several_schedules_is_one_of_its_own_where_clocks_change(
    change: dt.datetime,
) -> None:
    crons = ["30 2 * * *", "0 * * * *", "15 3 * * *"]
    begin = change.replace(tzinfo=ZoneInfo(BERLIN)).timestamp()
    moments = schedule_execution_time_iterator(begin, crons, BERLIN)
    seen = dict.fromkeys(crons, 0)
    for at in moments:
        if at.timestamp() > begin + 3 * 86_400:
            break
        due = [cron for cron in crons if is_tick(at, cron, BERLIN)]
        assert due, at
        for cron in due:
            seen[cron] += 1
    assert seen["30 2 * * *"] >= 3
    assert seen["15 3 * * *"] >= 3
