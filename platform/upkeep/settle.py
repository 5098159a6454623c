"""Settling as a verb: files that a change of partition keys left behind come into their folders."""

from __future__ import annotations

from lakewright.platform.upkeep.measures import Cost, Measures
from lakewright.platform.upkeep.procedure import (
    Command,
    Keeping,
    NamedPartition,
    Outcome,
    Procedure,
    Report,
)
from lakewright.platform.upkeep.rewrites import rewrite_lease
from lakewright.platform.upkeep.words import counted, duration_text, size_text, snapshots_text
from lakewright.storage import Table
from lakewright.storage.operations.rewrite.settle import SettleOptions, SettlePlan, SettleResult
from lakewright.storage.upkeep import Upkeep

Done = Outcome[SettleOptions, SettlePlan, SettleResult]


def away_text(table: str, files: int, size_bytes: int) -> str:
    """What is wrong with a table that has files away from home, and helps."""
    return (
        f"{counted(files, 'file')} ({size_text(size_bytes)}) of former partition keys are named by "
        "their places, so the table cannot be copied, moved or renamed: "
        f"`lakewright settle {table}`"
    )


def _report(_: Table, done: Done) -> Report:
    plan, result = done.plan, done.result
    away = f"{counted(plan.files_before, 'file')}, {size_text(plan.bytes_before)}"
    facts: dict[str, object] = {"files": plan.files_before, "bytes": plan.bytes_before}
    if not plan.tasks:
        return Report(summary=f"all files of {plan.table} are home", facts=facts, is_empty=True)
    if result is None:
        tasks = [
            {
                "partition": NamedPartition(task.partition),
                "bucket": task.bucket,
                "files": len(task.files),
                "bytes": task.bytes,
            }
            for task in plan.tasks
        ]
        left = f"{size_text(plan.bytes_left)} left for a later run"
        return Report(
            summary=f"{plan.table}, snapshot {plan.snapshot_id}: {away} to come home",
            facts={**facts, "bytes_left": plan.bytes_left},
            tables={"plan": tasks},
            notes=(left,) if plan.bytes_left else (),
        )
    left = (
        f"{counted(result.files_left, 'file')} left: others changed them meanwhile, or work on "
        "them; run it again"
    )
    kept = (
        "earlier snapshots, tags and branches name the former places: until the last of these has "
        "expired or was deleted, they cannot be read in a copy of the table"
    )
    return Report(
        summary=f"{snapshots_text(result.snapshot_ids)} of {plan.table}: "
        f"{counted(result.files, 'file')}, {size_text(result.bytes)}, came home in "
        f"{duration_text(result.duration_ms)}",
        facts={
            "files": result.files,
            "bytes": result.bytes,
            "files_left": result.files_left,
            "snapshot_ids": list(result.snapshot_ids),
            "duration_ms": result.duration_ms,
        },
        notes=(*((left,) if result.files_left else ()), kept),
        was_beaten=not result.files,
        partitions=tuple(task.partition for task in plan.tasks if task.partition),
    )


def _measures(_: Table, done: Done) -> Measures:
    plan, result = done.plan, done.result
    files, size = plan.files_before, plan.bytes_before
    if result is not None:
        files, size = result.files, result.bytes
    return Measures(
        cost=Cost(bytes=size, files=files, bytes_written=size),
        snapshots=() if result is None else result.snapshot_ids,
    )


SETTLE = Procedure(
    verb=Upkeep.settle,
    options=SettleOptions,
    report=_report,
    command=Command(
        purpose="Upkeep",
        notes="""
The store copies the files: a local disk gives them a second name, an object store copies on its
servers. No row is read. Afterwards the table can be copied, moved and renamed, and Java Paimon 0.9
reads it (docs/how-to/changing-partition-keys.md).
""",
        examples="""
lakewright settle nyc.flights --dry-run
lakewright settle nyc.flights --max-bytes 100gb
""",
    ),
    keeping=Keeping(
        section=lambda policy: policy.settle,
        options=lambda policy: SettleOptions(policy.settle.max_bytes),
    ),
    lease=rewrite_lease,
    measures=_measures,
)
