"""Drops partitions: an OVERWRITE snapshot deletes their files and adds none.

1. Plan from metadata alone: the partitions that a filter or their values select, with the files of
   each.
2. Run: check that each partition still holds exactly these files, so that no row goes that the
   plan did not show. The commit checks this again, in every attempt.
3. All partitions go in one commit. Their files stay on disk as long as a snapshot, tag or branch
   keeps them.

Source: Paimon `FileStoreCommitImpl.dropPartitions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.replace_partitions import commit_partitions
from lakewright.storage.operations.partitions.held_partitions import (
    HeldFiles,
    check_as_planned,
    check_partitioned,
    held_files,
    held_now,
    planned_rows,
)
from lakewright.storage.operations.partitions.select_partitions import (
    Specs,
    check_all_found,
    selected_entries,
    selection,
)
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPartitionsPlan(Plan["DropPartitionsResult"]):
    """The partitions to drop, as of one snapshot."""

    table: str
    snapshot_id: int | None
    partitions: tuple[HeldFiles, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPartitionsResult(Shown):
    """What was dropped; the snapshot is None if there was nothing to drop."""

    snapshot: Snapshot | None
    partitions: tuple[HeldFiles, ...]
    duration_ms: int


def plan_drop_partitions(
    files: TableFiles,
    *,
    where: Predicate | None = None,
    partitions: Specs | None = None,
    if_exists: bool = False,
) -> DropPartitionsPlan:
    """Plan to drop the partitions that a filter selects, or those with given values, or both.

    A spec may leave keys out. With `if_exists`, it is no error if one selects no partition.

    Raises:
        InvalidPredicate: the filter compares other columns than partition keys.
        InvalidRequestError: nothing is asked for, the table has no partition keys, a name is none
            of them, or a value does not fit its type.
        PartitionNotFound: the filter or a spec selects no partition.
    """
    check_partitioned(files)
    asked = selection(files, where=where, partitions=partitions)
    if where is None and (not asked.named or not all(asked.named)):
        raise InvalidRequestError(
            f"say which partitions of {files.name} to drop: by a filter on their keys, or by "
            "values of keys; an overwrite without rows empties a whole table"
        )
    snapshot, found = read_latest(files, lambda latest: selected_entries(files, latest, asked))
    if not if_exists:
        check_all_found(files, snapshot, asked, list(found))
    return DropPartitionsPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        partitions=tuple(held_files(*each) for each in found.items()),
    )


def run_drop_partitions(files: TableFiles, plan: DropPartitionsPlan) -> DropPartitionsResult:
    """Drop the planned partitions in one commit.

    Raises:
        StalePlan: a partition holds other files than planned; nothing is dropped.
        SchemaMoved: the table's schema changed since it was opened.
        RetriesExhausted: other processes committed too often; nothing is dropped.
    """
    started = files.env.now_ms()
    check_partitioned(files)
    planned = planned_rows(files, plan.partitions)
    now = held_now(files, planned)
    check_as_planned(files, planned, now, plan.snapshot_id)
    snapshot, _ = commit_partitions(
        files, now.names(planned), user=files.env.new_id(), base=now.snapshot
    )
    return DropPartitionsResult(
        snapshot=snapshot, partitions=plan.partitions, duration_ms=files.env.now_ms() - started
    )
