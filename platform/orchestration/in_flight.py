"""Work in flight: unfinished runs and backfills that write or keep tables.

Dagster's monitoring ends runs whose process died (`docs/how-to/running.md`, "Runs that die").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus

from lakewright.platform.ledger.kept_verbs import BACKFILL
from lakewright.platform.ledger.known_work import Running
from lakewright.platform.orchestration.names import UPKEEP, AssetKeys
from lakewright.platform.orchestration.runs import UNFINISHED, tables_of, verb_of


def work_in_flight(
    instance: dg.DagsterInstance, tables: Sequence[str], keys: AssetKeys
) -> dict[str, tuple[Running, ...]]:
    """Runs and backfills that write or keep tables, by table, each described in a few words.

    Runs of upkeep name their tables in a tag or in their config. An asset that is materialized from
    the UI, or in another job, is found by the asset, and taken for an ingestion. `keys` has the
    keys of the tables' assets.
    """
    found: dict[str, list[Running]] = {}
    unnamed: dict[str, Running] = {}
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED)):
        running = Running(
            verb_of(run),
            f"run {run.run_id[:8]} of {_job(run)} ({run.status.value.lower()})",
        )
        concerned = tables_of(run, keys)
        for table in concerned:
            found.setdefault(table, []).append(running)
        if not concerned:
            unnamed[run.run_id] = running
    if unnamed:
        for asset in instance.get_asset_records([keys.of(table) for table in tables]):
            planned_in = asset.asset_entry.last_planned_materialization_run_id
            if planned_in in unnamed:
                table = keys.table(asset.asset_entry.asset_key)
                found.setdefault(table, []).append(unnamed[planned_in])
    for key, told in _backfills(instance):
        found.setdefault(keys.table(key), []).append(Running(BACKFILL, told))
    return {table: tuple(running) for table, running in found.items()}


def _job(run: dg.DagsterRun) -> str:
    if run.job_name.startswith("__"):
        return "the asset"
    is_upkeep = run.job_name.endswith(UPKEEP)
    return f"{run.job_name} ({verb_of(run)})" if is_upkeep else run.job_name


def _backfills(instance: dg.DagsterInstance) -> Iterator[tuple[dg.AssetKey, str]]:
    """The assets of backfills that are still being turned into runs."""
    requested: list[Any] = list(
        instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED]))
    )
    for backfill in requested:
        for key in backfill.asset_selection or ():
            yield key, f"backfill {backfill.backfill_id}"
