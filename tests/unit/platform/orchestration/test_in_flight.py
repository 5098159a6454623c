"""Work in flight: which tables unfinished runs and backfills work on."""

from __future__ import annotations

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
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.test_utils import create_run_for_test

from lakewright.platform.orchestration.in_flight import work_in_flight
from lakewright.platform.orchestration.names import (
    TABLE_TAG,
    VERB_TAG,
    AssetKeys,
    UpkeepNames,
    table_tag,
)
from lakewright.platform.orchestration.runs import UNFINISHED
from lakewright.storage.env import SystemEnv

ORIGIN = RemoteJobOrigin(
    RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("tests"), "__repository__"), "compact"
)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as opened:
        yield opened


def launched(
    instance: dg.DagsterInstance, status: dg.DagsterRunStatus, tables: str = "db.t"
) -> dg.DagsterRun:
    tags = {TABLE_TAG: tables, VERB_TAG: "compact"}
    return create_run_for_test(
        instance, job_name="compact", status=status, tags=tags, remote_job_origin=ORIGIN
    )


def test_a_run_is_in_flight_on_each_table_that_its_tag_names(instance: dg.DagsterInstance) -> None:
    launched(instance, dg.DagsterRunStatus.STARTED, table_tag(["db.a", "db.b"]))
    found = work_in_flight(instance, ["db.a", "db.b", "db.c"], AssetKeys())
    assert {table: [each.verb for each in runs] for table, runs in found.items()} == {
        "db.a": ["compact"],
        "db.b": ["compact"],
    }


def test_a_verb_that_a_person_asks_for_is_in_flight_before_it_has_begun(
    instance: dg.DagsterInstance,
) -> None:
    create_run_for_test(
        instance,
        job_name="lake__upkeep",
        status=dg.DagsterRunStatus.QUEUED,
        run_config=UpkeepNames("lake").run_config("respec", {"tables": {"db.t": {}}}),
        remote_job_origin=ORIGIN,
    )
    (running,) = work_in_flight(instance, ["db.t"], AssetKeys())["db.t"]
    assert running.verb == "respec"
    assert "of lake__upkeep (respec) (queued)" in running.told


@pytest.mark.parametrize("status", [*UNFINISHED, *FINISHED_STATUSES])
def test_a_run_is_in_flight_until_it_has_ended(
    instance: dg.DagsterInstance, status: dg.DagsterRunStatus
) -> None:
    run = launched(instance, status)
    assert bool(work_in_flight(instance, ["db.t"], AssetKeys())) is not run.is_finished


def test_a_backfill_is_in_flight_until_its_runs_are_launched(instance: dg.DagsterInstance) -> None:
    backfill = PartitionBackfill(
        backfill_id="b",
        partition_set_origin=None,
        status=BulkActionStatus.REQUESTED,
        from_failure=False,
        tags={},
        backfill_timestamp=SystemEnv().now_ms() / 1000,
        asset_selection=[dg.AssetKey(["db", "t"])],
    )
    instance.add_backfill(backfill)
    (one,) = work_in_flight(instance, ["db.t"], AssetKeys())["db.t"]
    assert one.told == "backfill b"
    instance.update_backfill(backfill.with_status(BulkActionStatus.COMPLETED_SUCCESS))
    assert not work_in_flight(instance, ["db.t"], AssetKeys())
