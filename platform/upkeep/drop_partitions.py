"""Dropping partitions as a verb: their files leave the table in one commit."""

from __future__ import annotations

from lakewright.platform.upkeep.deletions import UNDO_RUN
from lakewright.platform.upkeep.measures import Measures
from lakewright.platform.upkeep.procedure import Command, Outcome, Procedure, Report
from lakewright.platform.upkeep.where_notes import WHERE_NOTES
from lakewright.platform.upkeep.whole_partitions import (
    dropped_measures,
    held_facts,
    held_rows,
    held_text,
)
from lakewright.platform.upkeep.words import duration_text
from lakewright.storage import Table
from lakewright.storage.operations.partitions.drop_partitions import (
    DropPartitionsPlan,
    DropPartitionsResult,
)
from lakewright.storage.upkeep import DropPartitionsOptions, Upkeep

KEPT_ON_DISK = "files stay on disk until the snapshots, tags and branches that keep them are gone"


def _report(
    _: Table, done: Outcome[DropPartitionsOptions, DropPartitionsPlan, DropPartitionsResult]
) -> Report:
    plan, result = done.plan, done.result
    what, facts = held_text(plan.partitions), held_facts(plan.partitions)
    if result is None or result.snapshot is None:
        return Report(
            summary=f"{plan.table}: {what} to drop"
            if plan.partitions
            else f"{plan.table} has no such partition to drop",
            facts=facts,
            tables={"plan": held_rows(plan.partitions)},
            is_empty=not plan.partitions,
        )
    return Report(
        summary=f"snapshot {result.snapshot.id} of {plan.table}: {what} dropped in "
        f"{duration_text(result.duration_ms)}",
        facts={**facts, "duration_ms": result.duration_ms},
        tables={"dropped": held_rows(plan.partitions)},
        notes=(KEPT_ON_DISK, f"lakewright {UNDO_RUN} brings them back until then"),
        snapshot=result.snapshot,
    )


def _measures(
    _: Table, done: Outcome[DropPartitionsOptions, DropPartitionsPlan, DropPartitionsResult]
) -> Measures:
    result = done.result
    if result is None:
        return dropped_measures(done.plan.partitions)
    committed = () if result.snapshot is None else (result.snapshot,)
    return dropped_measures(result.partitions, committed)


DROP_PARTITIONS = Procedure(
    verb=Upkeep.drop_partitions,
    options=DropPartitionsOptions,
    report=_report,
    command=Command(
        purpose="Partitions",
        notes="EXPR may look at partition columns only.\n" + WHERE_NOTES,
        examples="""
lakewright drop-partitions nyc.flights --partition dt=2013-01-01 --dry-run
lakewright drop-partitions nyc.flights --where "dt < '2013-02-01'"
""",
    ),
    measures=_measures,
)
