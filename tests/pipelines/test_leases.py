"""Leases between runs: writers do not wait for maintenance, nor for writers of other partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from lakewright.definitions import build_definitions
from lakewright.platform.orchestration.names import UPKEEP, TableNames
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.storage import Catalog, Lease, LeaseKind
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease, whole_table
from tests.pipelines.lake import EVENTS, Lake, Outcome, events, ingest_job
from tests.support.stores.watched_files import Call, Meanwhile, WatchedFiles

FIRST, SECOND = "2024-01-01", "2024-01-02"
INTERRUPTIONS: list[tuple[Callable[[Call], bool], Callable[[], object]]] = []


class InterruptedWarehouse(WarehouseResource):
    """A warehouse in which somebody does something while a run is in the middle of its work."""

    def catalog(self) -> Catalog:
        opened = super().catalog()
        when, meanwhile = INTERRUPTIONS[-1]
        return replace(opened, fs=WatchedFiles(opened.fs, before=Meanwhile(when, meanwhile)))


def new_file_of(day: str) -> Callable[[Call], bool]:
    return lambda call: call.name == "open_output" and f"dt={day}/bucket-" in call.path


def run_interrupted(
    lake: Lake,
    job: str,
    when: Callable[[Call], bool],
    meanwhile: Callable[[], object],
    config: dict[str, Any] | None = None,
    partition: str | None = None,
) -> Outcome:
    """Run a job, and something else at a moment of it."""
    happened: list[None] = []

    def once() -> None:
        if not happened:
            happened.append(None)
            meanwhile()

    INTERRUPTIONS.append((when, once))
    warehouse = InterruptedWarehouse(uri=lake.warehouse.uri)
    definitions = build_definitions([lake.folder / "tables"], warehouse=warehouse)
    run_config = {"ops": {job: {"config": config}}} if config else {}
    if job in PROCEDURES:
        run_config = TableNames("shop.events").run_config(job, config or {})
        job = UPKEEP
    ingest = ingest_job(definitions, TableNames("shop.events").asset_key)
    definition = ingest if job == "ingest" else definitions.resolve_job_def(job)
    result = definition.execute_in_process(
        instance=lake.instance,
        run_config=run_config,
        partition_key=partition,
        raise_on_error=False,
    )
    assert happened
    return Outcome(result)


@pytest.fixture
def two_days(lake: Lake) -> Lake:
    """Two days of three small files each."""
    lake.declare(EVENTS)
    lake.give(events(FIRST, 0, 3) + events(SECOND, 3, 5))
    lake.materialize(partitions=(FIRST, SECOND))
    for day in (FIRST, SECOND):
        lake.write_small_files(day, 2)
    return lake


@pytest.mark.sampled(1)
@pytest.mark.parametrize("overwritten", [FIRST, SECOND])
def test_an_ingest_takes_its_day_away_from_a_running_compaction_which_publishes_the_rest(
    two_days: Lake, overwritten: str
) -> None:
    lake, ingested = two_days, []
    other = SECOND if overwritten == FIRST else FIRST

    def ingest() -> None:
        lake.give(events(overwritten, 70, 72))
        ingested.append(lake.materialize(partitions=overwritten))

    outcome = run_interrupted(lake, "compact", new_file_of(FIRST), ingest)

    (writer,) = ingested
    assert writer.success, writer.failure
    assert outcome.success, outcome.failure
    assert outcome.observations[None]["lakewright/dropped_tasks"] == 1
    assert outcome.observations[None]["lakewright/files_before"] == 3
    files = {each.spec["dt"]: each.file_count for each in lake.table().at().partitions()}
    assert files == {overwritten: 1, other: 1}
    assert [row["id"] for row in lake.rows() if row["dt"] == overwritten] == [70, 71]
    assert not lake.table().upkeep.leases()


def test_two_days_are_written_at_once_each_under_its_own_lease(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events(FIRST, 0, 3) + events(SECOND, 3, 5))
    seen: list[tuple[Lease, ...]] = []

    def second() -> None:
        beside = run_interrupted(
            lake,
            "ingest",
            new_file_of(SECOND),
            lambda: seen.append(lake.table().upkeep.leases()),
            partition=SECOND,
        )
        assert beside.success, beside.failure

    outcome = run_interrupted(lake, "ingest", new_file_of(FIRST), second, partition=FIRST)

    assert outcome.success, outcome.failure
    assert sorted(str(each.scope) for each in seen[0]) == [f"dt={FIRST}", f"dt={SECOND}"]
    assert {each.kind.value for each in seen[0]} == {"overwrite"}
    assert all(not each.given_up_to for each in seen[0])
    assert lake.rows() == events(FIRST, 0, 3) + events(SECOND, 3, 5)
    assert not lake.table().upkeep.leases()


def test_a_writer_that_compacts_leaves_that_to_a_compaction_already_at_it(lake: Lake) -> None:
    lake.declare(EVENTS.replace("write: {engine: local}", "write: {engine: local, mode: append}"))
    lake.give(events(FIRST, 0, 1))
    for _ in range(3):
        lake.materialize(partitions=FIRST)
    written: list[Outcome] = []

    outcome = run_interrupted(
        lake,
        "compact",
        new_file_of(FIRST),
        lambda: written.append(lake.materialize(partitions=FIRST, config={"compact": True})),
    )

    assert outcome.success, outcome.failure
    assert outcome.observations[None]["lakewright/dropped_tasks"] == 0
    assert written[0].success
    told = written[0].materializations[FIRST]
    assert "to compact until" in told["lakewright/compaction_failure"]
    assert lake.table().at().partitions()[0].file_count == 2


@pytest.mark.deep
def test_an_expiry_whose_lease_was_broken_ends_between_two_steps(lake: Lake) -> None:
    lake.declare(
        EVENTS.replace(
            "    partition_keys: [dt]\n",
            "    partition_keys: [dt]\n    options: {snapshot.expire.limit: 2}\n",
        )
        + "      snapshots: {retain_min: 1, time_retained: 0s}\n"
    )
    lake.give(events(FIRST, 0, 3))
    for _ in range(6):
        lake.materialize(partitions=FIRST)
    seen: list[Lease] = []

    def break_it() -> None:
        seen.extend(lake.table().upkeep.leases())
        lake.table().upkeep.break_lease(seen[0].id)

    outcome = run_interrupted(
        lake,
        "expire_snapshots",
        lambda call: call.name == "delete" and "/snapshot/snapshot-" in str(call.path),
        break_it,
    )

    (held,) = seen
    assert (held.kind.value, str(held.scope)) == ("expire", "all of the table")
    assert not outcome.success
    assert "a person broke it" in outcome.failure
    assert [each.id for each in lake.table().history.snapshots()] == [3, 4, 5, 6]
    (told,) = lake.instance.fetch_observations(dg.AssetKey(["shop", "events"]), limit=9).records
    assert told.asset_observation is not None
    assert told.asset_observation.metadata["lakewright/snapshots_expired"].value == 2


@pytest.mark.parametrize("verb", ["compact", "expire_snapshots"])
def test_upkeep_does_not_wait_for_a_run_that_dagster_knows_to_have_ended(
    two_days: Lake, verb: str
) -> None:
    lake, job = two_days, verb
    dead = create_run_for_test(lake.instance, job_name=UPKEEP, status=dg.DagsterRunStatus.FAILURE)
    kind = LeaseKind.COMPACT if verb == "compact" else LeaseKind.EXPIRE
    table = lake.table()
    request = LeaseRequest(
        kind=kind,
        scope=whole_table(table.table_files),
        holder="the dead",
        owner=f"{commit_user(lake.instance, dead, job)} {kind.value}",
    )
    acquire_lease(table.table_files, request)

    lake.run(verb)

    if verb == "compact":
        assert [each.file_count for each in table.at().partitions()] == [1, 1]
    assert not table.upkeep.leases()
