"""The verb `respec`: declared keys, backfills that split, and an asset whose partitions follow."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from lakewright.definitions import build_definitions
from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.orchestration.check_events import HEALTHY
from tests.pipelines.lake import Lake
from tests.support.tables.builders import compact, expire

CHECK = "schema_matches"
KEY = dg.AssetKey(["shop", "events"])

TABLE = """
    table: {name}
    columns:
      - {{name: dt, type: STRING NOT NULL}}
      - {{name: hh, type: INT}}
      - {{name: origin, type: STRING}}
      - {{name: id, type: BIGINT NOT NULL}}
    {partitions}
    source: {{python: "tests.pipelines.sources:rows"}}
    write: {{engine: local}}
"""
BY = {
    "nothing": "",
    "day": """partition_keys: [dt]
    partitions:
      daily: {column: dt, start: 2024-01-01, end: 2024-01-05}""",
    "month": """partition_keys: [dt]
    partitions:
      monthly: {column: dt, start: 2024-01-01, end: 2024-03-01}""",
    "hour": """partition_keys: [dt, hh]
    partitions:
      hourly: {columns: {dt: "%Y-%m-%d", hh: "%H"}, start: 2024-01-01, end: 2024-01-05}""",
    "origin": "partition_keys: [origin]",
    "listed origin": """partition_keys: [origin]
    partitions:
      static: {column: origin, values: [JFK, LGA, EWR]}""",
    "day and origin": """partition_keys: [dt, origin]
    partitions:
      daily: {column: dt, start: 2024-01-01, end: 2024-01-05}
      dynamic: {columns: [origin]}""",
    "day, hour and origin": "partition_keys: [dt, hh, origin]",
}


def declared(by: str, name: str = "shop.events", more: str = "") -> str:
    return TABLE.format(name=name, partitions=BY[by]) + more


def flights(day: str, *hours: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"dt": day, "hh": hour, "origin": origin, "id": first + hour}
        for hour in hours
        for origin in ("JFK", "LGA")
    ]


def materialized(lake: Lake) -> set[str]:
    return lake.instance.get_materialized_partitions(KEY)


def status(lake: Lake) -> set[str]:
    """The partitions that the UI shows as materialized."""
    node = lake.definitions.get_repository_def().asset_graph.get(KEY)
    with partition_loading_context(dynamic_partitions_store=lake.instance):
        cached = get_and_update_asset_status_cache_value(
            lake.instance, KEY, node.partitions_def, dynamic_partitions_loader=lake.instance
        )
        assert cached is not None
        subset = cached.deserialize_materialized_partition_subsets(node.partitions_def)
        return set(subset.get_partition_keys())


@pytest.fixture
def days(lake: Lake) -> Lake:
    """Two days, each a file of several hours and origins."""
    lake.declare(declared("day"))
    for day in ("2024-01-01", "2024-01-02"):
        lake.give(flights(day, 1, 2))
        lake.materialize(partitions=day)
    return lake


def test_an_edited_declaration_proposes_the_change_and_nothing_is_written_before(
    days: Lake,
) -> None:
    days.tick_of("schema_sensor")
    days.declare(declared("hour"))
    ticked = days.tick_of("schema_sensor")
    evaluation, proposed = ticked.asset_events
    told = "change the partition keys from (dt) to (dt, hh)"
    assert not evaluation.passed
    assert evaluation.severity is dg.AssetCheckSeverity.ERROR
    assert evaluation.description == (
        f"schema 0 has 1 difference from its declaration: {told}. Runs that write the table are "
        "refused. Run the job `upkeep` with `respec` for shop.events, or set "
        f"`partition_keys: [dt]` in `{days.folder}/tables/tables.yaml`"
    )
    assert f"| {told} | no |  |" in proposed.metadata["plan"].value
    line = "lakewright respec shop.events --keys dt,hh"
    assert f"{line} --dry-run\n{line}\n" in proposed.metadata["partition keys, command line"].value
    config = proposed.metadata["partition keys, run config"].value
    (asked,) = config.removeprefix("```json\n").removesuffix("\n```").splitlines()
    assert json.loads(asked) == {
        "ops": {
            "upkeep": {
                "config": {"verb": {"respec": {"tables": {"shop.events": {"keys": ["dt", "hh"]}}}}}
            }
        }
    }
    dg.validate_run_config(days.definitions.resolve_job_def("upkeep"), json.loads(asked))

    # The ledger beside it tells what was asked for.
    shop = days.folder / "warehouse" / "shop.db"
    before = sorted(shop.rglob("*"))
    days.give(flights("2024-01-03", 4))
    refused = days.materialize(partitions="2024-01-03-04:00", fails=True)
    assert f"differs by: {told}; run `lakewright respec shop" in refused.failure
    days.run("evolve_schema")
    assert sorted(shop.rglob("*")) == before
    assert before
    (action,) = Ledger(days.catalog).actions(table="shop.events", verb="evolve_schema")
    assert action.verdict is Verdict.NOTHING_TO_DO
    assert "(respec in the job upkeep) has to change the partition keys" in action.summary


@pytest.mark.mission("PT1")
def test_the_job_changes_the_keys_to_those_declared_and_the_partitions_follow(days: Lake) -> None:
    due = days.rows()
    days.declare(declared("hour"))
    dry = days.run("respec", dry_run=True)
    assert dry.outputs["lakewright/keys_after"] == "(dt, hh)"
    assert dry.outputs["lakewright/files_to_split"] == 2
    assert len(dry.outputs["to split"]) == 2
    # What becomes of each partition of the asset, and what the change will take.
    shown = [row.data for row in dry.outputs["partitions"].records]
    assert [(row["dagster_partition"], row["dagster_becomes"]) for row in shown] == [
        (f"2024-01-0{day}", f"2024-01-0{day}-01:00; 2024-01-0{day}-02:00") for day in (1, 2)
    ]
    assert dry.outputs["lakewright/estimated_seconds"] > 0
    assert dry.outputs["lakewright/estimated_bytes_read"] > 0
    assert dry.outputs["lakewright/estimated_by"].startswith("the measured default")
    assert days.table().schema.partition_keys == ("dt",)

    done = days.run("respec")
    assert days.table().schema.partition_keys == ("dt", "hh")
    assert days.rows() == due
    shown = done.observations[None]
    # What was planned is past, and what is counted is so.
    assert not [name for name in shown if "_to_" in name]
    assert (shown["lakewright/files_split"], shown["lakewright/files_restated"]) == (2, 4)
    before, after = (shown[f"lakewright/files_{at}"] for at in ("before", "after"))
    assert (before, after) == (2, len(days.table().at().files()))
    hours = {f"2024-01-0{day}-0{hour}:00" for day in (1, 2) for hour in (1, 2)}
    assert set(done.materializations) == hours
    assert done.materializations["2024-01-01-01:00"]["dagster/partition_row_count"] == 2
    # History stays, and only partitions of the new keys count.
    assert materialized(days) == hours | {"2024-01-01", "2024-01-02"}
    assert status(days) == hours
    again = days.run("respec")
    assert (again.materializations, again.observations) == ({}, {})
    assert "lakewright/files_after" not in again.outputs

    days.give(flights("2024-01-01", 2, first=50))
    days.materialize(partitions="2024-01-01-02:00")
    assert sum(row["id"] >= 50 for row in days.rows()) == 2
    assert len(days.rows()) == len(due)


def test_splits_alone_keep_the_keys_and_a_later_change_redoes_none(days: Lake) -> None:
    days.declare(declared("hour"))
    # A launchpad asks for no partition where the keys change.
    assert days.definitions.resolve_job_def("upkeep").partitions_def is None

    def split(**config: Any) -> Any:
        done = days.run("respec", split_only=True, **config)
        return done.observations

    first = split(partitions=["2024-01-01"])
    assert first[None]["lakewright/files_split"] == 1
    # The ledger: another partition has a file to split.
    (left,) = days.run("respec", dry_run=True).outputs["to split"].records
    assert (left.data["partition"], left.data["files"]) == ("dt=2024-01-02", 1)
    assert split(partitions=["2024-01-01"]) == {}
    assert days.table().schema.partition_keys == ("dt",)
    assert split()[None]["lakewright/files_split"] == 1
    # Writers go on by the present keys.
    assert days.table().schema.partition_keys == ("dt",)
    done = days.run("respec")
    assert done.observations[None]["lakewright/files_split"] == 0
    assert days.table().schema.partition_keys == ("dt", "hh")


def test_the_sensor_follows_a_change_that_another_process_made(days: Lake) -> None:
    days.tick_of("schema_sensor")
    days.table().upkeep.respec(["dt", "origin"])
    # The declaration is behind: its partitions stay as they are.
    behind = days.tick_of("schema_sensor")
    assert "from (dt, origin) to (dt)" in behind.asset_events[0].description
    assert status(days) == {"2024-01-01", "2024-01-02"}
    days.declare(declared("day and origin"))
    ticked = days.tick_of("schema_sensor")
    crossed = {f"2024-01-0{day}|{origin}" for day in (1, 2) for origin in ("JFK", "LGA")}
    assert status(days) == crossed
    assert len(ticked.asset_events) == 1 + 4
    keys = days.instance.get_dynamic_partitions("lakewright/shop.events/origin")
    assert sorted(keys) == ["JFK", "LGA"]
    assert not days.tick_of("schema_sensor").asset_events


def test_keys_of_more_columns_than_dagster_has_dimensions_are_registered(days: Lake) -> None:
    days.declare(declared("day, hour and origin"))
    days.run("respec")
    keys = days.instance.get_dynamic_partitions("lakewright/shop.events/dt_hh_origin")
    assert len(keys) == 8
    assert status(days) == set(keys)


DAILY = declared("day", "shop.daily", "    depends_on: [shop.events]\n")


@pytest.mark.deep
@pytest.mark.mission("PT1")
def test_an_asset_whose_definition_changes_is_read_materialized_and_backfilled_on(
    tmp_path: Path,
) -> None:
    """The definitions change in kind, also to none and from none, with a downstream asset."""
    folder, home = tmp_path / "lake", tmp_path / "dagster"
    folder.mkdir()
    home.mkdir()
    with ExitStack() as open_until_end:
        instance = open_until_end.enter_context(dg.DagsterInstance.local_temp(str(home)))
        lake = Lake(folder, instance)
        lake.declare(DAILY, "daily.yaml")
        lake.declare(declared("day"))
        every = [*flights("2024-01-01", 1, 2), *flights("2024-01-02", 1, 2)]
        lake.give(every)
        lake.materialize(partitions=("2024-01-01", "2024-01-02"))
        hours = {f"2024-01-0{day}-0{hour}:00" for day in (1, 2) for hour in (1, 2)}
        crossed = {f"2024-01-0{day}|{origin}" for day in (1, 2) for origin in ("JFK", "LGA")}
        steps: list[tuple[str, set[str], tuple[str, str] | None]] = [
            ("hour", hours, ("2024-01-01-01:00", "2024-01-01-02:00")),
            ("day and origin", crossed, ("2024-01-02|JFK", "2024-01-02|LGA")),
            ("nothing", set(), None),
            ("listed origin", {"JFK", "LGA"}, ("JFK", "LGA")),
            ("day", {"2024-01-01", "2024-01-02"}, ("2024-01-01", "2024-01-02")),
        ]
        history: set[str] = materialized(lake)
        for by, present, span in steps:
            lake.declare(declared(by))
            # The code location and the daemon start anew.
            again = dg.DagsterInstance.from_ref(instance.get_ref())
            lake.instance = open_until_end.enter_context(again)
            # The page of the asset opens before and after the change.
            if by != "nothing":
                assert status(lake) <= present
            done = lake.run("respec")
            history |= set(done.materializations) - {None}  # type: ignore[arg-type]
            assert materialized(lake) == history
            if by != "nothing":
                assert status(lake) == present
            lake.give(every)
            backfill = lake.materialize(partitions=span)
            assert len(lake.rows()) == len(every), by
            # Partitions of the new keys, materialized and counted once.
            history |= set(backfill.materializations) - {None}  # type: ignore[arg-type]
            if by != "nothing":
                assert status(lake) == present
            lake.give(flights("2024-01-01", 1), "shop.daily")
            lake.materialize("shop.daily", partitions="2024-01-01")
        lake.check_soundness()


def asked_if_missing(lake: Lake) -> set[str]:
    """What is asked for if Dagster materializes the asset wherever it thinks there is nothing."""
    node = lake.definitions.get_repository_def().asset_graph.get(KEY)

    @dg.asset(
        key=KEY,
        partitions_def=node.partitions_def,
        automation_condition=dg.AutomationCondition.missing(),
    )
    def eager() -> None: ...

    answer = dg.evaluate_automation_conditions(defs=[eager], instance=lake.instance)
    return set(answer.get_requested_partitions(KEY))


def test_partitions_with_rows_are_not_missing_after_the_change(days: Lake) -> None:
    days.declare(declared("hour"))
    days.run("respec")
    asked = asked_if_missing(days)
    assert len(asked) == 4 * 24 - 4
    assert not {"2024-01-01-01:00", "2024-01-02-02:00"} & asked


@pytest.mark.parametrize("since", ["appended", "compacted", "expired"])
def test_what_others_did_since_the_change_hides_no_partition_from_before(
    days: Lake, since: str
) -> None:
    """Others write to a partition of before and to a new one before the declaration changes."""
    days.tick_of("schema_sensor")
    days.table().upkeep.respec(["dt", "hh"])
    table = days.table()
    for hour in (1, 7):
        more = flights("2024-01-01", hour, first=90)
        table.write(pa.Table.from_pylist(more, table.arrow_schema))
    if since == "compacted":
        # No file of the partition is as old as the change.
        assert compact(table, full=True).snapshot is not None
    elif since == "expired":
        # No snapshot is, and the first that is left has the later partition, too.
        expire(table)
    days.declare(declared("hour"))
    days.tick_of("schema_sensor")
    hours = {f"2024-01-0{day}-0{hour}:00" for day in (1, 2) for hour in (1, 2)}
    assert status(days) == hours
    asked = asked_if_missing(days)
    assert not hours & asked
    # Its rows are another client's alone; the asset has not written it.
    assert "2024-01-01-07:00" in asked


def test_a_partition_without_rows_whose_key_was_another_columns_is_told(lake: Lake) -> None:
    lake.declare(declared("origin"))
    lake.give([{"dt": "JFK", "hh": 1, "origin": "LGA", "id": 1}])
    lake.materialize()
    other = BY["listed origin"].replace("origin", "dt")
    lake.declare(TABLE.format(name="shop.events", partitions=other))
    done = lake.run("respec")
    assert set(done.materializations) == {"JFK"}
    told = "1 partition without rows look materialized"
    assert any(told in event.message for event in lake.instance.all_logs(done.run_id))


def test_the_declaration_of_a_table_decides_over_the_keys_of_a_policy(days: Lake) -> None:
    policy = days.folder / "policy.yaml"
    policy.write_text("warehouse: {respec: {keys: [dt, hh]}}\n")
    days.definitions_are(
        build_definitions(
            [days.folder / "tables"], warehouse=days.warehouse, policies=[policy], adopted=["*"]
        )
    )
    assert [each.job_name for each in days.tick().run_requests] == []
    checked = days.check(HEALTHY).checks[HEALTHY]
    assert checked.passed
    (line,) = [
        each.data for each in checked.metadata["not due"].records if each.data["verb"] == "respec"
    ]
    assert line["why not"] == "declared"
    assert "its declaration says partition_keys (dt), and decides" in line["reason"]
