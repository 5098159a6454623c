"""What commands share that rewrite data files: partitions, engines, tables of tasks, results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from lakewright.cli.output.partitions import partition_cells, partition_columns
from lakewright.cli.output.progress import CountedEngine, Steps
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell, counted, duration_text, iso_time, size_text
from lakewright.cli.upkeep.deletions import snapshots_text
from lakewright.platform.upkeep.known_partitions import check_partitions_known
from lakewright.storage import (
    CompactionPlan,
    CompactionResult,
    Engine,
    LocalEngine,
    PostponePlan,
    PostponeResult,
    RescalePlan,
    RescaleResult,
    Table,
)
from lakewright.storage.operations.rewrite.postpone import PostponeTask
from lakewright.storage.operations.running.plan import RewritePlan
from lakewright.storage.spec.options import BucketMode

# A plan names every bucket; people get the first of them, programs all.
_MOST_LINES = 40


def known_partitions(
    table: Table, named: Sequence[dict[str, object]]
) -> list[dict[str, object]] | None:
    """The partitions named, where null is written as folders write it; None where none were.

    Raises:
        NotFoundError: the table has no such partition.
    """
    if not named:
        return None
    null = table.options.partition_default_name
    specs = [
        {name: None if text == null else text for name, text in spec.items()} for spec in named
    ]
    check_partitions_known(table, specs)
    return specs


def engine_of(name: str, steps: Steps, step: str) -> Engine:
    """Where tasks run; Spark takes seconds to start and is imported by those who ask for it."""
    if name == "local":
        return CountedEngine(LocalEngine(), steps, step)
    from lakewright.storage.spark import SparkEngine, build_session

    steps.begin("starting Spark")
    engine = SparkEngine(build_session(f"lakewright {step}"))
    steps.begin(step)
    return engine


def rewrite_summary(plan: RewritePlan) -> dict[str, object]:
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


# --- both --------------------------------------------------------------------------------------


def _at(plan: RewritePlan) -> str:
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
