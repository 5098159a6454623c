"""Work in flight: runs and backfills that write or keep tables, as far as they live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from dagster._core.storage.dagster_run import RunRecord

from lakewright.platform.orchestration.names import TABLE_TAG, VERB_TAG
from lakewright.platform.orchestration.run_life import RunLife
from lakewright.platform.orchestration.runs import UNFINISHED, tables_of
from lakewright.platform.warehouse.kept_verbs import BACKFILL, INGEST
from lakewright.platform.warehouse.known_work import Running


def work_in_flight(life: RunLife, tables: Sequence[str]) -> dict[str, tuple[Running, ...]]:
    """Runs and backfills that write or keep tables, by table, each described in a few words.

    What is presumed dead is left out. Runs of upkeep name their tables in a tag or in their config.
    An asset that is materialized from the UI, or in another job, is found by the asset, and taken
    for an ingestion.
    """
    found: dict[str, list[Running]] = {}
    unnamed: dict[str, tuple[RunRecord, Running]] = {}
    instance = life.instance
    for record in instance.get_run_records(filters=dg.RunsFilter(statuses=UNFINISHED)):
        run = record.dagster_run
        running = Running(
            run.tags.get(VERB_TAG, run.job_name if TABLE_TAG in run.tags else INGEST),
            f"run {run.run_id[:8]} of {_job(run)} ({run.status.value.lower()})",
        )
        concerned = tables_of(run, life.keys)
        if concerned and life.cause_of_death(record) is not None:
            continue
        for table in concerned:
            found.setdefault(table, []).append(running)
        if not concerned:
            unnamed[run.run_id] = record, running
    if unnamed:
        keys = [life.keys.of(table) for table in tables]
        for asset in instance.get_asset_records(keys):
            planned_in = asset.asset_entry.last_planned_materialization_run_id
            if planned_in in unnamed:
                table = life.keys.table(asset.asset_entry.asset_key)
                record, running = unnamed[planned_in]
                if life.cause_of_death(record, [table]) is None:
                    found.setdefault(table, []).append(running)
    for key, told in _backfills(life):
        found.setdefault(life.keys.table(key), []).append(Running(BACKFILL, told))
    return {table: tuple(running) for table, running in found.items()}


def _job(run: dg.DagsterRun) -> str:
    return "the asset" if run.job_name.startswith("__") else run.job_name


def _backfills(life: RunLife) -> Iterator[tuple[dg.AssetKey, str]]:
    """The assets of backfills that are still being turned into runs."""
    requested: list[Any] = list(
        life.instance.get_backfills(
            filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])
        )
    )
    for backfill in requested:
        if life.is_at_rest(backfill):
            continue
        for key in backfill.asset_selection or ():
            yield key, f"backfill {backfill.backfill_id}"
