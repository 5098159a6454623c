"""Schedules of upkeep: they are due when Dagster says so, and wrong ones are refused."""

from __future__ import annotations

import datetime as dt
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from dagster._utils.schedules import reverse_cron_string_iterator

from lakewright.platform.documents.cron import check_cron, last_tick_ms, ticks_back

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = "UTC") -> int:
    return int(dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(
    "schedule",
    [
        "17 3 * * *",
        "57 4 * * 0",
        "0 0 * * sun-tue",
        "*/7 * * * *",
        "5-50/5 * * * *",
        "0 22,2 * * *",
        "30 */5 1,15 * fri",
        "0 12 29 2 *",
        "0 0 * JAN-mar MON-FRI",
        "3 4 31 * *",
        "0 6 * * 5-7",
        "10/20 1 * * *",
        "@weekly",
    ],
)
@pytest.mark.parametrize("zone", ["UTC", BERLIN, "Asia/Kolkata"])
def test_a_schedule_is_due_when_dagster_says_so(schedule: str, zone: str) -> None:
    # Between the changes of clocks, where the two may differ.
    now_ms = at("2026-10-20T09:30:12")
    theirs = reverse_cron_string_iterator(now_ms / 1000, schedule, zone)
    expected = [int(each.timestamp() * 1000) for each in islice(theirs, 20)]
    since = at("2026-04-05T00:00:00")
    found = list(islice(ticks_back(now_ms, schedule, zone), 20))
    assert found[0] == expected[0]
    assert [each for each in found if each > since] == [each for each in expected if each > since]


def test_the_moment_itself_is_due() -> None:
    now_ms = at("2026-11-23T04:47:00", BERLIN)
    assert last_tick_ms(now_ms, "47 4 * * *", BERLIN) == now_ms
    assert last_tick_ms(now_ms - 1, "47 4 * * *", BERLIN) == now_ms - 86_400_000


def test_a_moment_that_the_clocks_leave_out_is_due_when_they_are_put_forward() -> None:
    found = islice(ticks_back(at("2026-03-30T12:00:00", BERLIN), "30 2 * * *", BERLIN), 3)
    expected = ["2026-03-30T02:30:00", "2026-03-29T03:00:00", "2026-03-28T02:30:00"]
    assert list(found) == [at(each, BERLIN) for each in expected]


def test_where_clocks_are_put_back_an_hourly_schedule_is_due_at_every_hour() -> None:
    day = list(islice(ticks_back(at("2026-10-25T23:59:00", BERLIN), "0 * * * *", BERLIN), 25))
    assert [a - b for a, b in pairwise(day)] == [3_600_000] * 24
    daily = list(islice(ticks_back(at("2026-10-26T12:00:00", BERLIN), "30 2 * * *", BERLIN), 3))
    assert [a - b for a, b in pairwise(daily)] == [25 * 3_600_000, 86_400_000]


@pytest.mark.parametrize(
    "schedule",
    [
        *("never", "", "7 4 * *", "0 3 * * * *", "60 3 * * *", "0 24 * * *", "0 3 0 * *"),
        *("0 3 * 13 *", "0 3 * * 8", "0 3 * * mo", "0 3 */0 * *", "a 3 * * *", "0 3 30 2 *"),
        *("0 22-2 * * *", "0 0 ? * *", "0 3 , * *", "-1 3 * * *"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_an_example(schedule: str) -> None:
    told = check_cron(schedule)
    assert told == f"{schedule!r} is not a cron schedule; write for example '0 3 * * *'"
    assert check_cron("0 3 * * *") is None
