"""Partitions by the clocks of a zone: a key has one value and a value one key, twice a year too."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import cast

import dagster as dg
import pytest

from lakewright.platform.orchestration.asset_partitions import partitions_def
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.tables.partition_keys import InvalidPartitionKeyError, PartitionColumn
from lakewright.platform.tables.partition_schemes import (
    Cadence,
    DynamicDimension,
    FormattedColumn,
    PartitionScheme,
    TimeDimension,
    default_formats,
)
from lakewright.storage import parse_data_type
from lakewright.storage.spec.values import from_python, to_python

LTZ = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
NAMES = TableNames("shop.events")
LATER = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
# Days on which clocks change, back and forth.
CHANGES = {
    "Europe/Berlin": ("2024-10-26", "2024-10-29", "2024-03-30", "2024-04-02"),
    "America/New_York": ("2024-11-02", "2024-11-05", "2024-03-09", "2024-03-12"),
    "America/Havana": ("2024-11-02", "2024-11-05", "2024-03-09", "2024-03-12"),
    "America/Sao_Paulo": ("2018-02-17", "2018-02-19", "2018-11-03", "2018-11-06"),
    "Asia/Kolkata": ("2024-10-26", "2024-10-29", "2024-03-30", "2024-04-02"),
    "UTC": ("2024-10-26", "2024-10-29", "2024-03-30", "2024-04-02"),
}


def dimension(
    zone: str,
    cadence: Cadence = Cadence.HOURLY,
    *,
    start: str = "2024-01-01",
    end: str | None = None,
    **columns: str,
) -> TimeDimension:
    """A dimension of columns by name, each `type` or `type as format`."""
    parsed, formats = [], []
    for name, text in columns.items():
        kind, _, form = text.partition(" as ")
        parsed.append(PartitionColumn(name, parse_data_type(kind)))
        formats.append(form)
    usual = default_formats(cadence, parsed)
    formatted = [
        FormattedColumn(column, form or usual[at])
        for at, (column, form) in enumerate(zip(parsed, formats, strict=True))
    ]
    return TimeDimension(
        cadence=cadence,
        columns=tuple(formatted),
        start=dt.datetime.fromisoformat(start),
        end=None if end is None else dt.datetime.fromisoformat(end),
        timezone=zone,
    )


def windows(scheme: PartitionScheme) -> dict[str, tuple[dt.datetime, dt.datetime]]:
    """Dagster's keys, and from when to when each lasts."""
    found = cast("dg.TimeWindowPartitionsDefinition", partitions_def(scheme, NAMES))
    keys = found.get_partition_keys(current_time=LATER)
    each = {key: found.time_window_for_partition_key(key) for key in keys}
    return {key: (window.start, window.end) for key, window in each.items()}


@pytest.mark.parametrize("back", [True, False], ids=["back", "forth"])
@pytest.mark.parametrize("cadence", [Cadence.HOURLY, Cadence.DAILY])
@pytest.mark.parametrize("zone", list(CHANGES))
def test_a_moment_is_the_one_at_which_dagsters_partition_begins(
    zone: str, cadence: Cadence, back: bool
) -> None:
    start, end = CHANGES[zone][:2] if back else CHANGES[zone][2:]
    scheme = PartitionScheme((dimension(zone, cadence, start=start, end=end, at=LTZ),))
    found = windows(scheme)
    assert len(found) >= (2 if cadence is Cadence.DAILY else 47)
    for key, (begins, _) in found.items():
        spec = scheme.spec_of(key)
        assert spec == {"at": begins.astimezone(dt.UTC)}, key
        stored = from_python(spec["at"], parse_data_type(LTZ))
        assert scheme.key_of({"at": to_python(stored, parse_data_type(LTZ))}) == key
    moments = [scheme.spec_of(key)["at"] for key in found]
    assert all(one < other for one, other in pairwise(moments))  # type: ignore[operator]


@pytest.mark.parametrize(
    "columns", [{"at": "STRING as %Y-%m-%d %H%z"}, {"dt": "DATE", "hh": "STRING as %H%z"}]
)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "America/Havana"])
def test_a_text_with_an_offset_tells_both_hours_apart(zone: str, columns: dict[str, str]) -> None:
    start, end, *_ = CHANGES[zone]
    repeated = dimension(zone, start=start, end=end, **columns)
    scheme = PartitionScheme((repeated,))
    specs = {key: scheme.spec_of(key) for key in windows(scheme)}
    assert len({str(spec) for spec in specs.values()}) == len(specs) == 73
    assert {key: scheme.key_of(spec) for key, spec in specs.items()} == {key: key for key in specs}
    assert repeated.hours_in_conflict() is None


