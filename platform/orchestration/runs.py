"""Runs: Dagster's queued and running runs on a table, and ended runs that still hold leases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus

from lakewright.platform.orchestration.names import (
    TABLE_TAG,
    VERB_TAG,
    TableNames,
    tables_of_tag,
)
from lakewright.platform.orchestration.run_identity import ROOT_RUN, origin_of
from lakewright.platform.warehouse.kept_verbs import BACKFILL, INGEST
from lakewright.platform.warehouse.known_work import Running
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
    instance: dg.DagsterInstance, tables: Sequence[str]
) -> dict[str, tuple[Running, ...]]:
    """Runs and backfills that write or keep tables, by table, each described in a few words.

    Runs of upkeep name their tables in a tag or in their config. An asset that is materialized from
    the UI, or in another job, is found by the asset, and taken for an ingestion.
    """
    found: dict[str, list[Running]] = {}
    unnamed: dict[str, Running] = {}
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=_IN_FLIGHT)):
        running = Running(
            run.tags.get(VERB_TAG, run.job_name if TABLE_TAG in run.tags else INGEST),
            f"run {run.run_id[:8]} of {_job(run)} ({run.status.value.lower()})",
        )
        concerned = tables_of(run)
        for table in concerned:
            found.setdefault(table, []).append(running)
        if not concerned:
            unnamed[run.run_id] = running
    if unnamed:
        keys = [TableNames(table).asset_key for table in tables]
        for record in instance.get_asset_records(keys):
            planned_in = record.asset_entry.last_planned_materialization_run_id
            if planned_in in unnamed:
                found.setdefault(_table(record.asset_entry.asset_key), []).append(
                    unnamed[planned_in]
                )
    for key, told in _backfills(instance):
        found.setdefault(_table(key), []).append(Running(BACKFILL, told))
    return {table: tuple(running) for table, running in found.items()}


def op_configs(run: dg.DagsterRun) -> list[Mapping[str, Any]]:
    """The config of each op of a run."""
    ops: Any = run.run_config.get("ops", {})
    return [op.get("config") or {} for op in ops.values()]


def tables_of(run: dg.DagsterRun) -> tuple[str, ...]:
    """The tables that a run writes or keeps, as far as the run itself tells."""
    named = [table for config in op_configs(run) for table in config.get("tables", {})]
    if not named and TABLE_TAG in run.tags:
        return tables_of_tag(run.tags[TABLE_TAG])
    return (*named, *map(_table, sorted(run.asset_selection or (), key=str)))


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


def _table(key: dg.AssetKey) -> str:
    return ".".join(key.path)


def _job(run: dg.DagsterRun) -> str:
    return "the asset" if run.job_name.startswith("__") else run.job_name


def _backfills(instance: dg.DagsterInstance) -> Iterator[tuple[dg.AssetKey, str]]:
    """The assets of backfills that are still being turned into runs."""
    requested: list[Any] = list(
        instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED]))
    )
    for backfill in requested:
        for key in backfill.asset_selection or ():
            yield key, f"backfill {backfill.backfill_id}"
