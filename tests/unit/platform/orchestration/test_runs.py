"""Runs: whose leases are given back, and whose are skipped."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.orchestration.runs import release_of_ended_runs
from lakewright.storage import Catalog, LeaseKind, Table
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease, whole_table
from tests.support.tables.builders import new_table
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri

ENDED, RUNNING = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as opened:
        yield opened


@pytest.fixture
def table() -> Table:
    return new_table(Catalog.open(memory_uri(), env=FixedEnv()))


def hold(table: Table, owner: str) -> None:
    request = LeaseRequest(
        kind=LeaseKind.APPEND, scope=whole_table(table.table_files), holder="it", owner=owner
    )
    acquire_lease(table.table_files, request)


def owners_left(instance: dg.DagsterInstance, table: Table) -> list[str]:
    said: list[str] = []
    before = len(table.upkeep.leases())
    release_of_ended_runs(instance, table, tell=said.append)
    left = [each.owner for each in table.upkeep.leases()]
    assert len(said) == before - len(left)
    return left


def test_what_an_ended_run_holds_is_given_back(instance: dg.DagsterInstance, table: Table) -> None:
    for status in (ENDED, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS):
        run = create_run_for_test(instance, job_name="compact__a__b", status=status)
        hold(table, f"{commit_user(instance, run, 'compact__a__b')} compact")
    assert owners_left(instance, table) == []


def test_what_others_hold_is_left_to_them(instance: dg.DagsterInstance, table: Table) -> None:
    run = create_run_for_test(instance, job_name="compact__a__b", status=RUNNING)
    owners = [
        f"{commit_user(instance, run, 'compact__a__b')} compact",
        # Of another deployment, and of no run.
        f"dagster-{uuid.uuid4()}-compact__a__b compact",
        "lakewright compact (0123abcd) compact",
    ]
    for owner in owners:
        hold(table, owner)
    assert owners_left(instance, table) == owners


@pytest.mark.parametrize("tagged", [True, False], ids=["by Dagster's daemon", "by its Python API"])
def test_a_run_that_another_one_continues_has_not_ended(
    instance: dg.DagsterInstance, table: Table, *, tagged: bool
) -> None:
    first = create_run_for_test(instance, job_name="compact__a__b", status=ENDED)
    second = create_run_for_test(
        instance,
        job_name="compact__a__b",
        status=RUNNING,
        tags={"dagster/root_run_id": first.run_id, "dagster/retry_number": "1"} if tagged else {},
        step_keys_to_execute=None if tagged else ["compact__a__b"],
        root_run_id=first.run_id,
        parent_run_id=first.run_id,
    )
    owner = f"{commit_user(instance, second, 'compact__a__b')} compact"
    assert owner == f"{commit_user(instance, first, 'compact__a__b')} compact"
    hold(table, owner)
    assert owners_left(instance, table) == [owner]
