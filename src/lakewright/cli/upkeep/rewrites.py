"""What commands say that rewrite data files: which tasks there are, and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lakewright.cli.output.partitions import partition_cells, partition_columns
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell, counted, duration_text, iso_time, size_text
from lakewright.cli.upkeep.deletions import snapshots_text
from lakewright.cli.upkeep.work import Telling
from lakewright.storage import (
    CompactionPlan,
    CompactionResult,
    PostponePlan,
    PostponeResult,
    RescalePlan,
    RescaleResult,
    SortCompactionPlan,
    Table,
)
from lakewright.storage.operations.rewrite.postpone import PostponeTask
from lakewright.storage.operations.running.plan import RewritePlan
from lakewright.storage.spec.options import BucketMode

# A plan names every bucket; people get the first of them, programs all.
_MOST_LINES = 40


def rewrite_summary(plan: RewritePlan[Any]) -> dict[str, object]:
    """The figures of a plan."""
    return {
        "tasks": len(plan.tasks),
        "files": plan.files_before,
        "size_bytes": plan.bytes_before,
        "rows": plan.rows,
    }


def before_and_after(*rows: tuple[str, str, str]) -> TextTable:
    """Figures of a table before and after."""
    columns = [TextColumn(""), TextColumn("before", right=True), TextColumn("after", right=True)]
    return TextTable(columns, rows)


# --- files of buckets --------------------------------------------------------------------------


def compaction_text(table: Table, plan: CompactionPlan) -> list[Block]:
    """Which buckets would be rewritten, and why; or why none."""
    at = _at(plan)
    if not plan.tasks:
        lines: list[Block] = [f"nothing to compact in {plan.table}, {at}"]
        if not plan.skipped and plan.snapshot_id is not None:
            if table.options.bucket_mode is BucketMode.POSTPONE:
                give = f"lakewright postpone-compact {table.name}"
                return [*lines, f"no files have a bucket; rows that wait for one get it by {give}"]
            return [*lines, "no files in the partitions and buckets asked for"]
        skipped: list[list[Cell]] = [
            [*partition_cells(each.partition), str(each.bucket), each.reason]
            for each in plan.skipped
        ]
        return lines + _first_rows(_places(table), [TextColumn("why not")], skipped)
    columns = [
        TextColumn("files", right=True),
        TextColumn("size", right=True),
        TextColumn("rows", right=True),
        TextColumn("why"),
    ]
    rows: list[list[Cell]] = [
        [
            *partition_cells(each.partition),
            str(each.bucket),
            len(each.files),
            size_text(each.bytes),
            each.rows,
            each.reason,
        ]
        for each in plan.tasks
    ]
    lines = [
        (
            f"compaction of {plan.table}, {at}: {counted(plan.files_before, 'file')}, "
            f"{size_text(plan.bytes_before)}, {counted(plan.rows, 'row')} to rewrite "
            f"in {counted(len(plan.tasks), 'task')}"
        ),
        *_first_rows(_places(table), columns, rows),
    ]
    moved = sum(len(task.upgrades) for task in plan.tasks)
    if moved:
        lines.append(f"{counted(moved, 'file')} of these only change their level")
    if plan.skipped:
        lines.append(f"{counted(len(plan.skipped), 'bucket')} left alone")
    return lines


def compaction_report(plan: CompactionPlan, result: CompactionResult) -> list[Block]:
    """What a compaction changed."""
    dropped = (
        f"{counted(result.dropped_tasks, 'task')} of {len(plan.tasks)} dropped: "
        "others changed those files meanwhile, or work on them; plan again"
    )
    if result.snapshot is None:
        return [f"nothing was committed to {plan.table}: {dropped}"]
    done = len(plan.tasks) - result.dropped_tasks
    return [
        before_and_after(
            ("files", f"{result.files_before:,}", f"{result.files_after:,}"),
            ("size", size_text(result.bytes_before), size_text(result.bytes_after)),
            ("rows", f"{result.rows_before:,}", f"{result.rows_after:,}"),
        ),
        "",
        (
            f"snapshot {result.snapshot.id} of {plan.table}: {counted(done, 'task')} "
            f"in {duration_text(result.duration_ms)}"
        ),
        *([dropped] if result.dropped_tasks else []),
    ]


def compaction_facts(plan: CompactionPlan, result: CompactionResult) -> dict[str, object]:
    """The figures of a compaction."""
    snapshot = result.snapshot
    return {
        **asdict(result),
        "planned_tasks": len(plan.tasks),
        "snapshot": None
        if snapshot is None
        else {"id": snapshot.id, "time": iso_time(snapshot.time_millis)},
    }


def compaction_telling(table: Table) -> Telling[CompactionPlan, CompactionResult]:
    """What a compaction says."""
    return Telling(
        is_empty=lambda plan: not plan.tasks,
        describe=lambda plan: compaction_text(table, plan),
        summary=rewrite_summary,
        report=compaction_report,
        facts=compaction_facts,
        was_beaten=lambda plan, result: bool(plan.tasks) and result.snapshot is None,
    )


def sorting_telling(table: Table) -> Telling[SortCompactionPlan, CompactionResult]:
    """The same of a sorting, whose plan is one of files and more."""
    inner = compaction_telling(table)
    return Telling(
        is_empty=lambda plan: inner.is_empty(plan.files),
        describe=lambda plan: inner.describe(plan.files),
        summary=lambda plan: inner.summary(plan.files),
        report=lambda plan, result: inner.report(plan.files, result),
        facts=lambda plan, result: inner.facts(plan.files, result),
        was_beaten=lambda plan, result: inner.was_beaten(plan.files, result),
    )


# --- rows that move between buckets ------------------------------------------------------------


def moves_text(table: Table, plan: RescalePlan | PostponePlan, purpose: str) -> list[Block]:
    """Which partitions would be rewritten into how many buckets."""
    if not plan.tasks:
        return [f"nothing {purpose} in {plan.table}, {_at(plan)}"]
    columns = [TextColumn(name, right=True) for name in ("buckets", "files", "size", "rows")]
    rows: list[list[Cell]] = []
    for task in plan.tasks:
        buckets = (
            str(task.bucket_count)
            if isinstance(task, PostponeTask)
            else f"{task.from_buckets} → {task.to_buckets}"
        )
        counts: list[Cell] = [buckets, len(task.files), size_text(task.bytes), task.rows]
        rows.append([*partition_cells(task.partition), *counts])
    return [
        (
            f"{counted(len(plan.tasks), 'partition')} of {plan.table} {purpose}, {_at(plan)}: "
            f"{counted(plan.files_before, 'file')}, {size_text(plan.bytes_before)}, "
            f"{counted(plan.rows, 'row')}"
        ),
        *_first_rows(partition_columns(table.schema), columns, rows),
    ]


def moves_report(
    plan: RescalePlan | PostponePlan, result: RescaleResult | PostponeResult
) -> list[Block]:
    """What such a move changed."""
    ids = [snapshot.id for snapshot in result.snapshots]
    lines: list[Block] = [
        before_and_after(
            ("files", f"{result.files_before:,}", f"{result.files_after:,}"),
            ("size", size_text(result.bytes_before), size_text(result.bytes_after)),
            ("rows in files", f"{result.rows_before:,}", f"{result.rows_after:,}"),
        ),
        "",
        (
            f"{snapshots_text(ids)} of {plan.table}: {counted(result.partitions, 'partition')} "
            f"in {duration_text(result.duration_ms)}"
        ),
    ]
    if result.dropped:
        lines.append(
            f"{counted(len(result.dropped), 'partition')} left alone: others changed them "
            "meanwhile; plan again"
        )
    return lines


def moves_facts(result: RescaleResult | PostponeResult) -> dict[str, object]:
    """The figures of such a move."""
    return {**asdict(result), "snapshots": [snapshot.id for snapshot in result.snapshots]}


def rescale_telling(table: Table) -> Telling[RescalePlan, RescaleResult]:
    """What a rescale says."""

    def describe(plan: RescalePlan) -> list[Block]:
        lines = moves_text(table, plan, "to rescale")
        if plan.bucket_option is not None:
            lines.append(f"option bucket becomes {plan.bucket_option}")
        return lines

    return Telling(
        is_empty=lambda plan: not plan.tasks,
        describe=describe,
        summary=rewrite_summary,
        report=moves_report,
        facts=lambda plan, result: moves_facts(result),
    )


def postpone_telling(table: Table) -> Telling[PostponePlan, PostponeResult]:
    """What a move of postponed rows says."""
    return Telling(
        is_empty=lambda plan: not plan.tasks,
        describe=lambda plan: moves_text(table, plan, "to give buckets to"),
        summary=rewrite_summary,
        report=moves_report,
        facts=lambda plan, result: moves_facts(result),
    )


# --- both --------------------------------------------------------------------------------------


def _at(plan: RewritePlan[Any]) -> str:
    return (
        "which has no snapshot" if plan.snapshot_id is None else f"at snapshot {plan.snapshot_id}"
    )


def _places(table: Table) -> list[TextColumn]:
    return [*partition_columns(table.schema), TextColumn("bucket", right=True)]


def _first_rows(
    places: Sequence[TextColumn], columns: Sequence[TextColumn], rows: Sequence[Sequence[Cell]]
) -> list[Block]:
    if not rows:
        return []
    blocks: list[Block] = ["", TextTable([*places, *columns], rows[:_MOST_LINES]), ""]
    if len(rows) > _MOST_LINES:
        blocks[-1:] = [f"… and {len(rows) - _MOST_LINES:,} more; --format json has them all", ""]
    return blocks
