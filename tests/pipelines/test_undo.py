"""The job `undo`: what a run of another job did is taken back."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg

from lakewright.platform.orchestration.names import TableNames
from lakewright.storage import Table
from tests.pipelines.lake import EVENTS, Lake, Outcome, events

STANDARD = {"dagster/column_schema", "dagster/table_name", "dagster/uri", "dagster/storage_kind"}


def test_a_run_is_undone_by_its_id_and_a_second_undo_says_that_it_was(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    lake.write_small_files("2024-01-01", 3)
    assert len(lake.table().at().files()) == 4
    compacted = lake.run("compact", full=True).run_id
    assert len(lake.table().at().files()) == 1

    _undo(lake, compacted, dry_run=True)

    assert len(lake.table().at().files()) == 1
    undone = _undo(lake, compacted[:8])
    assert undone.observations[None]["lakewright/undone_run"] == compacted
    assert len(lake.table().at().files()) == 4
    again = _undo(lake, compacted, fails=True)
    assert "taken back already" in again.failure


def test_an_ingest_that_upkeep_compacted_is_undone_and_its_empty_partition_is_missing(
    lake: Lake,
) -> None:
    lake.declare(EVENTS)
    runs = []
    for day in ("2024-01-01", "2024-01-02"):
        lake.give(events(day, 0, 3))
        runs.append(lake.materialize(partitions=day).run_id)
    lake.give([*events("2024-01-01", 0, 3), *events("2024-01-02", 0, 3)])
    runs.append(lake.materialize(partitions=("2024-01-01", "2024-01-02")).run_id)
    # Others write to one of the days, and upkeep rewrites the files of both.
    lake.write_small_files("2024-01-01", 3)
    others = [each for each in lake.rows() if each["id"] >= 1000]
    compacted = lake.run("compact", full=True).run_id
    key = TableNames("shop.events").asset_key
    assert len(lake.instance.get_materialized_partitions(key)) == 2

    planned = _undo(lake, runs[2], dry_run=True)
    (told,) = [each.data["result"] for each in planned.outputs["parts"].records]
    assert f"in which upkeep rewrote these files (run {compacted})" in told
    undone = _undo(lake, runs[2])
    assert undone.observations[None]["lakewright/undone_run"] == runs[2]
    for run in (runs[1], runs[0]):
        undone = _undo(lake, run)
    assert lake.rows() == others
    assert undone.observations[None].get("lakewright/emptied_partitions") is None
    assert lake.instance.get_materialized_partitions(key) == {"2024-01-01"}
    # Their events stay in the history of the asset, and the partition can be written again.
    assert len(lake.instance.fetch_materializations(key, 99).records) == 4
    lake.materialize(partitions="2024-01-02")
    assert lake.instance.get_materialized_partitions(key) == {"2024-01-01", "2024-01-02"}


def test_an_undo_of_a_table_that_the_run_left_alone_names_those_it_worked_on(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    lake.write_small_files("2024-01-01", 3)
    compacted = lake.run("compact", full=True).run_id
    lake.catalog.create_table("shop.other", {"k": "INT"})

    refused = _undo(lake, compacted, tables=["shop.other"], fails=True)

    said = f"run {compacted} did nothing in shop.other that can be undone; it worked on shop.events"
    assert said in refused.failure


def test_a_run_that_still_works_is_not_undone(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    lake.write_small_files("2024-01-01", 3)
    working = lake.instance.create_run_for_job(
        lake.definitions.resolve_job_def("upkeep"),
        run_config=TableNames("shop.events").run_config("compact", {}),
        status=dg.DagsterRunStatus.STARTED,
    )
    catalog = lake.catalog
    files = replace(catalog.table("shop.events").table_files, run=f"dagster-{working.run_id}")
    Table(files).upkeep.compact(full=True)

    refused = _undo(lake, working.run_id, fails=True)

    assert f"run {working.run_id} is in progress (started)" in refused.failure
    assert len(lake.table().at().files()) == 1


def test_the_sensor_leaves_alone_what_was_undone_until_rows_come(lake: Lake) -> None:
    # Its partitions are found in the rows.
    days = "    partitions:\n      daily: {column: dt, start: 2024-01-01, end: 2024-02-01}\n"
    lake.declare(EVENTS.replace(days, ""))
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize()
    lake.write_small_files("2024-01-01", 3)
    (request,) = lake.tick().run_requests
    compacted = lake.request(request)
    undone = _undo(lake, compacted.run_id)
    assert len(lake.table().at().files()) == 4
    lake.forget_what_was_read()

    ticked = lake.tick()

    assert not ticked.run_requests
    (healthy,) = ticked.asset_events
    assert healthy.passed
    said = "**Upkeep**: nothing is due; compact was taken back and is skipped."
    assert said in healthy.description.splitlines()
    rows = [each.data for each in healthy.metadata["not due"].records]
    (told,) = [each for each in rows if each["verb"] == "compact"]
    assert told["why not"] == "undone"
    assert f"run dagster-{compacted.run_id}" in told["reason"]
    assert f"{undone.run_id}-undo took it back" in told["reason"]
    lake.write_small_files("2024-01-01", 1)
    (again,) = lake.tick().run_requests
    assert again.tags["lakewright/verb"] == "compact"
    _check_standard_metadata(lake)


def _check_standard_metadata(lake: Lake) -> None:
    """Each event on the asset tells of its table what Dagster's catalog shows."""
    key = TableNames("shop.events").asset_key
    found = [
        *(
            each.asset_materialization
            for each in lake.instance.fetch_materializations(key, 99).records
        ),
        *(each.asset_observation for each in lake.instance.fetch_observations(key, 99).records),
    ]
    assert len(found) >= 4
    for event in found:
        assert event is not None
        counted = "dagster/row_count" if event.partition is None else "dagster/partition_row_count"
        assert STANDARD | {counted} <= set(event.metadata), event


def _undo(lake: Lake, run: str, *, fails: bool = False, **config: object) -> Outcome:
    return lake.run_job("undo", {"ops": {"undo": {"config": {"run": run, **config}}}}, fails=fails)