WALL_CLOCKS = [
    {"at": "TIMESTAMP(3)"},
    {"at": "STRING"},
    {"at": "BIGINT"},
    {"dt": "STRING", "hh": "STRING"},
    {"dt": "DATE", "hh": "STRING"},
]


@pytest.mark.parametrize("columns", WALL_CLOCKS)
def test_an_hour_that_comes_twice_is_refused_where_columns_hold_it_once(
    columns: dict[str, str],
) -> None:
    told = dimension("Europe/Berlin", **columns).hours_in_conflict()
    assert told is not None
    assert "clocks in Europe/Berlin show 2024-10-27 02:00 twice" in told
    # Egypt took up summer time in 2023, years after the span began.
    assert dimension("Africa/Cairo", start="2016-01-01", **columns).hours_in_conflict() is not None
    # Where no such hour is in the span there is nothing to refuse.
    for harmless in (
        dimension("UTC", **columns),
        dimension("Asia/Kolkata", **columns),
        dimension("America/Sao_Paulo", **columns),
        dimension("Europe/Berlin", start="2024-01-01", end="2024-10-27T02:00", **columns),
        dimension("Europe/Berlin", start="2024-10-27T03:00", end="2025-10-01", **columns),
        dimension("Europe/Berlin", Cadence.DAILY, at="STRING"),
        dimension("Europe/Berlin", at=LTZ),
    ):
        assert harmless.hours_in_conflict() is None


def test_hours_that_change_their_minute_are_refused() -> None:
    told = dimension("Australia/Lord_Howe", at=LTZ).hours_in_conflict()
    assert told is not None
    assert "change by 0:30:00 at 2024-04-07 01:30" in told


@pytest.mark.parametrize("columns", WALL_CLOCKS)
def test_days_and_hours_that_come_once_keep_the_clock_of_the_zone(columns: dict[str, str]) -> None:
    scheme = PartitionScheme((dimension("America/New_York", **columns),))
    for key in ("2024-01-01-00:00", "2024-03-10-01:00", "2024-03-10-03:00", "2024-07-04-23:00"):
        assert scheme.key_of(scheme.spec_of(key)) == key
    assert PartitionScheme((dimension("America/New_York", at="TIMESTAMP(3)"),)).spec_of(
        "2024-07-04-23:00"
    ) == {"at": dt.datetime(2024, 7, 4, 23)}


def test_an_hour_that_clocks_skip_is_no_partition() -> None:
    scheme = PartitionScheme((dimension("Europe/Berlin", at="TIMESTAMP(3)"),))
    with pytest.raises(InvalidPartitionKeyError, match="not an hour of Europe/Berlin"):
        scheme.spec_of("2024-03-31-02:00")
    with pytest.raises(InvalidPartitionKeyError, match="does not begin"):
        scheme.key_of({"at": dt.datetime(2024, 3, 31, 2)})


def test_a_moment_within_a_day_of_the_zone_is_not_its_beginning() -> None:
    scheme = PartitionScheme((dimension("Europe/Berlin", Cadence.DAILY, at=LTZ),))
    assert scheme.key_of({"at": dt.datetime(2024, 7, 1, 22, tzinfo=dt.UTC)}) == "2024-07-02"
    with pytest.raises(InvalidPartitionKeyError, match=r"does not begin .* in Europe/Berlin"):
        scheme.key_of({"at": dt.datetime(2024, 7, 2, tzinfo=dt.UTC)})


def test_both_hours_keep_apart_beside_another_dimension() -> None:
    hours = dimension("Europe/Berlin", start="2024-10-26", end="2024-10-29", at=LTZ)
    countries = DynamicDimension(columns=(PartitionColumn("country", parse_data_type("STRING")),))
    scheme = PartitionScheme((hours, countries))
    for key, hour in {"2024-10-27-02:00": 0, "2024-10-27-02:00+0100": 1}.items():
        spec = scheme.spec_of(f"{key}|d+e")
        assert spec == {"at": dt.datetime(2024, 10, 27, hour, tzinfo=dt.UTC), "country": "d+e"}
        assert scheme.key_of(spec) == f"{key}|d+e"
