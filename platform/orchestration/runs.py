"""Runs: Dagster's queued and running runs on a table, and ended runs that still hold leases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus

from lakewright.platform.orchestration.names import TABLE_TAG, TableNames
from lakewright.platform.orchestration.run_identity import ROOT_RUN, origin_of
from lakewright.storage import Table
from lakewright.storage.operations.leases.leases import release_lease

_IN_FLIGHT = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def work_in_flight(
    instance: dg.DagsterInstance, names: TableNames, *, except_run_id: str | None = None
) -> tuple[str, ...]:
    """Runs and backfills that write or keep the table, each described in a few words.

    Runs of the table's own jobs carry it as a tag. An asset that is materialized from the UI, or
    in another job, is found by the asset.
    """
    planned_in = _last_planned_run(instance, names)
    found = [
        f"run {run.run_id[:8]} of {_job(run)} ({run.status.value.lower()})"
        for run in instance.get_runs(filters=dg.RunsFilter(statuses=_IN_FLIGHT))
        if run.run_id != except_run_id and (_concerns(run, names) or run.run_id == planned_in)
    ]
    return (*found, *_backfills(instance, names))


def release_of_ended_runs(
    instance: dg.DagsterInstance, table: Table, *, tell: Callable[[str], object]
) -> None:
    """Release the leases of ended runs, such as a run whose worker was killed.

    Otherwise other processes would wait until the leases expire. A run and its retries count as
    one. Leases of runs that are unknown to this instance stay.
    """
    for lease in table.upkeep.leases():
        if _has_ended(instance, lease.owner):
            release_lease(table.table_files, lease.id)
            tell(f"lease {lease.id} of {lease.holder} was released, since its run has ended")


def _has_ended(instance: dg.DagsterInstance, name: str) -> bool:
    origin = origin_of(name)
    first = None if origin is None else instance.get_run_by_id(origin)
    if first is None:
        return False
    later = instance.get_runs(filters=dg.RunsFilter(tags={ROOT_RUN: first.run_id}))
    return all(run.is_finished for run in (first, *later))


def _concerns(run: dg.DagsterRun, names: TableNames) -> bool:
    if TABLE_TAG in run.tags:
        return run.tags[TABLE_TAG] == names.table
    return names.asset_key in (run.asset_selection or ())


def _last_planned_run(instance: dg.DagsterInstance, names: TableNames) -> str | None:
    """The last run, of any job, that planned to materialize the asset."""
    for record in instance.get_asset_records([names.asset_key]):
        return record.asset_entry.last_planned_materialization_run_id
    return None


def _job(run: dg.DagsterRun) -> str:
    return "the asset" if run.job_name.startswith("__") else run.job_name


def _backfills(instance: dg.DagsterInstance, names: TableNames) -> Iterator[str]:
    """Backfills still being turned into runs."""
    requested: list[Any] = list(
        instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED]))
    )
    for backfill in requested:
        if names.asset_key in (backfill.asset_selection or ()):
            yield f"backfill {backfill.backfill_id}"
