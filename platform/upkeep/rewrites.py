"""Common options, leases and reports of verbs that rewrite files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from math import ceil
from typing import Any, TypeVar

from lakewright.platform.upkeep.engines import prefers_spark
from lakewright.platform.upkeep.leases import plan_scope
from lakewright.platform.upkeep.measures import (
    Benefit,
    Cost,
    Measures,
    bytes_after,
    empty_bytes,
)
from lakewright.platform.upkeep.procedure import LeaseNeed, NamedPartition, Outcome, Report
from lakewright.platform.upkeep.run_options import Verified
from lakewright.platform.upkeep.words import (
    counted,
    duration_text,
    nulled_text,
    size_text,
    snapshots_text,
)
from lakewright.storage import LeaseKind, Snapshot, Table
from lakewright.storage.errors import SnapshotNotFound
from lakewright.storage.operations.rewrite.compaction_plan import (
    BucketsPlan,
    CompactionPlan,
    CompactionResult,
    CompactionTask,
)
from lakewright.storage.operations.rewrite.postpone import PostponePlan
from lakewright.storage.operations.rewrite.rescale import RescalePlan, RescaleTask
from lakewright.storage.operations.rewrite.runner import MoveResult, MoveTask, RewriteResult
from lakewright.storage.operations.running.plan import RewritePlan
from lakewright.storage.operations.running.verb_options import PartitionValues
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition_words import describe_partition

ResultT = TypeVar("ResultT")


def rewrite_lease(table: Table, plan: RewritePlan[Any]) -> LeaseNeed | None:
    """The lease for a rewrite plan; None for an empty plan."""
    if not plan.tasks:
        return None
    kind = LeaseKind.RESCALE if isinstance(plan, RescalePlan) else LeaseKind.COMPACT
    return LeaseNeed(kind=kind, scope=plan_scope(table, plan))


def rewrite_measures(table: Table, done: Outcome[Any, Any, Any]) -> Measures:
    """Files and bytes of a rewrite; of a plan, new files of the target size are expected."""
    plan, result = done.plan, done.result
    shows = isinstance(plan, PostponePlan)
    if result is None:
        read, count, empty = plan.bytes_before, plan.files_before, empty_bytes(table)
        target = table.options.target_file_size
        after = sum(_files_after(task, target, empty) for task in plan.tasks)
        written = bytes_after(read, count, after, empty)
        return Measures(
            cost=Cost(bytes=read, files=count, bytes_written=written),
            benefit=Benefit(
                files_fewer=plan.files_before - after, rows_shown=plan.rows if shows else 0
            ),
        )
    assert isinstance(result, RewriteResult)
    if isinstance(result, CompactionResult):
        committed = [result.snapshot] if result.snapshot is not None else []
    else:
        assert isinstance(result, MoveResult)
        committed = list(result.snapshots)
    return Measures(
        cost=Cost(
            bytes=result.bytes_before,
            files=result.files_before,
            bytes_written=result.bytes_after,
        ),
        benefit=Benefit(
            files_fewer=result.files_before - result.files_after,
            runs_fewer=_runs_fewer(table, plan, committed),
            rows_shown=result.rows_after if shows else 0,
            bytes_fewer=result.bytes_before - result.bytes_after,
        ),
        snapshots=tuple(each.id for each in committed),
    )


def _runs_fewer(table: Table, plan: RewritePlan[Any], committed: Sequence[Snapshot]) -> int:
    """How many sorted runs fewer a reader merges in the worst bucket of each partition, summed up.

    Only a compaction of a keyed table is measured: the snapshot before its commit tells.
    """
    if not table.schema.is_keyed or not isinstance(plan, CompactionPlan) or not committed:
        return 0
    named = list({str(task.partition): task.partition for task in plan.tasks}.values())

    def runs(snapshot_id: int) -> int:
        found = table.at(snapshot=snapshot_id).partitions(named=named)
        return sum(max(bucket.sorted_run_count for bucket in stats.buckets) for stats in found)

    # An expiry beside it may have taken the snapshot before; what is not known is not counted.
    with suppress(SnapshotNotFound):
        return sum(runs(each.id - 1) - runs(each.id) for each in committed)
    return 0


def _files_after(task: CompactionTask | MoveTask, target_bytes: int, empty: int) -> int:
    """How many files a task is expected to leave, if rows do not merge."""
    if isinstance(task, CompactionTask):
        if task.file_by_file:
            return len(task.files)
        moved, merged = len(task.upgrades), len(task.files) - len(task.upgrades)
        joined = bytes_after(task.rewritten_bytes, merged, 1, empty)
        return moved + ceil(joined / target_bytes)
    in_each = max(1, ceil(task.bytes / task.bucket_count / target_bytes))
    return min(max(1, task.rows), task.bucket_count * in_each)


# --- buckets that get other files --------------------------------------------------------------


def compaction_report(
    table: Table,
    plan: BucketsPlan[Any],
    result: CompactionResult | None,
    options: Verified,
) -> Report:
    """The report of a rewrite by bucket."""
    if result is None:
        return _compaction_plan_report(table, plan)
    record = {**asdict(result), "planned_tasks": len(plan.tasks), "snapshot": result.snapshot}
    if not plan.tasks:
        return replace(_compaction_plan_report(table, plan), record=record)
    dropped = (
        f"{counted(result.dropped_tasks, 'task')} of {len(plan.tasks)} dropped: others changed "
        "those files meanwhile, or work on them; plan again"
    )
    if result.snapshot is None:
        summary = f"nothing was committed to {plan.table}: {dropped}"
    else:
        done = counted(len(plan.tasks) - result.dropped_tasks, "task")
        summary = (
            f"snapshot {result.snapshot.id} of {plan.table}: {done} in "
            f"{duration_text(result.duration_ms)}, {counted(result.files_before, 'file')} became "
            f"{result.files_after:,}"
        )
    return Report(
        summary=summary,
        facts={
            **_before_and_after(result),
            "dropped_tasks": result.dropped_tasks,
            "engine": _engine_name(options, plan),
            "seconds": round(result.duration_ms / 1000, 3),
        },
        record=record,
        notes=(
            *((dropped,) if result.dropped_tasks and result.snapshot is not None else ()),
            *_nulled(result),
        ),
        was_beaten=result.snapshot is None,
        partitions=_touched(plan),
        snapshot=result.snapshot,
    )


def _compaction_plan_report(table: Table, plan: BucketsPlan[Any]) -> Report:
    tasks = [
        {
            "partition": NamedPartition(task.partition),
            "bucket": task.bucket,
            "files": len(task.files),
            "bytes": task.bytes,
            "rows": task.rows,
            "reason": task.reason,
        }
        for task in plan.tasks
    ]
    skipped = [
        {
            "partition": NamedPartition(each.partition),
            "bucket": each.bucket,
            "files": each.files,
            "reason": each.reason,
        }
        for each in plan.skipped
    ]
    moved = sum(len(task.upgrades) for task in plan.tasks)
    notes = [f"{counted(moved, 'file')} of these only change their level"] if moved else []
    if plan.tasks:
        summary = (
            f"compaction of {plan.table}, {_at(plan)}: {_sizes(plan)} to rewrite "
            f"in {counted(len(plan.tasks), 'task')}"
        )
        if plan.skipped:
            notes.append(f"{counted(len(plan.skipped), 'bucket')} skipped")
        if plan.bytes_left:
            notes.append(f"{size_text(plan.bytes_left)} left for a later run")
    else:
        summary = f"nothing to compact in {plan.table}, {_at(plan)}"
        if not plan.skipped and plan.snapshot_id is not None:
            notes.append(_why_no_bucket(table))
    return Report(
        summary=summary,
        facts={
            **_plan_facts(plan),
            "skipped_buckets": len(plan.skipped),
            "bytes_left": plan.bytes_left,
        },
        record=_plan_record(plan),
        tables={"plan": tasks, "skipped": skipped},
        notes=tuple(notes),
        is_empty=not plan.tasks,
    )


def _why_no_bucket(table: Table) -> str:
    if table.options.bucket_mode is BucketMode.POSTPONE:
        give = f"lakewright postpone-compact {table.name}"
        return f"no files have a bucket; rows that wait for one get it by {give}"
    return "no files in the partitions and buckets asked for"


# --- rows that move between buckets ------------------------------------------------------------


def move_report(
    plan: RescalePlan | PostponePlan,
    result: MoveResult | None,
    options: Verified,
    *,
    purpose: str,
) -> Report:
    """The report of a rewrite by partition; `purpose` says what it is for."""
    if result is None:
        return _move_plan_report(plan, purpose)
    ids = [snapshot.id for snapshot in result.snapshots]
    record = {**asdict(result), "snapshots": ids}
    if not plan.tasks:
        return replace(_move_plan_report(plan, purpose), record=record)
    left = (
        f"{counted(len(result.dropped), 'partition')} skipped: others changed them meanwhile, "
        f"or work on them: {'; '.join(map(describe_partition, result.dropped))}"
    )
    return Report(
        summary=f"{snapshots_text(ids)} of {plan.table}: {counted(result.partitions, 'partition')} "
        f"in {duration_text(result.duration_ms)}, {counted(result.rows_before, 'row')} moved",
        facts={
            **_before_and_after(result),
            "partitions": result.partitions,
            "dropped_partitions": len(result.dropped),
            "engine": _engine_name(options, plan),
            "seconds": round(result.duration_ms / 1000, 3),
        },
        record=record,
        notes=(*((left,) if result.dropped else ()), *_nulled(result)),
        partitions=_touched(plan),
        snapshot=result.snapshots[-1] if result.snapshots else None,
    )


def _move_plan_report(plan: RescalePlan | PostponePlan, purpose: str) -> Report:
    tasks = [
        {
            "partition": NamedPartition(task.partition),
            "buckets": f"{task.from_buckets} → {task.bucket_count}"
            if isinstance(task, RescaleTask)
            else str(task.bucket_count),
            "files": len(task.files),
            "bytes": task.bytes,
            "rows": task.rows,
        }
        for task in plan.tasks
    ]
    summary = f"nothing {purpose} in {plan.table}, {_at(plan)}"
    if plan.tasks:
        partitions = f"{counted(len(plan.tasks), 'partition')} of {plan.table}"
        summary = f"{partitions} {purpose}, {_at(plan)}: {_sizes(plan)}"
    return Report(
        summary=summary,
        facts=_plan_facts(plan),
        record=_plan_record(plan),
        tables={"plan": tasks},
        is_empty=not plan.tasks,
    )


# --- both --------------------------------------------------------------------------------------


def _at(plan: RewritePlan[Any]) -> str:
    return (
        "which has no snapshot" if plan.snapshot_id is None else f"at snapshot {plan.snapshot_id}"
    )


def _sizes(plan: RewritePlan[Any]) -> str:
    files, rows = counted(plan.files_before, "file"), counted(plan.rows, "row")
    return f"{files}, {size_text(plan.bytes_before)}, {rows}"


def _plan_facts(plan: RewritePlan[Any]) -> dict[str, object]:
    facts: dict[str, object] = {
        "files_before": plan.files_before,
        "bytes_before": plan.bytes_before,
        "rows": plan.rows,
        "tasks": len(plan.tasks),
    }
    if plan.snapshot_id is not None:
        facts["planned_at_snapshot"] = plan.snapshot_id
    return facts


def _plan_record(plan: RewritePlan[Any]) -> dict[str, object]:
    return {
        "tasks": len(plan.tasks),
        "files": plan.files_before,
        "size_bytes": plan.bytes_before,
        "rows": plan.rows,
    }


def _before_and_after(
    result: RewriteResult,
) -> dict[str, object]:
    return {
        "files_before": result.files_before,
        "files_after": result.files_after,
        "bytes_before": result.bytes_before,
        "bytes_after": result.bytes_after,
        "rows_before": result.rows_before,
        "rows_after": result.rows_after,
        **({"nulled_values": result.nulled_values} if result.nulled_values else {}),
    }


def _nulled(result: RewriteResult) -> tuple[str, ...]:
    """A note of values that the rewrite made null for good, by the table's cast mode."""
    count = result.nulled_values
    return (nulled_text(count),) if count else ()


def _engine_name(options: Verified, plan: RewritePlan[Any]) -> str:
    return "spark" if prefers_spark(options.engine, size_bytes=plan.bytes_before) else "local"


def _touched(plan: RewritePlan[Any]) -> tuple[PartitionValues, ...]:
    return tuple(task.partition for task in plan.tasks if task.partition)
