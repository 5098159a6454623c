"""`lakewright plan` and `lakewright run`: compaction, sorting, moves between buckets, expiry."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import reduce

from lakewright.cli.exit_codes import CONFLICT
from lakewright.cli.layout import (
    Cell,
    TextColumn,
    counted,
    duration_text,
    iso_time,
    size_text,
    table_lines,
)
from lakewright.cli.leases import expiry_leased, name_of_run
from lakewright.cli.output import (
    partition_cells,
    partition_columns,
    print_json,
    print_lines,
)
from lakewright.cli.plan_files import AnyPlan, read_plan
from lakewright.cli.warehouse import open_table
from lakewright.platform.known_partitions import check_partitions_known
from lakewright.platform.leases import maintaining, plan_scope
from lakewright.storage import (
    CompactionPlan,
    CompactionResult,
    Engine,
    ExpirePlan,
    ExpireResult,
    ExpireStep,
    Lease,
    LeaseKind,
    LocalEngine,
    PostponePlan,
    PostponeResult,
    RescalePlan,
    RescaleResult,
    SortCompactionPlan,
    Table,
)
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.operations.leases.leases import check_held
from lakewright.storage.operations.rewrite.postpone import PostponeTask
from lakewright.storage.spec.options import BucketMode

# A plan names every bucket; people get the first of them, `--json` has them all.
_MOST_LINES = 40


def run_upkeep(parsed: argparse.Namespace) -> int:
    """Plan a verb, or carry it out."""
    table = open_table(parsed)
    if parsed.verb == "compact":
        return _compact(parsed, table)
    if parsed.verb == "sort-compact":
        return _sort_compact(parsed, table)
    if parsed.verb == "rescale":
        return _rescale(parsed, table)
    if parsed.verb == "postpone-compact":
        return _postpone_compact(parsed, table)
    return _expire_snapshots(parsed, table)


# --- compaction --------------------------------------------------------------------------------


def _compact(parsed: argparse.Namespace, table: Table) -> int:
    plan = read_plan(parsed, table, CompactionPlan, ("partition", "bucket", "full", "min_files"))
    if plan is None:
        _check_buckets(parsed.bucket or (), table)
        plan = table.plan_compact(
            _partition_specs(parsed, table),
            parsed.bucket,
            full=parsed.full,
            min_file_num=parsed.min_files,
        )
    if parsed.command == "plan" or parsed.dry_run:
        return _show_plan(parsed, plan, _compaction_lines(table, plan))
    if not plan.tasks and not parsed.json:
        print_lines(_compaction_lines(table, plan))
        return 0
    with _leased(parsed, table, plan) as lease:
        engine = _engine(parsed.engine) if plan.tasks else None
        result = table.run_compact(plan, engine, verify=parsed.verify, lease=lease)
    if parsed.json:
        print_json(_compaction_json(plan, result))
    else:
        print_lines(_compaction_result_lines(plan, result))
    return CONFLICT if plan.tasks and result.snapshot is None else 0


def _sort_compact(parsed: argparse.Namespace, table: Table) -> int:
    plan = read_plan(parsed, table, SortCompactionPlan, ("partition", "by", "order"))
    if plan is None:
        plan = table.plan_sort_compact(
            parsed.by or (),
            order=parsed.order or "order",
            partitions=_partition_specs(parsed, table),
        )
    lines = _compaction_lines(table, plan.files)
    if parsed.command == "plan" or parsed.dry_run:
        return _show_plan(parsed, plan, lines)
    if not plan.files.tasks and not parsed.json:
        print_lines(lines)
        return 0
    with _leased(parsed, table, plan.files) as lease:
        engine = _engine(parsed.engine) if plan.files.tasks else None
        result = table.run_sort_compact(plan, engine, verify=parsed.verify, lease=lease)
    if parsed.json:
        print_json({**_compaction_json(plan.files, result), "operation": parsed.verb})
    else:
        print_lines(_compaction_result_lines(plan.files, result))
    return CONFLICT if plan.files.tasks and result.snapshot is None else 0


def _partition_specs(parsed: argparse.Namespace, table: Table) -> list[dict[str, object]] | None:
    """The partitions named, where null is written as folders write it."""
    if parsed.partition is None:
        return None
    null = table.options.partition_default_name
    specs = [
        {name: None if text == null else text for name, text in spec.items()}
        for spec in parsed.partition
    ]
    check_partitions_known(table, specs)
    return specs


def _check_buckets(asked: Sequence[int], table: Table) -> None:
    held = {each.bucket for stats in table.partitions() for each in stats.buckets}
    # A bucket may be there and hold nothing yet.
    known = held | set(range(table.options.bucket))
    for bucket in asked:
        if bucket not in known:
            there = ", ".join(str(each) for each in sorted(known)) or "none"
            raise NotFoundError(f"{table.name} has no bucket {bucket}; there are {there}")


@contextmanager
def _leased(
    parsed: argparse.Namespace,
    table: Table,
    plan: CompactionPlan | PostponePlan | RescalePlan,
    kind: LeaseKind = LeaseKind.COMPACT,
) -> Iterator[Lease | None]:
    """Have what the plan rewrites, where there is anything."""
    if not plan.tasks:
        yield None
        return
    run = name_of_run(parsed, table)
    with maintaining(table, kind, plan_scope(table, plan), run=run) as lease:
        yield lease


def _engine(name: str) -> Engine:
    if name == "local":
        return LocalEngine()
    from lakewright.storage.spark import SparkEngine, build_session

    return SparkEngine(build_session("lakewright compact"))


def _compaction_lines(table: Table, plan: CompactionPlan) -> list[str]:
    at = "which has no snapshot" if plan.snapshot_id is None else f"at snapshot {plan.snapshot_id}"
    if not plan.tasks:
        lines = [f"nothing to compact in {plan.table}, {at}"]
        if not plan.skipped and plan.snapshot_id is not None:
            if table.options.bucket_mode is BucketMode.POSTPONE:
                give = f"lakewright run postpone-compact {table.name}"
                return [*lines, f"no files have a bucket; rows that wait for one get it by {give}"]
            return [*lines, "no files in the partitions and buckets asked for"]
        skipped_rows: list[list[Cell]] = [
            [*partition_cells(each.partition), str(each.bucket), each.reason]
            for each in plan.skipped
        ]
        return lines + _first_lines(table, [TextColumn("why not")], skipped_rows)
    lines = [
        (
            f"compaction of {plan.table}, {at}: {counted(plan.files_before, 'file')}, "
            f"{size_text(plan.bytes_before)}, {counted(plan.rows, 'row')} to rewrite "
            f"in {counted(len(plan.tasks), 'task')}"
        )
    ]
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
    lines += _first_lines(table, columns, rows)
    moved = sum(len(task.upgrades) for task in plan.tasks)
    if moved:
        lines.append(f"{counted(moved, 'file')} of these only change their level")
    if plan.skipped:
        lines.append(f"{counted(len(plan.skipped), 'bucket')} left alone")
    return lines


def _first_lines(
    table: Table, columns: Sequence[TextColumn], rows: Sequence[Sequence[Cell]]
) -> list[str]:
    if not rows:
        return []
    places = [*partition_columns(table.schema), TextColumn("bucket", right=True)]
    lines = ["", *table_lines([*places, *columns], rows[:_MOST_LINES]), ""]
    if len(rows) > _MOST_LINES:
        lines[-1:] = [f"… and {len(rows) - _MOST_LINES:,} more; --json has them all", ""]
    return lines


def _compaction_result_lines(plan: CompactionPlan, result: CompactionResult) -> list[str]:
    dropped = (
        f"{counted(result.dropped_tasks, 'task')} of {len(plan.tasks)} dropped: "
        "others changed those files meanwhile, or work on them; plan again"
    )
    if result.snapshot is None:
        return [f"nothing was committed to {plan.table}: {dropped}"]
    lines = _before_and_after(
        [
            ("files", f"{result.files_before:,}", f"{result.files_after:,}"),
            ("size", size_text(result.bytes_before), size_text(result.bytes_after)),
            ("rows", f"{result.rows_before:,}", f"{result.rows_after:,}"),
        ]
    )
    done = len(plan.tasks) - result.dropped_tasks
    lines += [
        "",
        (
            f"snapshot {result.snapshot.id} of {plan.table}: {counted(done, 'task')} "
            f"in {duration_text(result.duration_ms)}"
        ),
    ]
    return [*lines, dropped] if result.dropped_tasks else lines


def _compaction_json(plan: CompactionPlan, result: CompactionResult) -> dict[str, object]:
    snapshot = result.snapshot
    return {
        **asdict(result),
        "operation": "compact",
        "table": plan.table,
        "planned_tasks": len(plan.tasks),
        "snapshot": None
        if snapshot is None
        else {"id": snapshot.id, "time": iso_time(snapshot.time_millis)},
    }


# --- moves between buckets -----------------------------------------------------------------------


def _rescale(parsed: argparse.Namespace, table: Table) -> int:
    plan = read_plan(parsed, table, RescalePlan, ("buckets", "partition"))
    if plan is None:
        if parsed.buckets is None:
            raise InvalidRequestError("say how many buckets there are to be, with --buckets N")
        plan = table.plan_rescale(parsed.buckets, _partition_specs(parsed, table))
    lines = _move_lines(table, plan, "to rescale")
    if plan.bucket_option is not None:
        lines.append(f"option bucket becomes {plan.bucket_option}")
    if parsed.command == "plan" or parsed.dry_run:
        return _show_plan(parsed, plan, lines)
    with _leased(parsed, table, plan, LeaseKind.RESCALE) as lease:
        engine = _engine(parsed.engine) if plan.tasks else None
        result = table.run_rescale(plan, engine, verify=parsed.verify, lease=lease)
    return _show_moves(parsed, plan, result, lines)


def _postpone_compact(parsed: argparse.Namespace, table: Table) -> int:
    plan = read_plan(parsed, table, PostponePlan, ("partition",))
    if plan is None:
        plan = table.plan_postpone_compact(_partition_specs(parsed, table))
    lines = _move_lines(table, plan, "to give buckets to")
    if parsed.command == "plan" or parsed.dry_run:
        return _show_plan(parsed, plan, lines)
    with _leased(parsed, table, plan) as lease:
        engine = _engine(parsed.engine) if plan.tasks else None
        result = table.run_postpone_compact(plan, engine, verify=parsed.verify, lease=lease)
    return _show_moves(parsed, plan, result, lines)


def _move_lines(table: Table, plan: RescalePlan | PostponePlan, purpose: str) -> list[str]:
    at = "which has no snapshot" if plan.snapshot_id is None else f"at snapshot {plan.snapshot_id}"
    if not plan.tasks:
        return [f"nothing {purpose} in {plan.table}, {at}"]
    lines = [
        (
            f"{counted(len(plan.tasks), 'partition')} of {plan.table} {purpose}, {at}: "
            f"{counted(plan.files_before, 'file')}, {size_text(plan.bytes_before)}, "
            f"{counted(plan.rows, 'row')}"
        ),
        "",
    ]
    columns = [TextColumn(name, right=True) for name in ("buckets", "files", "size", "rows")]
    rows: list[list[Cell]] = []
    for task in plan.tasks[:_MOST_LINES]:
        buckets = (
            str(task.bucket_count)
            if isinstance(task, PostponeTask)
            else f"{task.from_buckets} → {task.to_buckets}"
        )
        counts: list[Cell] = [buckets, len(task.files), size_text(task.bytes), task.rows]
        rows.append([*partition_cells(task.partition), *counts])
    lines += [*table_lines([*partition_columns(table.schema), *columns], rows), ""]
    if len(plan.tasks) > _MOST_LINES:
        lines[-1] = f"… and {len(plan.tasks) - _MOST_LINES:,} more; --json has them all"
    return lines


def _show_moves(
    parsed: argparse.Namespace,
    plan: RescalePlan | PostponePlan,
    result: RescaleResult | PostponeResult,
    lines: list[str],
) -> int:
    ids = [snapshot.id for snapshot in result.snapshots]
    if parsed.json:
        told = {**asdict(result), "snapshots": ids, "operation": parsed.verb, "table": plan.table}
        print_json(told)
        return 0
    if not plan.tasks:
        print_lines(lines)
        return 0
    lines = _before_and_after(
        [
            ("files", f"{result.files_before:,}", f"{result.files_after:,}"),
            ("size", size_text(result.bytes_before), size_text(result.bytes_after)),
            ("rows in files", f"{result.rows_before:,}", f"{result.rows_after:,}"),
        ]
    )
    lines += [
        "",
        (
            f"{_range(ids)} of {plan.table}: {counted(result.partitions, 'partition')} "
            f"in {duration_text(result.duration_ms)}"
        ),
    ]
    if result.dropped:
        lines.append(
            f"{counted(len(result.dropped), 'partition')} left alone: others changed them "
            "meanwhile; plan again"
        )
    print_lines(lines)
    return 0


# --- expiry ------------------------------------------------------------------------------------


def _expire_snapshots(parsed: argparse.Namespace, table: Table) -> int:
    options = ("retain_min", "retain_max", "older_than", "max_deletes", "max_time")
    plan = read_plan(parsed, table, ExpirePlan, options)
    retention = {
        "retain_min": parsed.retain_min,
        "retain_max": parsed.retain_max,
        "time_retained_ms": parsed.older_than,
        "max_deletes": parsed.max_deletes,
    }
    if parsed.command == "plan" or parsed.dry_run:
        plan = plan or table.plan_expire_snapshots(**retention)
        return _show_plan(parsed, plan, _expiry_lines(plan))
    before = len(table.files.snapshots.ids())
    with expiry_leased(parsed, table) as lease:
        if plan is not None:
            steps = [ExpireStep(plan, table.run_expire_snapshots(plan))]
        else:
            steps = []
            for step in table.expire_in_steps(**retention, max_duration_ms=parsed.max_time):
                # What it deletes may be many files; how many is all that is told in the end.
                steps.append(ExpireStep(replace(step.plan, files=()), step.result))
                check_held(table.files, lease)
    result = reduce(ExpireResult.and_then, (step.result for step in steps))
    after = len(table.files.snapshots.ids())
    if parsed.json:
        print_json(
            {
                **asdict(result),
                "operation": "expire-snapshots",
                "table": table.name,
                "steps": len(steps),
                "snapshots_before": before,
                "snapshots_after": after,
            }
        )
    elif not result.expired:
        print_lines(_expiry_lines(steps[0].plan))
    else:
        print_lines(_expiry_result_lines(table, result, before, after))
    return 0


def _expiry_lines(plan: ExpirePlan) -> list[str]:
    if not plan.snapshot_ids:
        lines = [f"no snapshot of {plan.table} to expire"]
    else:
        lines = [
            (
                f"expiry of {plan.table}: {_range(plan.snapshot_ids)} to go, and with them "
                f"{counted(len(plan.files), 'file')}, {size_text(plan.bytes)}; "
                f"snapshot {plan.end_id} becomes the earliest"
            )
        ]
        if plan.waiting:
            lines.append(
                f"  this is one step; about {counted(plan.waiting, 'more snapshot')} may go after "
                "it, and run goes on until they have"
            )
    return [*lines, *(f"  {reason}" for reason in plan.reasons)]


def _expiry_result_lines(table: Table, result: ExpireResult, before: int, after: int) -> list[str]:
    return [
        *_before_and_after([("snapshots", f"{before:,}", f"{after:,}")]),
        "",
        (
            f"{_range(result.expired)} of {table.name} expired: "
            f"{counted(result.files_deleted, 'file')}, {size_text(result.bytes_deleted)} deleted "
            f"in {duration_text(result.duration_ms)}"
        ),
    ]


def _range(ids: Sequence[int]) -> str:
    if not ids:
        return "no snapshot"
    if len(ids) == 1:
        return f"snapshot {ids[0]}"
    return f"{len(ids)} snapshots ({ids[0]} to {ids[-1]})"


# --- both --------------------------------------------------------------------------------------


def _before_and_after(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    columns = [TextColumn(""), TextColumn("before", right=True), TextColumn("after", right=True)]
    return table_lines(columns, rows)


def _show_plan(
    parsed: argparse.Namespace,
    plan: AnyPlan,
    lines: list[str],
) -> int:
    if parsed.json:
        # `--plan` takes this back; it reads the plan and leaves the summary aside.
        summary = {"operation": parsed.verb, "summary": _summary(plan)}
        print_json({**summary, **json.loads(plan.to_json())})
        return 0
    print_lines(lines)
    if parsed.command == "run":
        print_lines(["dry run: nothing was written"])
    return 0


def _summary(plan: AnyPlan) -> dict[str, int]:
    if isinstance(plan, SortCompactionPlan):
        return _summary(plan.files)
    if isinstance(plan, ExpirePlan):
        return {
            "snapshots": len(plan.snapshot_ids),
            "files": len(plan.files),
            "size_bytes": plan.bytes,
        }
    return {
        "tasks": len(plan.tasks),
        "files": plan.files_before,
        "size_bytes": plan.bytes_before,
        "rows": plan.rows,
    }
