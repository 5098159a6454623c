"""Respec: the verb that changes the partition keys of tables, with its events.

It changes to the keys of the declaration, else of the policy, or to those of the run's config.

The job `split` of a table splits files for that, and leaves the keys. It is a job of a table
because it is partitioned as the asset is, for backfills: a run for a partition splits the
partitions of the table that hold its rows. What is split is not split again, so a backfill may be
stopped, and launched again, at any time. A dry run shows the ledger: what is left to split.

After a change the partitions of the asset are those of the table (`follow_table.py`).
"""

from __future__ import annotations

import dagster as dg

from lakewright.jobs.upkeep import UpkeepVerb
from lakewright.platform.decide.kept_tables import KeptTable
from lakewright.platform.orchestration.follow_table import follow_table
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.schema_reports import RESPEC_JOB
from lakewright.platform.upkeep.procedure import AnyProcedure
from lakewright.platform.upkeep.respec import RespecRun, respec_verb
from lakewright.storage import Table


def _declared(kept: KeptTable) -> RespecRun:
    if kept.declaration is not None and kept.declaration.columns:
        return RespecRun(keys=kept.declaration.partition_keys)
    policy = kept.policy.respec
    return RespecRun.declared(policy) if policy.enabled else RespecRun()


def _verbs(_: Table, __: dg.OpExecutionContext, kept: KeptTable) -> tuple[AnyProcedure]:
    """The verb, whose reports name partitions as the asset does."""
    declaration = kept.declaration
    scheme = None if declaration is None or not declaration.columns else declaration.scheme
    return (respec_verb(scheme),)


def _follow(
    kept: KeptTable, table: Table, names: TableNames, context: dg.OpExecutionContext
) -> None:
    """Make the partitions of the asset those of the table; an adopted table has none."""
    if kept.declaration is None or not kept.declaration.columns:
        return
    found = follow_table(kept.declaration, names, table, context.instance)
    for told in found.warnings:
        context.log.warning("%s: %s", table.name, told)
    for event in found.events:
        context.log_event(event)


RESPEC_OF_TABLES = UpkeepVerb(
    name=RESPEC_JOB,
    description="Change the partition keys of tables, to those declared or of their policy.",
    verbs=_verbs,
    declared=_declared,
    options=RespecRun,
    afterwards=_follow,
    is_asked_for=True,
)
