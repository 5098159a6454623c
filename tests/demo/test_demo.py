"""The demo as a newcomer runs it, and what other clients read afterwards."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakewright.demo import nycflights
from lakewright.demo.evolution import DROPPED, LAST_DAY
from lakewright.demo.hourly_weather import HOURLY_WEATHER
from lakewright.storage import Catalog
from tests.demo.begun import WEEKS, YEAR, BegunDemo
from tests.oracles.arrow_values import canonical_rows
from tests.oracles.client import JavaOracle, Oracle, WritingOracle
from tests.support.tables.invariants import assert_only_reachable_files

TABLES = ("airlines", "airports", "delays_by_carrier", "flights", "planes", "weather")


@dataclass(frozen=True)
class Demo:
    """What a run of the demo printed, and where it left what."""

    run: BegunDemo
    output: str

    @property
    def since(self) -> dt.date:
        return self.run.since

    @property
    def warehouse(self) -> Path:
        return self.run.warehouse

    @property
    def home(self) -> Path:
        return self.run.home

    def again(self) -> str:
        self.run.begin()
        return self.run.output()

    @property
    def catalog(self) -> Catalog:
        return Catalog.open(str(self.warehouse))

    def days_of(self, rows: pa.Table) -> pa.Table:
        """The rows of the days that the demo loads."""
        return rows.filter(pc.greater_equal(rows.column("dt"), self.since.isoformat()))

    def runs(self) -> list[dg.DagsterRun]:
        # The log of events finds its folder by the variable, as for every command of Dagster.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DAGSTER_HOME", str(self.home))
            opened = dg.DagsterInstance.from_config(str(self.home))
        with opened as instance:
            return list(instance.get_runs())


# Some weeks go through every step that the year goes through, in a fraction of the time.
@pytest.fixture(
    scope="module",
    params=[pytest.param(WEEKS, id="weeks"), pytest.param(YEAR, id="year", marks=pytest.mark.deep)],
)
def demo(
    request: pytest.FixtureRequest, begun: BegunDemo, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Demo]:
    run = begun
    if request.param != begun.since:
        run = BegunDemo(request.param, tmp_path_factory.mktemp("year"))
    yield Demo(run, run.output())
    run.clear()


def as_texts(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.mission("PT5", "PT12", "FS1")
def test_every_flight_is_there_once(demo: Demo) -> None:
    """Rows of before the change read null in the columns that were added by it."""
    table = demo.catalog.table("nyc.flights")
    rows = table.read()

    assert len(table.at().partitions()) == (dt.date(2014, 1, 1) - demo.since).days
    source = nycflights.flights()
    assert source.num_rows == 336_776
    source = demo.days_of(source)
    ingested_after = pc.equal(source.column("dt"), LAST_DAY)
    for name in ("cancelled", DROPPED):
        values = pc.if_else(ingested_after, source.column(name), None)
        source = source.set_column(source.column_names.index(name), name, values)
    assert sorted_rows(rows).equals(sorted_rows(source.select(rows.column_names).cast(rows.schema)))


def sorted_rows(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in rows.column_names])


@pytest.mark.mission("SE2", "SE14", "SE37")
def test_each_snapshot_reads_in_the_schema_of_its_time(demo: Demo) -> None:
    table = demo.catalog.table("nyc.flights")
    snapshots = table.history.snapshots()
    earlier = sorted_rows(demo.days_of(nycflights.earlier_flights()))
    before = [each.id for each in snapshots if each.schema_id == 0]
    assert before
    rows = table.at(snapshot=before[-1]).read()
    assert sorted_rows(rows).equals(
        sorted_rows(earlier.select(rows.column_names).cast(rows.schema))
    )
    last_told = [each for each in snapshots if each.id == snapshot_in_the_last_schema(demo)]
    assert [each.schema_id for each in last_told] == [2]
    assert f"snapshot {last_told[0].id}, schema 2: {earlier.num_rows:,} rows" in demo.output


def snapshot_in_the_last_schema(demo: Demo) -> int:
    """The snapshot that the change of the schema ended with; the partition keys change after it."""
    return max(int(each) for each in re.findall(r"snapshot (\d+), schema 2: ", demo.output))


def test_a_neglected_warehouse_is_adopted_kept_and_partly_taken_back(demo: Demo) -> None:
    told = demo.output[demo.output.index("a neglected warehouse") :]
    commands = ("adopt", "upkeep", "upkeep", "savings", "undo")
    assert tuple(re.findall(r"\$ lakewright (\w+)", told))[: len(commands)] == commands
    assert "in shadow: recorded, and nothing done" in told
    assert "restored 30 files" in told
    catalog = Catalog.open(str(demo.home / "demo_neglected" / "warehouse"))
    counts = {
        name: len(catalog.table(name).at().files()) for name in ("logs.clicks", "shop.orders")
    }
    assert counts == {"logs.clicks": 30, "shop.orders": 2}


def test_the_gate_denies_what_would_break(demo: Demo) -> None:
    told = demo.output[demo.output.index("the gate judges") :]
    assert ": deny" in told.splitlines()[1]
    for reason in ("values-lost", "asset check carrier_not_null", "nyc.delays_by_carrier"):
        assert reason in told


def test_the_sensor_left_one_file_a_day(demo: Demo) -> None:
    table = demo.catalog.table("nyc.flights")
    # The last day was ingested again after it.
    ingested = snapshot_in_the_last_schema(demo)
    partitions = table.at(snapshot=ingested - 1).partitions()
    assert {each.file_count for each in partitions} == {1}
    compactions = [run for run in demo.runs() if run.job_name == "compact"]
    assert [run.status for run in compactions] == [dg.DagsterRunStatus.SUCCESS]
    assert compactions[0].tags["dagster/sensor_name"] == "upkeep_sensor"


def test_the_report_is_what_spark_was_asked_for(demo: Demo) -> None:
    flights = demo.catalog.table("nyc.flights").read(columns=["dt", "carrier", "arr_delay"])
    expected = flights.group_by(["dt", "carrier"]).aggregate(
        [([], "count_all"), ("arr_delay", "max")]
    )
    found = demo.catalog.table("nyc.delays_by_carrier").read(
        columns=["dt", "carrier", "flights", "worst_arr_delay"]
    )
    order = [("dt", "ascending"), ("carrier", "ascending")]
    assert found.sort_by(order).to_pydict() == (
        expected.select(["dt", "carrier", "count_all", "arr_delay_max"])
        .rename_columns(["dt", "carrier", "flights", "worst_arr_delay"])
        .sort_by(order)
        .to_pydict()
    )


# Days whose files Spark wrote, and days that were compacted.
SOME_DAYS = (("dt", "<=", "2013-12-04"),)


@pytest.mark.interop
@pytest.mark.parametrize("name", TABLES)
def test_pypaimon_and_java_read_the_same_rows(
    demo: Demo, name: str, released_pypaimon: WritingOracle, java: JavaOracle
) -> None:
    """All rows of the year, where that is there; the clients take minutes for its large tables."""
    # Java 0.9 reads files that are home; on a busy machine the sensor may not have looked yet.
    demo.catalog.table(f"nyc.{name}").upkeep.settle()
    is_large = name in ("flights", "weather") and demo.since != YEAR
    assert_read_alike(demo, name, (released_pypaimon, java), SOME_DAYS if is_large else ())


@pytest.mark.mission("SE15", "SE16")
def test_flights_got_a_second_partition_key_and_lost_it_again(demo: Demo) -> None:
    """The numbers that the demo tells are those of the table at its snapshots."""
    table = demo.catalog.table("nyc.flights")
    assert table.schema.partition_keys == ("dt",)
    days = (dt.date(2014, 1, 1) - demo.since).days
    rows = f"all {demo.days_of(nycflights.flights()).num_rows:,} rows as before"
    before, split, during, finer, back = (
        table.at(snapshot=each).partitions() for each in snapshots_of_the_keys(demo)
    )
    assert [len(each) for each in (before, split, during, back)] == [days] * 4
    # The three airports have flights on every day.
    assert {each.file_count for each in split} == {each.file_count for each in back} == {3}
    assert len(finer) == 3 * days
    several = sum(each.file_count for each in before)
    assert (
        f"(dt) → (dt, origin): {several:,} files split, {3 * days:,} restated where they lie; "
        f"partitions {days:,} → {3 * days:,}; {rows}"
    ) in demo.output
    assert (
        f"(dt, origin) → (dt): 0 files split, {3 * days:,} restated where they lie; "
        f"partitions {3 * days:,} → {days:,}; {rows}"
    ) in demo.output


def snapshots_of_the_keys(demo: Demo) -> tuple[int, int, int, int, int]:
    """The snapshots before the keys change, once split, with rows of both keys, finer, and back."""
    table = demo.catalog.table("nyc.flights")
    first = snapshot_in_the_last_schema(demo)
    latest = table.history.snapshots()[-1].id
    return (first, first + 1, first + 2, first + 3, latest)


# `test_partition_keys.py` takes the same steps with some days, and looks at more moments.
@pytest.mark.deep
@pytest.mark.mission("SE16")
@pytest.mark.interop
def test_pypaimon_and_java_read_each_step_of_the_partition_keys(
    demo: Demo,
    java: JavaOracle,
    java_latest: Oracle,
    released_pypaimon: WritingOracle,
    rust: Oracle,
) -> None:
    readers = (released_pypaimon, java_latest)
    before, split, wide, _, back = snapshots_of_the_keys(demo)
    # `docs/how-to/changing-partition-keys.md`, "Who reads what": Rust refuses wide rows.
    due = assert_read_alike(demo, "flights", readers, SOME_DAYS, wide)
    assert due == assert_read_alike(demo, "flights", (*readers, rust), SOME_DAYS, wide + 1)
    for each in (before, split, back):
        assert due == assert_read_alike(demo, "flights", (*readers, java, rust), SOME_DAYS, each)


# Three days of twenty-four hours; all of them are read where the year is.
SOME_HOURS = (("dt", ">=", "2013-12-28"),)


def test_the_weather_went_from_days_to_hours_and_back(demo: Demo) -> None:
    table = demo.catalog.table(HOURLY_WEATHER)
    states = [table.at(snapshot=each.id) for each in table.history.snapshots()]
    assert [each.schema.id for each in states] == [0, 0, 0, 1, 1, 2]
    found = [(len(each.partitions()), len(each.files())) for each in states]
    # The third and the fifth are those between two lists of keys.
    assert (found[0], found[1], found[3], found[5]) == ((30, 30), (30, 715), (715, 715), (30, 715))
    assert "30 files split" in demo.output
    assert "715 hours; all 2,144 rows as before" in demo.output
    assert "30 days; all 2,144 rows as before" in demo.output


@pytest.mark.deep
@pytest.mark.mission("PT1", "PT2", "SE6")
@pytest.mark.interop
def test_others_read_the_weather_at_each_step_from_days_to_hours_and_back(
    demo: Demo,
    java: JavaOracle,
    java_latest: Oracle,
    released_pypaimon: WritingOracle,
    rust: Oracle,
) -> None:
    name, where = HOURLY_WEATHER.removeprefix("nyc."), () if demo.since == YEAR else SOME_HOURS
    readers = (released_pypaimon, java_latest, rust)
    by_day, split, _, by_hour, _, back = demo.catalog.table(HOURLY_WEATHER).history.snapshots()
    due = assert_read_alike(demo, name, readers, where, by_hour.id)
    for each in (by_day, split, back):
        assert due == assert_read_alike(demo, name, (*readers, java), where, each.id)


def assert_read_alike(
    demo: Demo,
    name: str,
    readers: Sequence[Oracle],
    where: Sequence[tuple[str, str, str]],
    snapshot: int | None = None,
) -> list[str]:
    """The rows that all read."""
    text = " AND ".join(f"{column} {operator} '{value}'" for column, operator, value in where)
    rows = demo.catalog.table(f"nyc.{name}").at(snapshot=snapshot).read(where=text or None)
    assert rows.num_rows > 0
    ours = as_texts(canonical_rows(rows))
    for reader in readers:
        theirs = reader.read(str(demo.warehouse), f"nyc.{name}", snapshot=snapshot, where=where)
        assert as_texts(theirs) == ours, reader.name
    return ours


@pytest.mark.parametrize("name", [*TABLES, "december_weather"])
def test_no_file_is_left_over(demo: Demo, name: str) -> None:
    assert_only_reachable_files(demo.catalog.table(f"nyc.{name}"))


@pytest.mark.deep
def test_a_second_demo_does_nothing(demo: Demo) -> None:
    def state() -> list[tuple[str, int]]:
        snapshots = {
            name: demo.catalog.table(f"nyc.{name}").history.latest_snapshot() for name in TABLES
        }
        return [(name, snapshot.id) for name, snapshot in snapshots.items() if snapshot]

    before, runs_before = state(), len(demo.runs())
    output = demo.again()

    assert "nothing was done" in output
    assert state() == before
    assert len(demo.runs()) == runs_before
