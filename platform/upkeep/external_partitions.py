"""Folders of other systems as verbs: taken over as partitions, and compared with them later.

Neither leases anything: what they add, no other process knows, and a repair leaves leased
partitions alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakewright.platform.upkeep.options import (
    DURATION,
    FLAG,
    PARTITIONS,
    TEXT,
    Partitions,
    choice,
    names,
    option,
)
from lakewright.platform.upkeep.verb import Command, NamedPartition, Outcome, Report, Rows, Verb
from lakewright.platform.upkeep.words import counted, size_text
from lakewright.storage import RepairMode, Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.partitions.add_partitions import AddedPartition
from lakewright.storage.plans import (
    AddPartitionsPlan,
    AddPartitionsResult,
    RepairPlan,
    RepairResult,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderOptions:
    """How folders are read."""

    folder: str | None = option(
        TEXT, None, "The folder of partition folders, by its path or URI.", place="FOLDER"
    )
    partitions: Partitions | None = option(
        PARTITIONS,
        None,
        "Values that no folder's name gives; with all keys, the folder is one partition.",
    )
    keys: tuple[str, ...] | None = option(
        names(may_be_none=True),
        None,
        "The keys of folders that hold values alone, one for each level.",
    )
    age_ms: int | None = option(
        DURATION, None, "Refuse files that were written within this time; 1m by default."
    )


def _given(options: FolderOptions) -> dict[str, object] | None:
    if options.partitions is None:
        return None
    if len(options.partitions) != 1:
        raise InvalidRequestError(
            f"{len(options.partitions)} partitions are given, and a folder is in one; name one"
        )
    return dict(options.partitions[0])


# --- adding ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsOptions(FolderOptions):
    """What is taken over, and how."""

    copy_files: bool = option(
        FLAG,
        default=False,
        text="Copy the files below the table, instead of referring to them.",
        flag="--copy",
    )
    into_existing: bool = option(
        FLAG, default=False, text="Add to partitions that have other files, too."
    )


def _plan_add(table: Table, options: AddPartitionsOptions) -> AddPartitionsPlan:
    if options.folder is None:
        raise InvalidRequestError(f"say which folder {table.name} is to take over")
    return table.upkeep.plan_add_partitions(
        options.folder,
        partition=_given(options),
        keys=options.keys,
        copy=options.copy_files,
        into_existing=options.into_existing,
        age_ms=options.age_ms,
    )


def _added_rows(partitions: Sequence[AddedPartition]) -> Rows:
    return [
        {
            "partition": NamedPartition(each.partition),
            "folder": each.folder,
            "files": len(each.files),
            "rows": each.rows,
            "bytes": each.bytes,
        }
        for each in partitions
    ]


def _distinct(partitions: Iterable[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
    """Partitions, each once: several folders may be of one, such as `hour=1` and `hour=01`."""
    return tuple({tuple(each.items()): each for each in partitions}.values())


def _report_add(
    _: Table, done: Outcome[AddPartitionsOptions, AddPartitionsPlan, AddPartitionsResult]
) -> Report:
    plan, result = done.plan, done.result
    partitions = _distinct(each.partition for each in plan.partitions)
    what = (
        f"{counted(len(partitions), 'partition')} with {counted(plan.rows, 'row')} in "
        f"{counted(plan.files, 'file')}, {size_text(plan.bytes)}"
    )
    facts = {
        "partitions": len(partitions),
        "files": plan.files,
        "rows": plan.rows,
        "size_bytes": plan.bytes,
        "known_files": plan.known_files,
    }
    notes = []
    if plan.known_files:
        are = "is" if plan.known_files == 1 else "are"
        notes.append(f"{counted(plan.known_files, 'file')} there {are} part of the table already")
    if plan.partitions:
        notes.append(
            "the files are copied, and the copies are the table's own"
            if plan.copy
            else "the files stay where they lie, and no verb of this table deletes them"
        )
    if plan.allows is not None:
        notes.append(f"readers of the table may read below {plan.allows}")
    if not plan.partitions:
        return Report(
            summary=f"{plan.table} has all files of {plan.folder}",
            facts=facts,
            notes=tuple(notes),
            is_empty=True,
        )
    snapshot = None if result is None else result.snapshot
    how = "copied" if plan.copy else "taken over"
    summary = (
        f"{plan.table}: {what} to be {how}"
        if snapshot is None
        else f"snapshot {snapshot.id} of {plan.table}: {what} {how}"
    )
    return Report(
        summary=summary,
        facts=facts,
        tables={"plan" if snapshot is None else "added": _added_rows(plan.partitions)},
        notes=tuple(notes),
        partitions=() if snapshot is None else partitions,
        snapshot=snapshot,
    )


ADD_PARTITIONS = Verb(
    name="add_partitions",
    summary="take over folders of files of other systems",
    command=Command(
        purpose="Partitions",
        notes="""
