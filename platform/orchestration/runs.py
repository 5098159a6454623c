"""Runs: which tables they work on, and ended runs that still hold leases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from lakewright.platform.ledger.kept_verbs import INGEST
from lakewright.platform.orchestration.names import (
    TABLE_TAG,
    VERB_TAG,
    AssetKeys,
    TableNames,
    tables_of_tag,
)
from lakewright.platform.orchestration.run_identity import origin_of, root_of
from lakewright.storage import Table
from lakewright.storage.operations.leases.leases import release_lease

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def op_configs(run: dg.DagsterRun) -> list[Mapping[str, Any]]:
    """The config of each op of a run; of upkeep, that of its verb."""
    return [config for _, config in _verbs_and_configs(run)]


def verb_of(run: dg.DagsterRun) -> str:
    """The work of a run: what its tag says, or its config before it has begun."""
    named = (verb for verb, _ in _verbs_and_configs(run) if verb)
    return run.tags.get(VERB_TAG) or next(named, INGEST)


def _verbs_and_configs(run: dg.DagsterRun) -> Iterator[tuple[str, Mapping[str, Any]]]:
    ops: Any = run.run_config.get("ops", {})
    for op in ops.values():
        config = op.get("config") or {}
        verb = config.get("verb")
        if isinstance(verb, Mapping):
            yield from ((name, given or {}) for name, given in verb.items())
        else:
            yield "", config


def tables_of(run: dg.DagsterRun, asset_keys: AssetKeys) -> tuple[str, ...]:
    """The tables that a run writes or keeps, as far as the run itself tells."""
    named = [table for config in op_configs(run) for table in config.get("tables", {})]
    if not named and TABLE_TAG in run.tags:
        return tables_of_tag(run.tags[TABLE_TAG])
    return (*named, *map(asset_keys.table, sorted(run.asset_selection or (), key=str)))


def runs_that_write(
    instance: dg.DagsterInstance, names: TableNames, statuses: Sequence[dg.DagsterRunStatus]
) -> Iterator[dg.DagsterRun]:
    """The runs in one of these states that write a table."""
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=list(statuses))):
        if names.table in tables_of(run, names.keys) and verb_of(run) == INGEST:
            yield run


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
    # Not every way to re-execute a run tags it with its root.
    unfinished = instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))
    return first.is_finished and root_of(first) not in map(root_of, unfinished)
