"""Folders of other systems as verbs: taken over as partitions, and compared with them later.

Neither leases anything: what they add, no other process knows, and a repair leaves leased
partitions alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakewright.platform.upkeep.procedure import (
    Command,
    NamedPartition,
    Outcome,
    Procedure,
    Report,
    Rows,
)
from lakewright.platform.upkeep.words import counted, size_text
from lakewright.storage import Table
from lakewright.storage.operations.partitions.add_partitions import (
    AddedPartition,
    AddPartitionsOptions,
    AddPartitionsPlan,
    AddPartitionsResult,
)
from lakewright.storage.operations.partitions.repair_partitions import (
    RepairOptions,
    RepairPlan,
    RepairResult,
)
from lakewright.storage.upkeep import Upkeep

# --- adding ---------------------------------------------------------------------------------------


def _added_rows(partitions: Sequence[AddedPartition]) -> Rows:
    return [
        {
            "partition": NamedPartition(partition.partition),
            "folder": partition.folder,
            "files": len(partition.files),
            "rows": partition.rows,
            "bytes": partition.bytes,
        }
        for partition in partitions
    ]


def _distinct(partitions: Iterable[Mapping[str, object]]) -> tuple[Mapping[str, object], ...]:
    """Partitions, each once: several folders may be of one, such as `hour=1` and `hour=01`."""
    return tuple({tuple(partition.items()): partition for partition in partitions}.values())


def _report_add(
    _: Table, done: Outcome[AddPartitionsOptions, AddPartitionsPlan, AddPartitionsResult]
) -> Report:
    plan, result = done.plan, done.result
    partitions = _distinct(partition.partition for partition in plan.partitions)
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


ADD_PARTITIONS = Procedure(
    verb=Upkeep.add_partitions,
    options=AddPartitionsOptions,
    report=_report_add,
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
)


# --- repair ---------------------------------------------------------------------------------------


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


REPAIR_PARTITIONS = Procedure(
    verb=Upkeep.repair_partitions,
    options=RepairOptions,
    report=_report_repair,
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
)
