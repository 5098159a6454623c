"""What a declaration says of a table's life in Dagster: labels, schedule, automation, freshness."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from lakewright.platform.documents.marked_yaml import read_marked
from lakewright.platform.tables.declaration_checks import NEWEST_PARTITION
from lakewright.storage.env import SystemEnv
from tests.pipelines.lake import EVENTS, Lake, events

ROOT = Path(__file__).resolve().parents[2]

EVENTS_KEY = dg.AssetKey(["shop", "events"])
STANDARD = {
    "dagster/table_name",
    "dagster/uri",
    "dagster/storage_kind",
    "dagster/column_schema",
    "dagster/row_count",
}
LIFE = """
    description: "Every *event*, by day."
    group: sales
    owners: ["team:shop", ann@example.com]
    kinds: [events]
    tags: {tier: gold}
    automation: {on_cron: "0 6 * * *", timezone: Europe/Berlin}
    freshness: {within: 36h, warn_after: 30h}
    backfill: {batches_of: 10}
"""
TOTALS = """
    tables:
      - table: shop.events
      - table: shop.totals
        columns: [{name: dt, type: STRING}, {name: total, type: DOUBLE}]
        source: {python: "tests.pipelines.sources:totals"}
        depends_on: [shop.events]
        automation: eager
"""


def scheduled(lake: Lake, moment: str, name: str = "shop__events") -> Any:
    """What the ingest schedule asks for at a moment."""
    repository = lake.definitions.get_repository_def()
    schedule = repository.get_schedule_def(f"ingest_schedule__{name}")
    at = dt.datetime.fromisoformat(moment).astimezone(dt.UTC)
    context = dg.build_schedule_context(
        instance=lake.instance, scheduled_execution_time=at, repository_def=repository
    )
    with context:
        return schedule.evaluate_tick(context)


def asked(lake: Lake, moment: str) -> list[str | tuple[str, str] | None]:
    """The partitions of the runs that the schedule asks for."""
    found: list[str | tuple[str, str] | None] = []
    for request in scheduled(lake, moment).run_requests:
        tags = request.tags
        if "dagster/asset_partition_range_start" in tags:
            ends = [tags[f"dagster/asset_partition_range_{end}"] for end in ("start", "end")]
            found.append((ends[0], ends[1]))
        else:
            found.append(request.partition_key)
    return found


def test_labels_automation_freshness_and_backfill_stand_on_the_asset(lake: Lake) -> None:
    lake.declare(EVENTS + LIFE)
    spec = lake.definitions.get_repository_def().asset_graph.get(EVENTS_KEY)
    assert spec.description == "Every *event*, by day."
    assert spec.group_name == "sales"
    assert sorted(spec.owners) == ["ann@example.com", "team:shop"]
    assert spec.kinds == {"paimon", "arrow", "events"}
    assert spec.tags["tier"] == "gold"
    assert spec.automation_condition == dg.AutomationCondition.on_cron("0 6 * * *", "Europe/Berlin")
    assert spec.freshness_policy == dg.FreshnessPolicy.time_window(
        dt.timedelta(hours=36), dt.timedelta(hours=30)
    )
    assert spec.backfill_policy == dg.BackfillPolicy.multi_run(10)
    sensor = lake.definitions.get_repository_def().get_sensor_def("automation_sensor")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING


def test_a_deadline_counts_every_write_since_the_one_before(lake: Lake) -> None:
    lake.declare(EVENTS + '    freshness: {by: "0 9 * * *", timezone: Europe/Berlin}\n')
    spec = lake.definitions.get_repository_def().asset_graph.get(EVENTS_KEY)
    assert spec.freshness_policy == dg.FreshnessPolicy.cron(
        "0 9 * * *", dt.timedelta(days=1), "Europe/Berlin"
    )


def test_a_tick_writes_the_day_that_ended_before_it_in_the_zone_of_the_schedule(lake: Lake) -> None:
    lake.declare(EVENTS + '    schedule: {cron: "0 5 * * *", timezone: Europe/Berlin}\n')
    assert asked(lake, "2024-01-10T05:00+01:00") == ["2024-01-09"]
    # The days of the table end in UTC.
    assert asked(lake, "2024-01-10T00:30+01:00") == ["2024-01-08"]
    before = scheduled(lake, "2024-01-01T05:00+01:00")
    assert "no partition that ended" in before.skip_message
    # The declared partitions end with January.
    assert asked(lake, "2024-02-01T05:00+01:00") == ["2024-01-31"]
    assert scheduled(lake, "2024-02-02T05:00+01:00").run_requests == []
    schedule = lake.definitions.get_repository_def().get_schedule_def(
        "ingest_schedule__shop__events"
    )
    assert schedule.execution_timezone == "Europe/Berlin"
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


@pytest.mark.parametrize(
    ("backfill", "expected"),
    [
        ("single_run", [("2024-01-07", "2024-01-09")]),
        ("multi_run", ["2024-01-07", "2024-01-08", "2024-01-09"]),
        ("{batches_of: 2}", [("2024-01-07", "2024-01-08"), "2024-01-09"]),
    ],
)
def test_a_tick_may_write_several_days_in_runs_as_a_backfill_has_them(
    lake: Lake, backfill: str, expected: list[object]
) -> None:
    lake.declare(
        f"{EVENTS}    schedule: {{cron: '0 5 * * *', partitions: 3}}\n    backfill: {backfill}\n"
    )
    assert asked(lake, "2024-01-10T05:00Z") == expected


def test_what_a_schedule_asks_for_can_be_run(lake: Lake) -> None:
    lake.declare(EVENTS + "    schedule: {cron: '0 5 * * *', partitions: 2}\n")
    lake.give(events("2024-01-08", 0, 1) + events("2024-01-09", 1, 2) + events("2024-01-10", 2, 3))
    (request,) = scheduled(lake, "2024-01-10T05:00Z").run_requests
    lake.materialize(tags=request.tags)
    assert {row["dt"] for row in lake.rows()} == {"2024-01-08", "2024-01-09"}


def test_a_tick_writes_a_table_without_partitions_by_time_whole(lake: Lake) -> None:
    lake.declare(
        EVENTS.replace(
            "daily: {column: dt, start: 2024-01-01, end: 2024-02-01}", "dynamic: {columns: [dt]}"
        )
        + "    schedule: '0 5 * * *'\n"
    )
    assert asked(lake, "2024-01-10T05:00Z") == [None]


# Dagster's own tags for the dimensions of a partition.
@pytest.mark.filterwarnings("ignore:Non-compliant tag keys")
def test_a_tick_writes_every_value_of_a_crossed_dimension(lake: Lake) -> None:
    crossed = EVENTS.replace("partition_keys: [dt]", "partition_keys: [dt, amount]").replace(
        "end: 2024-02-01}", "end: 2024-02-01}\n      static: {column: amount, values: [1.5, 2.5]}"
    )
    lake.declare(crossed + "    schedule: '0 5 * * *'\n")
    assert asked(lake, "2024-01-10T05:00Z") == ["1.5|2024-01-09", "2.5|2024-01-09"]


def test_the_newest_partition_is_asked_for_at_its_deadline(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.declare(EVENTS + "    freshness: {by: '0 9 * * *', newest_partition: true}\n")
    at = dt.datetime(2024, 1, 10, 8, 59, tzinfo=dt.UTC)
    monkeypatch.setattr(SystemEnv, "now_ms", lambda _: int(at.timestamp() * 1000))
    lake.give(events("2024-01-08", 0, 2))
    written = lake.materialize(partitions="2024-01-08")
    # Before the deadline of the day, that of the day before counts.
    assert written.checks[NEWEST_PARTITION].passed
    assert "2024-01-08 has 2 rows; it was expected by 2024-01-09 09:00" in (
        written.checks[NEWEST_PARTITION].description
    )
    at += dt.timedelta(hours=1)
    missed = lake.run_checks("check_freshness").checks[NEWEST_PARTITION]
    assert not missed.passed
    assert "2024-01-09 has no rows" in missed.description
    lake.give(events("2024-01-09", 2, 3))
    assert lake.materialize(partitions="2024-01-09").checks[NEWEST_PARTITION].passed
    schedule = lake.definitions.get_repository_def().get_schedule_def("check_freshness_schedule")
    assert schedule.cron_schedule == "0 9 * * *"


def test_one_job_asks_many_tables_for_their_newest_partitions(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines = {"events": "'0 9 * * *'", "sales": "'0 9 * * *'", "late": "'30 10 * * *'"}
    for name, by in deadlines.items():
        declared = EVENTS.replace("shop.events", f"shop.{name}")
        fresh = f"    freshness: {{by: {by}, newest_partition: true}}\n"
        lake.declare(declared + fresh, f"{name}.yaml")
    lake.declare(
        EVENTS.replace("shop.events", "shop.berlin")
        + "    freshness: {by: '0 9 * * *', timezone: Europe/Berlin, newest_partition: true}\n",
        "berlin.yaml",
    )
    repository = lake.definitions.get_repository_def()
    jobs = {each for each in repository.job_names if each.startswith("check_freshness")}
    assert jobs == {"check_freshness"}
    schedule = repository.get_schedule_def("check_freshness_schedule")
    assert schedule.cron_schedule == ["0 9 * * *", "30 10 * * *"]
    zone = repository.get_schedule_def("check_freshness_schedule__Europe_Berlin")
    assert zone.execution_timezone == "Europe/Berlin"

    at = dt.datetime(2024, 1, 10, 9, tzinfo=dt.UTC)
    monkeypatch.setattr(SystemEnv, "now_ms", lambda _: int(at.timestamp() * 1000))
    with dg.build_schedule_context(lake.instance, scheduled_execution_time=at) as context:
        (request,) = schedule.evaluate_tick(context).run_requests
    assert request.tags["lakewright/table"] == "shop.events, shop.sales"

    assert {each.asset_key.to_user_string() for each in request.asset_check_keys} == {
        "shop/events",
        "shop/sales",
    }

    # A table that cannot be read hides no other.
    lake.give(events("2024-01-09", 0, 1))
    lake.materialize(partitions="2024-01-09")
    lake.give(events("2024-01-09", 0, 1), "shop.sales")
    lake.materialize("shop.sales", partitions="2024-01-09")
    broken = Path(lake.table("shop.sales").table_files.paths.snapshot(1))
    was = broken.read_bytes()
    broken.write_bytes(b"{")
    asked = lake.run_checks("check_freshness", "shop.sales", "shop.events", fails=True)
    broken.write_bytes(was)
    assert "CorruptionError" in asked.failure
    assert asked.checks[NEWEST_PARTITION].asset_key == dg.AssetKey(["shop", "events"])
    assert asked.checks[NEWEST_PARTITION].passed


def test_every_event_has_the_standard_keys_of_dagster(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.declare("table: shop.theirs\n", "theirs.yaml")
    lake.give(events("2024-01-01", 0, 2))
    written = lake.materialize(partitions="2024-01-01").materializations["2024-01-01"]
    assert set(written) >= {*STANDARD, "dagster/partition_row_count"}

    lake.write_small_files("2024-01-01", 4)
    compacted = lake.run("compact").observations
    assert set(compacted[None]) >= STANDARD
    assert "dagster/partition_row_count" in compacted["2024-01-01"]

    theirs = lake.catalog.create_table("shop.theirs", {"id": "INT"})
    theirs.write(pa.Table.from_pylist([{"id": 1}], theirs.arrow_schema))
    lake.tick()
    event = lake.instance.get_latest_materialization_event(dg.AssetKey(["shop", "theirs"]))
    assert event is not None
    assert event.asset_materialization is not None
    assert set(event.asset_materialization.metadata) >= STANDARD


def test_the_page_of_the_documents_loads_and_says_what_the_assets_have(lake: Lake) -> None:
    page = (ROOT / "docs" / "how-to" / "table-life.md").read_text("utf-8")
    (example,) = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    lake.declare(example)
    repository = lake.definitions.get_repository_def()
    graph = repository.asset_graph
    orders, sales = (graph.get(dg.AssetKey(["shop", name])) for name in ("orders", "daily_sales"))
    assert list(orders.owners) == ["team:shop", "ann@example.com"]
    assert orders.freshness_policy is not None
    assert orders.backfill_policy == dg.BackfillPolicy.multi_run(30)
    assert "dagster/column_lineage" in sales.metadata
    assert sales.automation_condition is not None
    for name in ("ingest_schedule__shop__orders", "check_freshness_schedule__Europe_Berlin"):
        repository.get_schedule_def(name)
    # What `dagster definitions validate` does after loading.
    dg.Definitions.validate_loadable(lake.definitions)
    # Every key of a declaration that is about a table's life stands in the example.
    given = {key for each in read_marked(example) for key in each.value}
    life = {"description", "owners", "kinds", "tags", "group", "schedule", "automation"}
    assert given >= life | {"freshness", "backfill", "maintenance"}


def test_a_derived_table_is_asked_for_once_others_wrote_its_upstream(lake: Lake) -> None:
    lake.declare(TOTALS)
    totals = dg.AssetKey(["shop", "totals"])

    def requested(cursor: Any = None) -> Any:
        return dg.evaluate_automation_conditions(
            defs=lake.definitions, instance=lake.instance, cursor=cursor
        )

    first = requested()
    assert first.total_requested == 0
    # As the upkeep sensor reports a commit of another client.
    lake.instance.report_runless_asset_event(dg.AssetMaterialization(EVENTS_KEY))
    second = requested(first.cursor)
    assert second.get_num_requested(totals) == 1
    assert requested(second.cursor).total_requested == 0


HOURS = """
    table: shop.{name}
    columns: [{{name: k, type: TIMESTAMP(0) NOT NULL}}, {{name: v, type: INT}}]
    partition_keys: [k]
    partitions: {{hourly: {{column: k, start: 2026-05-12-00:00{end}}}}}
    source: {{python: "tests.pipelines.sources:rows"}}
