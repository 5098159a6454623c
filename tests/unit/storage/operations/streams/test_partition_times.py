"""Partition keys that follow from the times of rows, over Arrow, against the clock itself."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.streams.partition_times import with_partition_times
from lakewright.storage.spec.data_types import DataField, parse_data_type
from lakewright.storage.spec.partition_clock import EventTime, PartitionClock, partition_clock

_FIELDS = {
    name: DataField(at, name, parse_data_type(kind))
    for at, (name, kind) in enumerate((("day", "DATE"), ("month", "STRING"), ("hour", "INT")))
}


def clock(zone: str) -> PartitionClock:
    times = {
        "day": EventTime("at", zone=zone),
        "month": EventTime("at", "yyyyMM", zone=zone),
        "hour": EventTime("at", "H", zone=zone),
    }
    return partition_clock(_FIELDS, times, table="db.t")


# The years 69 to 9891.
_MICROS = st.integers(min_value=-6 * 10**16, max_value=25 * 10**16)


@given(
    st.lists(st.none() | _MICROS, max_size=5),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"]),
    st.booleans(),
)
def test_each_row_gets_the_partition_of_its_time(
    micros: list[int | None], zone: str, is_instant: bool
) -> None:
    kind = pa.timestamp("us", tz="UTC" if is_instant else None)
    rows = pa.table({"at": pa.array(micros, pa.int64()).cast(kind)})
    found, latest = with_partition_times(rows, clock(zone), table="db.t")
    known = [each for each in micros if each is not None]
    if is_instant or not known:
        assert latest == (max(known) // 1000 if known else None)
    for row, each in zip(found.to_pylist(), micros, strict=True):
        if each is None:
            assert (row["day"], row["month"], row["hour"]) == (None, None, None)
            continue
        moment = (
            clock(zone).local(each // 1000)
            if is_instant
            else dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=each)
        )
        assert (row["day"], row["hour"]) == (moment.date(), moment.hour)
        assert row["month"] == f"{moment.year:04}{moment.month:02}"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_a_time_without_a_zone_leaves_a_partition_when_the_clock_does(zone: str) -> None:
    for shown in (dt.datetime(2024, 3, 30, 23, 59), dt.datetime(2024, 3, 31)):
        rows = pa.table({"at": pa.array([shown], pa.timestamp("ms"))})
        _, latest = with_partition_times(rows, clock(zone), table="db.t")
        assert latest is not None
        assert clock(zone).local(latest) == shown


def test_a_column_that_is_no_time_is_named() -> None:
    with pytest.raises(InvalidRequestError, match=r"in column at, which is int64; name a column"):
        with_partition_times(pa.table({"at": pa.array([1])}), clock("UTC"), table="db.t")
