"""The time of a partition, as Paimon's pattern and formatter read it from the values."""

from __future__ import annotations

import datetime as dt

import pytest

from lakewright.storage.codec.binary_row import encode_row
from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.data_types import DataField, parse_data_type
from lakewright.storage.spec.partition import Partition, PartitionKeys
from lakewright.storage.spec.partition_time import PartitionTimes
from lakewright.storage.spec.values import from_python

MIDNIGHT = dt.datetime(2024, 3, 5)


def partition(**values: tuple[str, object]) -> Partition:
    """A partition from the type and value of each key."""
    fields = tuple(
        DataField(at, name, parse_data_type(kind))
        for at, (name, (kind, _)) in enumerate(values.items())
    )
    stored = tuple(
        from_python(value, field.type)
        for field, (_, value) in zip(fields, values.values(), strict=True)
    )
    row = encode_row(stored, [each.type for each in fields])
    return Partition(PartitionKeys(0, fields), row, stored)


def text(day: object, **more: object) -> Partition:
    named = {"day": day, **more}
    return partition(**{name: ("STRING", value) for name, value in named.items()})


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2024-03-05", MIDNIGHT),
        ("2024-3-5", MIDNIGHT),
        ("2024-03-05 07:08:09", dt.datetime(2024, 3, 5, 7, 8, 9)),
        ("2024-03-05 7:8:9.25", dt.datetime(2024, 3, 5, 7, 8, 9, 250_000)),
        ("2024-03-05 07:08", None),
        ("2024-02-30", dt.datetime(2024, 3, 1)),
        ("2023-13-05 24:00:00", dt.datetime(2024, 1, 6)),
        ("20240305", None),
        ("99999-01-01", None),
        ("never", None),
        ("", None),
        (None, None),
    ],
)
def test_without_a_formatter_a_day_is_read_and_a_time_if_there_is_one(
    day: str | None, expected: dt.datetime | None
) -> None:
    assert PartitionTimes().of(text(day)) == expected


@pytest.mark.parametrize(
    ("formatter", "day", "expected"),
    [
        ("yyyyMMdd", "20240305", MIDNIGHT),
        ("uuuuMMdd", "20240305", MIDNIGHT),
        ("yyyyMMdd", "2024-03-05", None),
        ("yyyyMMdd", "20240230", dt.datetime(2024, 2, 29)),
        ("yyyyMMdd", "20240232", None),
        ("yyyyMMdd", "20241301", None),
        ("yyMMdd", "240305", MIDNIGHT),
        ("d.M.y", "5.3.2024", MIDNIGHT),
        ("yyyy-MM-dd HH:mm", "2024-03-05 07:30", dt.datetime(2024, 3, 5, 7, 30)),
        ("yyyy-MM-dd HH", "2024-03-05 07", dt.datetime(2024, 3, 5, 7)),
        (
            "yyyy-MM-dd'T'HH:mm:ss.SSS",
            "2024-03-05T07:08:09.125",
            dt.datetime(2024, 3, 5, 7, 8, 9, 125_000),
        ),
        ("'day ''of'' 'yyyyMMdd", "day 'of' 20240305", MIDNIGHT),
    ],
)
def test_a_formatter_is_a_layout_of_java(
    formatter: str, day: str, expected: dt.datetime | None
) -> None:
    assert PartitionTimes(formatter=formatter).of(text(day)) == expected


@pytest.mark.parametrize(
    "formatter", ["yyyyMM", "HH:mm", "yyyy-MMM-dd", "yyyyMMddyyyy", "yyyy-MM-dd VV", "yyyyMMdd[HH]"]
)
def test_a_formatter_that_gives_no_day_or_is_not_implemented_is_refused(formatter: str) -> None:
    with pytest.raises(InvalidOption, match=r"partition\.timestamp-formatter"):
        PartitionTimes(formatter=formatter).check()


def test_a_pattern_names_the_keys_that_make_the_time() -> None:
    times = PartitionTimes(pattern="$day $hour:00:00")
    assert times.of(text("2024-03-05", hour="7")) == dt.datetime(2024, 3, 5, 7)
    assert times.of(text("2024-03-05", hour=None)) is None
    assert PartitionTimes(pattern="$day-01").of(text("2024-03")) == dt.datetime(2024, 3, 1)
    # A key that the pattern does not name may be null.
    assert PartitionTimes(pattern="$day").of(text("2024-03-05", hour=None)) == MIDNIGHT


@pytest.mark.parametrize("pattern", [None, "$day $hour:00:00", "$days", "$day-01 for 5$ or $1"])
def test_a_pattern_may_have_more_than_keys(pattern: str | None) -> None:
    PartitionTimes(pattern=pattern).check_names(["day", "hour"], table="db.t")


def test_keys_that_are_dates_or_timestamps_are_times_themselves() -> None:
    assert PartitionTimes().of(partition(d=("DATE", dt.date(2024, 3, 5)))) == MIDNIGHT
    moment = dt.datetime(2024, 3, 5, 7, 8, 9)
    assert PartitionTimes().of(partition(t=("TIMESTAMP(0)", moment))) == moment
    number = PartitionTimes(formatter="yyyyMMdd")
    assert number.of(partition(n=("INT", 20240305))) == MIDNIGHT


@pytest.mark.parametrize("names", [("dt", "dt_hour"), ("dt_hour", "dt"), ("d", "dt"), ("dt", "d")])
def test_a_key_whose_name_begins_another_is_not_taken_for_it(names: tuple[str, str]) -> None:
    day, hour = ("d", "dt") if "d" in names else ("dt", "dt_hour")
    values = {day: ("STRING", "2024-03-05"), hour: ("STRING", "07")}
    times = PartitionTimes(pattern=f"${day} ${hour}:00:00")
    times.check_names(names, table="db.t")
    found = partition(**{name: values[name] for name in names})
    assert times.of(found) == dt.datetime(2024, 3, 5, 7)


def test_a_value_that_looks_like_a_key_is_a_value() -> None:
    times = PartitionTimes(pattern="$day$hour")
    assert times.text_of(text("$hour", hour="7")) == "$hour7"
    assert times.text_of(text("\\1", hour="7")) == "\\17"