"""


def hour(number: int) -> str:
    return f"2026-05-12-{number:02}:00"


class Hours:
    """Tables by the hour whose automation Dagster evaluates at chosen times."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.cursor: Any = None
        lake.declare(HOURS.format(name="above", end=", end: 2026-05-12-06:00"), "above.yaml")
        for name, rest in {
            "eager": "    depends_on: [shop.above]\n    automation: eager\n",
            "on_missing": "    depends_on: [shop.above]\n    automation: on_missing\n",
            "alone": "    automation: on_missing\n",
        }.items():
            lake.declare(HOURS.format(name=name, end="") + rest, f"{name}.yaml")

    def written(self, *numbers: int) -> None:
        key = dg.AssetKey(["shop", "above"])
        for number in numbers:
            self.lake.instance.report_runless_asset_event(
                dg.AssetMaterialization(key, partition=hour(number))
            )

    def asked(self, at_hour: int, minute: int = 5) -> dict[str, list[str]]:
        found = dg.evaluate_automation_conditions(
            defs=self.lake.definitions,
            instance=self.lake.instance,
            cursor=self.cursor,
            evaluation_time=dt.datetime(2026, 5, 12, at_hour, minute, tzinfo=dt.UTC),
        )
        self.cursor = found.cursor
        keys = {name: dg.AssetKey(["shop", name]) for name in ("eager", "on_missing", "alone")}
        return {
            name: sorted(found.get_requested_partitions(key))
            for name, key in keys.items()
            if found.get_num_requested(key)
        }


def test_a_partition_that_its_upstream_does_not_have_is_not_asked_for(lake: Lake) -> None:
    hours = Hours(lake)
    assert hours.asked(5) == {}
    hours.written(4, 5)
    assert hours.asked(6) == {"eager": [hour(5)], "on_missing": [hour(5)], "alone": [hour(5)]}
    # The upstream has ended.
    assert hours.asked(7) == {"alone": [hour(6)]}


def test_on_missing_asks_for_a_partition_whose_upstream_comes_late(lake: Lake) -> None:
    hours = Hours(lake)
    assert hours.asked(1) == {}
    assert hours.asked(4) == {"alone": [hour(1), hour(2), hour(3)]}
    hours.written(2)
    assert hours.asked(4, 6) == {"on_missing": [hour(2)]}
    hours.written(1, 3)
    assert hours.asked(4, 7) == {"eager": [hour(3)], "on_missing": [hour(1), hour(3)]}
    # Missing since before its automation was first looked at.
    hours.written(0)
    assert hours.asked(4, 8) == {}
