"""Hours of the day: which moments are within them, by the clock of a zone."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.platform.documents.day_hours import DayHours
from lakewright.storage.errors import InvalidRequestError

HOUR_MS = 3_600_000


def ms(text: str, zone: str = "UTC") -> int:
    moment = dt.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(zone))
    return int(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("hours", "moment", "within"),
    [
        ("22:00-06:00", "2024-05-01T22:00", True),
        ("22:00-06:00", "2024-05-01T05:59", True),
        ("22:00-06:00", "2024-05-01T06:00", False),
        ("22:00-06:00", "2024-05-01T21:59", False),
        ("9:30 - 17:00", "2024-05-01T09:30", True),
        ("9:30 - 17:00", "2024-05-01T17:00", False),
        ("18:00-24:00", "2024-05-01T23:59", True),
        ("18:00-24:00", "2024-05-02T00:00", False),
    ],
)
def test_hours_go_from_their_begin_until_before_their_end(
    hours: str, moment: str, within: bool
) -> None:
    assert DayHours.parse(hours).hold(ms(moment), "UTC") is within


def test_hours_are_those_of_the_zone() -> None:
    hours = DayHours.parse("22:00-06:00")
    assert hours.hold(ms("2024-07-01T20:30"), "Europe/Berlin")
    assert not hours.hold(ms("2024-01-01T20:30"), "Europe/Berlin")


@pytest.mark.parametrize(
    ("now", "then"),
    [
        ("2024-05-01T12:00", "2024-05-01T22:00"),
        ("2024-05-01T23:00", "2024-05-01T23:00"),
        # The clock jumps from 2:00 to 3:00 within the night.
        ("2024-03-30T12:00", "2024-03-30T22:00"),
    ],
)
def test_the_next_moment_is_now_or_the_next_begin(now: str, then: str) -> None:
    zone = "Europe/Berlin"
    hours = DayHours.parse("22:00-06:00")
    assert hours.next_ms(ms(now, zone), zone) == ms(then, zone)


@given(
    begin=st.integers(0, 1439),
    end=st.integers(0, 1440),
    now=st.integers(0, 366 * 24 * 60).map(lambda minute: ms("2024-01-01T00:00") + minute * 60_000),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
)
def test_the_next_moment_is_within_the_hours_and_at_most_a_day_away(
    begin: int, end: int, now: int, zone: str
) -> None:
    if begin == end:
        return
    hours = DayHours(begin, end)
    assert DayHours.parse(str(hours)) == hours
    then = hours.next_ms(now, zone)
    assert now <= then <= now + 25 * HOUR_MS
    # Hours that the clock leaves out on one night of the year begin after the gap.
    assert hours.hold(then, zone) or hours.hold(then - 1, zone) or end - begin <= 60


@pytest.mark.parametrize("text", ["", "night", "22-6", "22:00", "22:60-06:00", "24:00-06:00"])
def test_what_are_no_hours_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"no hours of the day.* 22:00-06:00"):
        DayHours.parse(text)


def test_hours_without_a_minute_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="leave `hours` out for the whole day"):
        DayHours.parse("06:00-06:00")