The files are Parquet, ORC or Avro. They stay where they lie, and stay yours: no verb of the table
deletes them, also not when their partition is dropped or expires. Other Paimon clients of version
1.0 or later read them too, and may delete them when they expire snapshots.
""",
        examples="""
lakewright add-partitions shop.orders /landing/orders --dry-run
lakewright add-partitions shop.orders /landing/2024-01-31 --partition dt=2024-01-31
lakewright add-partitions shop.views /landing/views --keys dt,country
""",
    ),
    options=AddPartitionsOptions,
    plan_type=AddPartitionsPlan,
    plan=_plan_add,
    run=lambda table, plan, options, work: table.upkeep.run(plan),
    report=_report_add,
)


# --- repair ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions(FolderOptions):
    """What is compared, and what is done about it."""

    mode: RepairMode = option(
        choice(RepairMode),
        RepairMode.ADD,
        "What to change: add what is found, drop what is gone, or sync: both.",
    )


def _plan_repair(table: Table, options: RepairOptions) -> RepairPlan:
    return table.upkeep.plan_repair_partitions(
        options.folder,
        partition=_given(options),
        keys=options.keys,
        mode=options.mode,
        age_ms=options.age_ms,
    )


def _drift_rows(table: Table, plan: RepairPlan) -> Rows:
    is_partitioned = bool(table.schema.partition_keys)
    found = (
        (each.partition, "found", len(each.files), each.rows, each.folder) for each in plan.found
    )
    gone = (
        (each.partition, "gone", len(each.files), each.rows, each.files[0]) for each in plan.gone
    )
    left = ((each.partition, "skipped", None, None, each.reason) for each in plan.left)
    return [
        {
            "partition": NamedPartition(partition if partition or not is_partitioned else None),
            "drift": drift,
            "files": files,
            "rows": rows,
            "folder_or_reason": told,
        }
        for partition, drift, files, rows, told in (*found, *gone, *left)
    ]


def _report_repair(table: Table, done: Outcome[RepairOptions, RepairPlan, RepairResult]) -> Report:
    plan, result = done.plan, done.result
    found = sum(len(each.files) for each in plan.found)
    gone = sum(len(each.files) for each in plan.gone)
    facts = {
        "known_files": plan.known_files,
        "files_found": found,
        "rows_found": sum(each.rows for each in plan.found),
        "files_gone": gone,
        "rows_gone": sum(each.rows for each in plan.gone),
        "folders_left": len(plan.left),
        "mode": plan.mode.value,
    }
    drift = (
        f"{counted(found, 'file')} found, {counted(gone, 'file')} gone, "
        f"{counted(len(plan.left), 'folder')} skipped"
    )
    rows = _drift_rows(table, plan)
    snapshot = None if result is None else result.snapshot
    if snapshot is None or result is None:
        nothing = not plan.to_add and not plan.to_drop
        notes = [f"mode {plan.mode.value}: this would change nothing"] if nothing else []
        return Report(
            summary=f"{plan.table}: {drift}",
            facts=facts,
            tables={"drift": rows},
            notes=tuple(notes) if found or gone or plan.left else (),
            is_empty=nothing,
        )
    return Report(
        summary=f"snapshot {snapshot.id} of {plan.table}: "
        f"{counted(result.files_added, 'file')} with {counted(result.rows_added, 'row')} added, "
        f"{counted(result.files_dropped, 'file')} with {counted(result.rows_dropped, 'row')} "
        "dropped",
        facts={**facts, "files_added": result.files_added, "files_dropped": result.files_dropped},
        tables={"drift": rows},
        partitions=_distinct(
            [
                *(each.partition for each in plan.to_add),
                *(each.partition for each in plan.to_drop),
            ]
        ),
        snapshot=snapshot,
    )


REPAIR_PARTITIONS = Verb(
    name="repair_partitions",
    summary="compare with the folders that were taken over",
    command=Command(
        purpose="Partitions",
        notes="""
Without FOLDER, all folders that the table took over are compared. The report has the files that
the table lacks, those that are gone, and folders that are skipped, with the reasons: a writer
is at work, a file was written over, or the partition has files of the table's own.
""",
        examples="""
lakewright repair-partitions shop.orders --dry-run
lakewright repair-partitions shop.orders --mode sync
""",
    ),
    options=RepairOptions,
    plan_type=RepairPlan,
    plan=_plan_repair,
    run=lambda table, plan, options, work: table.upkeep.run(plan),
    report=_report_repair,
)
