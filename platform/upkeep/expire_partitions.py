"""Expiry of partitions as a verb: those past their time are dropped."""

from __future__ import annotations

from lakewright.platform.tables.upkeep_policies import UpkeepPolicy
from lakewright.platform.upkeep.drop_partitions import KEPT_ON_DISK
from lakewright.platform.upkeep.measures import Measures
from lakewright.platform.upkeep.procedure import (
    Command,
    Keeping,
    NamedPartition,
    Outcome,
    Procedure,
    Report,
    Rows,
)
from lakewright.platform.upkeep.whole_partitions import dropped_measures, held_facts, held_text
from lakewright.platform.upkeep.words import counted, duration_text, size_text, snapshots_text
from lakewright.storage import Table
from lakewright.storage.operations.partitions.expire_partitions import (
    DuePartition,
    ExpirePartitionsOptions,
    ExpirePartitionsPlan,
    ExpirePartitionsResult,
)
from lakewright.storage.upkeep import Upkeep


def _kept(policy: UpkeepPolicy) -> ExpirePartitionsOptions:
    kept = policy.partitions
    return ExpirePartitionsOptions(
        older_than_ms=kept.older_than,
        strategy=None if kept.strategy is None else kept.strategy.value,
        pattern=kept.pattern,
        formatter=kept.formatter,
        max_partitions=kept.max_partitions,
        spare_tagged=kept.spare_tagged,
    )


def _report(
    _: Table, done: Outcome[ExpirePartitionsOptions, ExpirePartitionsPlan, ExpirePartitionsResult]
) -> Report:
    plan, result = done.plan, done.result
    going = plan.partitions if result is None else result.partitions
    tagged = sum(each.tagged_bytes for each in going)
    facts = {**held_facts(going), "tagged_bytes": tagged, "waiting": plan.waiting}
    notes = [
        *([f"tags keep {size_text(tagged)} of these files on disk"] if tagged else []),
        *([f"{counted(plan.waiting, 'more partition')} due in later runs"] if plan.waiting else []),
        *(f"{NamedPartition(each.partition)} stays: {each.reason}" for each in plan.staying),
    ]
    if result is None or not plan.partitions:
        return Report(
            summary=f"{plan.table}: {held_text(going)} to expire"
            if going
            else f"no partition of {plan.table} to expire",
            facts=facts,
            tables={"plan": _rows(going)},
            notes=tuple(notes),
            is_empty=not going,
        )
    left_out = [
        f"{NamedPartition(each)} was changed meanwhile, and stays" for each in result.left_out
    ]
    ids = [snapshot.id for snapshot in result.snapshots]
    return Report(
        summary=f"{snapshots_text(ids)} of {plan.table}: {held_text(going)} expired in "
        f"{duration_text(result.duration_ms)}",
        facts={**facts, "left_out": len(result.left_out), "duration_ms": result.duration_ms},
        tables={"expired": _rows(going)},
        notes=(*left_out, *notes, KEPT_ON_DISK),
        was_beaten=not going,
        snapshot=result.snapshots[-1] if result.snapshots else None,
    )


def _rows(going: tuple[DuePartition, ...]) -> Rows:
    return [
        {
            "partition": NamedPartition(each.partition),
            "since": each.since,
            "files": len(each.files),
            "rows": each.rows,
            "bytes": each.bytes,
            "tags": ", ".join(each.tags) or None,
        }
        for each in going
    ]


def _measures(
    _: Table, done: Outcome[ExpirePartitionsOptions, ExpirePartitionsPlan, ExpirePartitionsResult]
) -> Measures:
    result = done.result
    if result is None:
        return dropped_measures(done.plan.partitions)
    return dropped_measures(result.partitions, result.snapshots)


EXPIRE_PARTITIONS = Procedure(
    verb=Upkeep.expire_partitions,
    options=ExpirePartitionsOptions,
    report=_report,
    command=Command(
        purpose="Partitions",
        notes="What is not given, the table's options give: partition.expiration-time and its "
        "like.",
        examples="""
lakewright expire-partitions nyc.flights --older-than 90d --dry-run
lakewright expire-partitions shop.visits --pattern '$day $hour:00:00' --spare-tagged
""",
    ),
    keeping=Keeping(section=lambda policy: policy.partitions, options=_kept),
    measures=_measures,
)
