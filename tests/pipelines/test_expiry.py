"""Expiry: snapshots go by job, and the schedule launches it."""

from __future__ import annotations

import datetime as dt

import dagster as dg
import pytest

from tests.pipelines.lake import EVENTS, Lake, events


@pytest.fixture
def with_history(lake: Lake) -> Lake:
    lake.declare(
        EVENTS + "      snapshots: {retain_min: 2, time_retained: 0s, schedule: '5 4 * * *'}\n"
    )
    lake.give(events("2024-01-01", 0, 3))
    for _ in range(4):
        lake.materialize(partitions="2024-01-01")
    return lake


def test_the_job_lets_old_snapshots_go_and_tells_what_it_deleted(with_history: Lake) -> None:
    before = with_history.rows()

    outcome = with_history.run("expire_snapshots")

    assert outcome.success, outcome.failure
    assert [each.id for each in with_history.table().snapshots()] == [3, 4]
    assert with_history.rows() == before
    told = outcome.observations[None]
    assert told["lakewright/snapshots_expired"] == 2
    assert told["lakewright/snapshots_left"] == 2
    assert told["lakewright/files_deleted"] > 0
    assert told["lakewright/bytes_deleted"] > 0


def test_a_dry_run_deletes_nothing(with_history: Lake) -> None:
    outcome = with_history.run("expire_snapshots", dry_run=True)

    assert outcome.success, outcome.failure
    assert outcome.outputs["lakewright/snapshot_range"] == "1 to 2"
    assert outcome.outputs["lakewright/files"] > 0
    assert not outcome.observations
    assert len(with_history.table().snapshots()) == 4


def test_a_run_may_ask_for_other_numbers_than_the_policy(with_history: Lake) -> None:
    outcome = with_history.run("expire_snapshots", retain_min=1, max_deletes=1)
    assert outcome.success, outcome.failure
    assert [each.id for each in with_history.table().snapshots()] == [2, 3, 4]


def test_a_table_that_does_not_exist_yet_is_no_failure(lake: Lake) -> None:
    lake.declare(EVENTS)
    assert lake.run("expire_snapshots").success


def test_a_number_that_cannot_be_is_refused(with_history: Lake) -> None:
    outcome = with_history.run("expire_snapshots", retain_min=0)
    assert not outcome.success
    assert "at least 1 snapshot" in outcome.failure


def test_the_schedule_runs_when_the_policy_says(with_history: Lake) -> None:
    repository = with_history.definitions.get_repository_def()
    schedule = repository.get_schedule_def("expire_snapshots_schedule__shop__events")
    assert schedule.cron_schedule == "5 4 * * *"
    assert schedule.execution_timezone == "UTC"
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    moment = dt.datetime(2024, 1, 1, 4, 5, tzinfo=dt.UTC)
    with dg.build_schedule_context(
        instance=with_history.instance, scheduled_execution_time=moment
    ) as context:
        data = schedule.evaluate_tick(context)
    assert data.run_requests is not None
    assert len(data.run_requests) == 1
