"""Work in flight: which tables a run works on, and which runs are presumed dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.test_utils import create_run_for_test

from lakewright.platform.orchestration.in_flight import work_in_flight
from lakewright.platform.orchestration.names import TABLE_TAG, VERB_TAG, table_tag
from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.orchestration.run_life import RunLife
from lakewright.platform.orchestration.run_process import PROCESS_TAG, process_identity
from lakewright.storage import Catalog, LeaseKind
from lakewright.storage.env import SystemEnv
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease, whole_table
from tests.support.tables.builders import new_table
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri

ORIGIN = RemoteJobOrigin(
    RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("tests"), "__repository__"), "compact"
)
STARTED = dg.DagsterRunStatus.STARTED
MINUTE_MS = 60_000
SILENCE_MS = 10 * MINUTE_MS
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as opened:
        yield opened


@pytest.fixture
def catalog() -> Catalog:
    """With one table, `db.t`, and a clock of its own for leases."""
    made = Catalog.open(memory_uri(), env=FixedEnv())
    new_table(made)
    return made


def life(instance: dg.DagsterInstance, catalog: Catalog, *, later_ms: int = 0) -> RunLife:
    return RunLife(instance, catalog, SystemEnv().now_ms() + later_ms, SILENCE_MS)


def launched(
    instance: dg.DagsterInstance, status: dg.DagsterRunStatus, tags: dict[str, str] | None = None
) -> dg.DagsterRun:
    tags = {TABLE_TAG: "db.t", VERB_TAG: "compact", **(tags or {})}
    return create_run_for_test(
        instance, job_name="compact", status=status, tags=tags, remote_job_origin=ORIGIN
    )


def hold(catalog: Catalog, owner: str) -> None:
    files = catalog.table("db.t").table_files
    request = LeaseRequest(
        kind=LeaseKind.COMPACT, scope=whole_table(files), holder="it", owner=owner
    )
    acquire_lease(files, request)


def ended_process() -> str:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = process_identity(process.pid)
        process.communicate(b"\n")
    return identity


def test_a_run_is_in_flight_on_each_table_that_its_tag_names(
    instance: dg.DagsterInstance, catalog: Catalog
) -> None:
    tags = {TABLE_TAG: table_tag(["db.a", "db.b"]), VERB_TAG: "undo"}
    launched(instance, STARTED, tags)
    found = work_in_flight(life(instance, catalog), ["db.a", "db.b", "db.c"])
    assert {table: [each.verb for each in runs] for table, runs in found.items()} == {
        "db.a": ["undo"],
        "db.b": ["undo"],
    }


@pytest.mark.parametrize("status", UNFINISHED)
def test_a_run_that_tells_nothing_and_holds_nothing_is_in_flight_for_so_long_and_no_longer(
    instance: dg.DagsterInstance, catalog: Catalog, status: dg.DagsterRunStatus
) -> None:
    launched(instance, status)
    assert work_in_flight(life(instance, catalog, later_ms=SILENCE_MS - MINUTE_MS), ["db.t"])
    for days in (0, 30):
        later_ms = SILENCE_MS + days * 24 * 60 * MINUTE_MS
        assert not work_in_flight(life(instance, catalog, later_ms=later_ms), ["db.t"])


def test_an_event_is_a_sign_of_life(instance: dg.DagsterInstance, catalog: Catalog) -> None:
    run = launched(instance, STARTED)
    began_ms = SystemEnv().now_ms()
    SystemEnv().sleep_ms(20)
    instance.report_engine_event("compact: 3 of 8 tasks", run)
    alive = RunLife(instance, catalog, began_ms + SILENCE_MS + 10, SILENCE_MS)
    assert work_in_flight(alive, ["db.t"])


def test_a_run_that_holds_a_lease_lives_until_the_lease_lapses(
    instance: dg.DagsterInstance, catalog: Catalog
) -> None:
    hold(catalog, f"{commit_user(instance, launched(instance, STARTED), 'compact')} compact")
    silent = life(instance, catalog, later_ms=SILENCE_MS)
    assert work_in_flight(silent, ["db.t"])
    catalog.env.sleep_ms(6 * MINUTE_MS)
    assert not work_in_flight(life(instance, catalog, later_ms=SILENCE_MS), ["db.t"])


def test_the_lease_of_another_run_is_no_sign_of_life(
    instance: dg.DagsterInstance, catalog: Catalog
) -> None:
    launched(instance, STARTED)
    hold(catalog, f"{commit_user(instance, launched(instance, STARTED), 'compact')} compact")
    (one,) = work_in_flight(life(instance, catalog, later_ms=SILENCE_MS), ["db.t"])["db.t"]
    assert "(started)" in one.told


@pytest.mark.parametrize("status", UNFINISHED)
def test_a_run_of_this_machine_lives_as_long_as_its_process(
    instance: dg.DagsterInstance, catalog: Catalog, status: dg.DagsterRunStatus
) -> None:
    launched(instance, status, {PROCESS_TAG: ended_process()})
    assert not work_in_flight(life(instance, catalog), ["db.t"])
    launched(instance, status, {PROCESS_TAG: process_identity(os.getpid())})
    found = work_in_flight(life(instance, catalog, later_ms=100 * SILENCE_MS), ["db.t"])
    assert len(found.get("db.t", ())) == (status is not dg.DagsterRunStatus.CANCELING)


def test_a_queued_run_waits_for_as_long_as_another_one_lives(
    instance: dg.DagsterInstance, catalog: Catalog
) -> None:
    launched(instance, dg.DagsterRunStatus.QUEUED)
    tags = {TABLE_TAG: "db.other", PROCESS_TAG: process_identity(os.getpid())}
    launched(instance, STARTED, tags)
    assert work_in_flight(life(instance, catalog, later_ms=SILENCE_MS), ["db.t"])["db.t"]


def test_a_backfill_whose_runs_are_dead_and_that_launches_none_holds_nothing(
    instance: dg.DagsterInstance, catalog: Catalog
) -> None:
    now_ms = SystemEnv().now_ms()
    instance.add_backfill(
        PartitionBackfill(
            backfill_id="b",
            partition_set_origin=None,
            status=BulkActionStatus.REQUESTED,
            from_failure=False,
            tags={},
            backfill_timestamp=now_ms / 1000,
            asset_selection=[dg.AssetKey(["db", "t"])],
        )
    )
    run = create_run_for_test(
        instance, job_name="ingest", status=STARTED, tags={"dagster/backfill": "b"}
    )
    instance.report_engine_event("reads", run)
    assert work_in_flight(life(instance, catalog, later_ms=SILENCE_MS - MINUTE_MS), ["db.t"])
    assert not work_in_flight(life(instance, catalog, later_ms=SILENCE_MS), ["db.t"])


def test_dead_runs_are_ended_with_a_cause_and_those_of_others_are_left(
    instance: dg.DagsterInstance, catalog: Catalog
) -> None:
    runs = [launched(instance, each) for each in UNFINISHED]
    other = create_run_for_test(instance, job_name="etl", status=STARTED)
    told: list[str] = []
    life(instance, catalog, later_ms=SILENCE_MS - MINUTE_MS).end_dead({"compact"}, told.append)
    assert not told
    life(instance, catalog, later_ms=SILENCE_MS).end_dead({"compact"}, told.append)
    after = [instance.get_run_by_id(each.run_id) for each in runs]
    ends = {was: now.status.value for was, now in zip(UNFINISHED, after, strict=True) if now}
    canceled = {dg.DagsterRunStatus.CANCELING: "CANCELED"}
    assert ends == {each: canceled.get(each, "FAILURE") for each in UNFINISHED}
    assert len(told) == len(UNFINISHED)
    assert any(
        each.endswith("is given up: it told nothing for 10 minutes, and holds no lease")
        for each in told
    )
    left = instance.get_run_by_id(other.run_id)
    assert left is not None
    assert left.status is STARTED


def test_a_run_beyond_its_time_is_cancelled_and_its_process_ends(
    tmp_path: Path, catalog: Catalog
) -> None:
    launcher = {
        "module": "lakewright.platform.orchestration.warm_launcher",
        "class": "WarmRunLauncher",
    }
    told: list[str] = []
    with (
        dg.DagsterInstance.local_temp(str(tmp_path), {"run_launcher": launcher}) as instance,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
    ):
        tags = {PROCESS_TAG: process_identity(process.pid), "dagster/max_runtime": "3600"}
        run = launched(instance, STARTED, tags)
        launched(instance, STARTED, {PROCESS_TAG: process_identity(os.getpid())})
        life(instance, catalog).cancel_overlong({"compact"}, told.append)
        assert not told
        later = life(instance, catalog, later_ms=60 * MINUTE_MS)
        later.cancel_overlong({"compact"}, told.append)
        assert told == [
            f"run {run.run_id[:8]} of compact takes longer than 3600 s: it is cancelled"
        ]
        assert process.wait(60) == -signal.SIGTERM
        life(instance, catalog).end_dead({"compact"}, told.append)
        ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.CANCELED


def test_places_in_pools_that_ended_runs_hold_are_given_back(
    instance: dg.DagsterInstance, catalog: Catalog
) -> None:
    storage = instance.event_log_storage
    storage.set_concurrency_slots("lakewright/compact", 1)
    run = launched(instance, STARTED)
    assert storage.claim_concurrency_slot("lakewright/compact", run.run_id, "s").is_claimed
    life(instance, catalog).end_dead({"compact"}, lambda _: None)
    assert storage.get_concurrency_info("lakewright/compact").active_slot_count == 1
    life(instance, catalog, later_ms=SILENCE_MS).end_dead({"compact"}, lambda _: None)
    assert storage.get_concurrency_info("lakewright/compact").active_slot_count == 0
    other = launched(instance, STARTED)
    assert storage.claim_concurrency_slot("lakewright/compact", other.run_id, "s").is_claimed
