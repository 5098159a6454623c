"""Runs for hours of a zone whose clocks are put back: both of the hour that comes twice."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from tests.pipelines.lake import Lake

HOURS = """
table: shop.events
columns:
  - {name: at, type: TIMESTAMP(6) WITH LOCAL TIME ZONE}
  - {name: id, type: BIGINT NOT NULL}
partition_keys: [at]
partitions:
  hourly: {column: at, start: 2024-10-26, end: 2024-10-29, timezone: Europe/Berlin}
source: {python: "tests.pipelines.sources:rows"}
write: {engine: local, mode: overwrite}
"""
# From 01:00 in summer to 03:00 in winter.
MOMENTS = [dt.datetime(2024, 10, 26, 23, tzinfo=dt.UTC) + dt.timedelta(hours=n) for n in range(4)]
KEYS = ["2024-10-27-01:00", "2024-10-27-02:00", "2024-10-27-02:00+0100", "2024-10-27-03:00"]


def rows(first_id: int) -> pa.Table:
    return pa.table(
        {
            "at": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
            "id": pa.array([first_id + number for number in range(4)]),
        }
    )


def test_each_of_two_hours_with_one_name_is_written_for_itself(lake: Lake) -> None:
    lake.declare(HOURS)
    lake.give(rows(0))
    whole = lake.materialize(partitions=(KEYS[0], KEYS[3]))
    assert lake.rows() == rows(0).to_pylist()
    told = {
        key: each["dagster/partition_row_count"] for key, each in whole.materializations.items()
    }
    assert told == dict.fromkeys(KEYS, 1)
    for number, key in enumerate(KEYS):
        lake.give(rows(10 * number))
        lake.materialize(partitions=key)
    assert [row["id"] for row in lake.rows()] == [0, 11, 22, 33]


def test_wall_clocks_that_would_hold_both_hours_as_one_are_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_STRICT", "1")
    lake.declare(HOURS.replace(" WITH LOCAL TIME ZONE", ""))
    with pytest.raises(Exception, match=r"partitions\.hourly\.timezone: clocks in Europe/Berlin"):
        _ = lake.definitions
