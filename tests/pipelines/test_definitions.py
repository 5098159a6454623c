"""Definitions: what declarations become."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakewright.definitions import build_definitions, defs
from lakewright.jobs.verbs import KEEPING_VERBS, REQUESTED_VERBS
from lakewright.platform.documents.variables import TABLES_VARIABLE
from lakewright.platform.orchestration.names import KEEPS_TAG, UPKEEP, TableNames, UpkeepNames
from tests.pipelines.describe import REVIEWED, describe, describe_demo
from tests.pipelines.lake import EVENTS, Lake


def test_the_demos_definitions_are_those_that_were_reviewed() -> None:
    assert describe_demo() == REVIEWED.read_text(encoding="utf-8"), (
        "when this is meant: python -m tests.pipelines.describe"
    )


def test_the_workspace_loads_what_the_environment_names(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.declare(EVENTS)
    monkeypatch.setenv(TABLES_VARIABLE, str(lake.folder / "tables"))
    loaded = defs()
    assert "asset shop/events in shop, 31 partitions, single run" in describe(loaded)
    # Steps with Spark share one process, also those of assets materialized without a job.
    assert loaded.executor is dg.in_process_executor


@pytest.mark.mission("PT18")
def test_time_and_list_partitions_cross(lake: Lake) -> None:
    lake.declare(
        """
        table: shop.sales
        columns: [{name: dt, type: DATE}, {name: country, type: STRING}, {name: id, type: INT}]
        partition_keys: [dt, country]
        partitions:
          monthly: {column: dt, start: 2024-01-01, end: 2024-03-01}
          static: {column: country, values: [de, "no"]}
        source: {python: "tests.pipelines.sources:all_rows"}
        """
    )
    graph = lake.definitions.get_repository_def().asset_graph
    partitions = graph.get(dg.AssetKey(["shop", "sales"])).partitions_def
    assert partitions is not None
    # Dagster joins them in the order of their names.
    assert sorted(partitions.get_partition_keys()) == [
        "de|2024-01",
        "de|2024-02",
        "no|2024-01",
        "no|2024-02",
    ]

    lake.give([{"dt": dt.date(2024, 2, 1), "country": "no", "id": 1}], "shop.sales")
    outcome = lake.materialize("shop.sales", partitions="no|2024-02")
    assert outcome.materializations["no|2024-02"]["dagster/partition_row_count"] == 1


@pytest.mark.mission("PT18")
def test_time_crosses_with_the_values_of_any_number_of_columns(lake: Lake) -> None:
    lake.declare(
        """
        table: shop.sales
        columns: [{name: dt, type: DATE}, {name: country, type: STRING}, {name: city, type: STRING},
                  {name: store, type: INT}, {name: id, type: INT}]
        partition_keys: [dt, country, city, store]
        partitions:
          daily: {column: dt, start: 2024-01-01, end: 2024-03-01}
          dynamic: {columns: [country, city, store]}
        source: {python: "tests.pipelines.sources:all_rows"}
        """
    )
    sold = {"dt": dt.date(2024, 2, 1), "country": "no", "city": "Ås/Ski", "store": 7, "id": 1}
    lake.give([sold], "shop.sales")
    place = "country=no/city=Ås%2FSki/store=7"
    shared = TableNames("shop.sales").dynamic_partitions
    lake.instance.add_dynamic_partitions(f"{shared}/country_city_store", [place])
    key = f"{place}|2024-02-01"

    outcome = lake.materialize("shop.sales", partitions=key)

    assert outcome.materializations[key]["dagster/partition_row_count"] == 1
    assert lake.rows("shop.sales") == [sold]


def test_a_table_that_others_write_gets_upkeep_and_nothing_that_writes(lake: Lake) -> None:
    lake.declare("table: shop.events\n")
    said = describe(lake.definitions)
    assert "job upkeep " in said
    assert "ingest" not in said
    graph = lake.definitions.get_repository_def().asset_graph
    assert not graph.get(dg.AssetKey(["shop", "events"])).is_materializable


def test_a_declared_table_brings_its_asset_and_no_job_of_its_own(lake: Lake) -> None:
    lake.declare(EVENTS)
    shared = _jobs(lake)

    count = 100
    for number in range(count):
        lake.declare(EVENTS.replace("shop.events", f"shop.t{number}"), f"t{number}.yaml")
    lake.declare("table: shop.written_by_others\n")
    many = lake.definitions.get_repository_def()

    assert _jobs(lake) == shared
    assert shared == {
        "backfill",
        "replay_rejects",
        "sql",
        "undo",
        "upkeep",
        "validate_schema",
    }
    assert [each.name for each in many.schedule_defs] == ["validate_schema_schedule"]
    assert {each.name for each in many.sensor_defs} == {
        "declarations_sensor",
        "schema_sensor",
        "upkeep_sensor",
    }


def test_definitions_are_made_without_warnings_of_dagster(lake: Lake) -> None:
    lake.declare(EVENTS + "    schedule: '0 5 * * *'\n    freshness: 36h\n")
    (lake.folder / "policy.yaml").write_text("warehouse: {mode: live}\n")
    with warnings.catch_warnings():
        for each in (dg.BetaWarning, dg.PreviewWarning, dg.SupersessionWarning):
            warnings.simplefilter("error", each)
        built = build_definitions(
            [lake.folder / "tables"],
            warehouse=lake.warehouse,
            policies=[lake.folder / "policy.yaml"],
            adopted=["*"],
            refresh=lambda _: None,
        )
        assert built.get_repository_def().get_all_jobs()


def _jobs(lake: Lake) -> set[str]:
    jobs = lake.definitions.get_repository_def().get_all_jobs()
    return {each.name for each in jobs if not each.name.startswith("__")}


def test_writers_of_a_table_share_a_pool_and_upkeep_waits_in_none(lake: Lake) -> None:
    """A writer that queued behind a compaction could not take its part away from it."""
    lake.declare(EVENTS)
    repository = lake.definitions.get_repository_def()
    pools = {
        # A check only reads, and waits in no pool.
        job.name: {node.definition.pool for node in job.graph.nodes} - {None}
        for job in repository.get_all_jobs()
    }
    assert pools["upkeep"] == pools["validate_schema"] == set()
    assert [name for name, pool in pools.items() if pool == {"lakewright/shop/events/write"}]


def test_a_launchpad_asks_for_the_tables_of_a_backfill(lake: Lake) -> None:
    lake.declare(EVENTS)
    job = lake.definitions.resolve_job_def("backfill")
    assert dg.validate_run_config(job, given("backfill", {"tables": {"shop.events": {}}}))
    with pytest.raises(dg.DagsterInvalidConfigError, match='Missing required config entry "tab'):
        dg.validate_run_config(job, given("backfill", {}))


def test_one_job_carries_out_every_verb_and_asks_for_its_name_and_tables(lake: Lake) -> None:
    lake.declare(EVENTS)
    job = lake.definitions.resolve_job_def(UPKEEP)
    names = UpkeepNames()
    for verb in (*(each.name for each in (*KEEPING_VERBS, *REQUESTED_VERBS)), "evolve_schema"):
        assert dg.validate_run_config(job, names.run_config(verb, {"tables": {"shop.events": {}}}))
        with pytest.raises(dg.DagsterInvalidConfigError, match='required config entry "tables"'):
            dg.validate_run_config(job, names.run_config(verb, {}))
    with pytest.raises(dg.DagsterInvalidConfigError, match="rescale"):
        dg.validate_run_config(job, names.run_config("reskale", {}))
    # What the launchpad opens with, which changes nothing.
    shown = job.run_config
    assert shown == names.run_config("compact", {"tables": {}, "dry_run": True})
    assert "the run names no table" in lake.run_job(UPKEEP, dict(shown or {}), fails=True).failure


def given(job: str, config: Mapping[str, Any]) -> dict[str, Any]:
    return {"ops": {job: {"config": config}}}


def test_the_instance_lets_one_step_at_a_time_into_a_pool() -> None:
    import yaml

    root = Path(__file__).parents[2]
    settings = yaml.safe_load((root / "dagster_home" / "dagster.yaml").read_text())
    (of_verbs,) = settings["concurrency"]["runs"]["tag_concurrency_limits"]
    assert (of_verbs["key"], of_verbs["limit"]) == (KEEPS_TAG, 1)
    # With granularity `run`, runs started elsewhere are not held back.
    assert settings["concurrency"]["pools"] == {"granularity": "op", "default_limit": 1}
    assert settings["run_retries"]["retry_on_asset_or_op_failure"] is False
    assert settings["telemetry"]["enabled"] is False
