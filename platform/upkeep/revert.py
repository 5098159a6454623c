"""Taking snapshots back as a verb: what they did goes, and what others committed since stays."""

from __future__ import annotations

from dataclasses import asdict

from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.procedure import Command, NamedPartition, Outcome, Procedure, Report
from lakewright.platform.upkeep.words import counted, duration_text, size_text, snapshots_text
from lakewright.storage import Table
from lakewright.storage.history import History
from lakewright.storage.operations.revert.revert import RevertOptions, RevertPlan, RevertResult


def _report(_: Table, done: Outcome[RevertOptions, RevertPlan, RevertResult]) -> Report:
    plan, result = done.plan, done.result
    which = f"{snapshots_text([snapshot.id for snapshot in plan.snapshots])} of {plan.table}"
    facts = {
        "snapshots": [snapshot.id for snapshot in plan.snapshots],
        "files_removed": sum(len(bucket.removed) for bucket in plan.buckets),
        "files_returned": sum(len(bucket.returned) for bucket in plan.buckets),
        "files_moved": sum(len(bucket.moved) for bucket in plan.buckets),
        "bytes_returned": plan.bytes,
        "rows_hidden": plan.rows_hidden,
        "taken_back_by": plan.taken_back_by,
    }
    if plan.is_empty:
        why = "changed no file, so there is nothing to take back"
        if plan.taken_back_by is not None:
            why = f"taken back already, by snapshot {plan.taken_back_by}"
        return Report(summary=f"{which}: {why}", facts=facts, is_empty=True)
    parts = {
        "plan": [
            {
                "partition": NamedPartition(bucket.partition),
                "bucket": bucket.bucket,
                "files_to_go": len(bucket.removed),
                "files_to_return": len(bucket.returned),
                "files_to_move": len(bucket.moved),
                "rows_to_go": bucket.rows_removed,
                "rows_to_return": bucket.rows_returned,
            }
            for bucket in plan.buckets
        ]
    }
    count = plan.bucket_option
    notes = () if count is None else (f"option bucket is set back to {count}",)
    hidden = ""
    if plan.rows_hidden:
        becomes = "row becomes" if plan.rows_hidden == 1 else "rows become"
        hidden = f"; {plan.rows_hidden:,} {becomes} invisible until the next compaction"
    goes = counted(sum(len(bucket.removed) for bucket in plan.buckets), "file")
    comes = counted(sum(len(bucket.returned) for bucket in plan.buckets), "file")
    size = size_text(plan.bytes)
    if result is None or result.snapshot is None:
        return Report(
            summary=f"{which} to take back: {goes} to go, {comes} to return, {size} to copy"
            f"{hidden}",
            facts=facts,
            tables=parts,
            notes=notes,
        )
    figures = {key: value for key, value in asdict(result).items() if key != "snapshot"}
    return Report(
        summary=f"snapshot {result.snapshot.id}: {which} reverted in "
        f"{duration_text(result.duration_ms)}; removed {goes}, restored {comes}, {size} copied"
        f"{hidden}",
        facts={**facts, **figures},
        notes=notes,
        partitions=tuple(bucket.partition for bucket in plan.buckets),
        snapshot=result.snapshot,
    )


def _measures(_: Table, done: Outcome[RevertOptions, RevertPlan, RevertResult]) -> Measures:
    plan, result = done.plan, done.result
    returned = sum(len(bucket.returned) for bucket in plan.buckets)
    removed = sum(len(bucket.removed) for bucket in plan.buckets)
    snapshot = None if result is None else result.snapshot
    return Measures(
        cost=Cost(bytes=plan.bytes, files=returned, bytes_written=plan.bytes),
        benefit=Benefit(files_fewer=removed - returned),
        snapshots=() if snapshot is None else (snapshot.id,),
    )


REVERT = Procedure(
    verb=History.revert,
    options=RevertOptions,
    report=_report,
    command=Command(
        purpose="References",
        notes="""
The snapshots that held the files to come back must exist, or tags of them. A revert is a commit of
its own: it can be taken back too. To undo all that a run did, in all tables: lakewright undo RUN.
""",
        examples="lakewright revert nyc.flights --snapshot 41 --snapshot 42 --dry-run",
    ),
    measures=_measures,
)
