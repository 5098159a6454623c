"""Times become values of partition keys, and say which partitions are over."""

from __future__ import annotations

import datetime as dt

import pytest

from lakewright.storage import Catalog, EventTime, ProcessingTime, Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.partition_clock import PartitionClock, partition_clock
from tests.support.tables.builders import new_table

NOW = dt.datetime(2024, 3, 1, 5, 0, 0)
Time = EventTime | ProcessingTime


def clock_of(catalog: Catalog, keys: dict[str, str], given: dict[str, Time]) -> PartitionClock:
    return clocked(catalog, keys, given)[1]


def clocked(
    catalog: Catalog, keys: dict[str, str], given: dict[str, Time]
) -> tuple[Table, PartitionClock]:
    table = new_table(catalog, {"id": "BIGINT", **keys}, partitions=list(keys))
    fields = {field.name: field for field in table.schema.partition_fields}
    return table, partition_clock(fields, given, table=table.name)


@pytest.mark.mission("PT48")
@pytest.mark.parametrize(
    ("keys", "given", "values", "before"),
    [
        ({"d": "DATE"}, {"d": EventTime("ts")}, {"d": NOW.date()}, {"d": dt.date(2024, 2, 29)}),
        (
            {"dt": "STRING"},
            {"dt": EventTime("ts", "dd'th' MM/yyyy")},
            {"dt": "01th 03/2024"},
            {"dt": "29th 02/2024"},
        ),
        (
            {"d": "INT", "dh": "TINYINT"},
            {"d": ProcessingTime("yyyyMMdd"), "dh": ProcessingTime("H")},
            {"d": 20240301, "dh": 5},
            {"d": 20240301, "dh": 4},
        ),
        (
            {"month": "STRING"},
            {"month": ProcessingTime("yyyy-MM")},
            {"month": "2024-03"},
            {"month": "2024-02"},
        ),
    ],
)
def test_a_time_has_its_partition_and_those_before_it_are_over(
    catalog: Catalog,
    keys: dict[str, str],
    given: dict[str, Time],
    values: dict[str, object],
    before: dict[str, object],
) -> None:
    table, clock = clocked(catalog, keys, given)
    partitions = table.table_files.partitions
    assert clock.spec_at(NOW) == values
    assert not clock.is_over(partitions.planned(values), NOW)
    assert clock.is_over(partitions.planned(before), NOW)
    assert not clock.is_over(partitions.planned(dict.fromkeys(keys)), NOW)


def test_partitions_follow_the_clock_of_their_zone(catalog: Catalog) -> None:
    clock = clock_of(catalog, {"dt": "STRING"}, {"dt": EventTime("ts", zone="Asia/Tokyo")})
    # 2024-01-01T15:00Z is midnight in Tokyo.
    assert clock.spec_at(clock.local(1_704_121_200_000)) == {"dt": "2024-01-02"}
    assert clock.spec_at(clock.local(1_704_121_199_999)) == {"dt": "2024-01-01"}


@pytest.mark.parametrize(
    ("keys", "given", "said"),
    [
        ({"dt": "STRING"}, {"dt": EventTime("ts", "YYYY-MM-dd")}, "'YYYY' is not implemented"),
        ({"dt": "STRING"}, {"dt": EventTime("ts", "HH")}, "give no year"),
        ({"dt": "STRING"}, {"dt": EventTime("ts", zone="Mars")}, "'Mars' is not a time zone"),
        ({"dt": "DATE"}, {"dt": EventTime("ts", "yyyy")}, "a DATE, which needs no layout"),
        ({"dt": "BIGINT"}, {"dt": EventTime("ts")}, "the number dt of db.t cannot hold"),
        ({"dt": "BOOLEAN"}, {"dt": EventTime("ts")}, "dt of db.t is BOOLEAN"),
        (
            {"dt": "STRING", "h": "STRING"},
            {"dt": EventTime("ts"), "h": EventTime("other", "HH")},
            "need one time",
        ),
    ],
)
def test_times_that_do_not_fit_a_table_are_refused(
    catalog: Catalog, keys: dict[str, str], given: dict[str, Time], said: str
) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        clock_of(catalog, keys, given)
