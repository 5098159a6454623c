"""Settling: brings files that manifests name by their whole places into the folders of their keys.

A change of partition keys leaves the files of an append table where they lie. Until they are
settled, a table that is copied, moved or renamed cannot be read.

1. Plan: find the live files that are named by a place below the table.
2. Have the store copy them, under new names, into the folders where readers look without a place.
   Deletion vectors get an index file that names the copies. No row is read.
3. Commit them in place of the files that they are copies of (`runner.py`), some at a time, so that
   a run that dies has brought home what it committed.

What other commits replaced meanwhile is passed over. The files at the former places stay until the
snapshots, tags and branches that name them are gone, and are then deleted as any others. A copy has
a name that was never used: the deletion of a name that is reached no more cannot meet it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakewright.storage.errors import InvalidRequestError, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.universal_compaction import CompactionUnit
from lakewright.storage.operations.rewrite.compact import (
    BucketWork,
    planned_buckets,
    rewrite_buckets,
    within,
)
from lakewright.storage.operations.rewrite.compact_append import AppendTask
from lakewright.storage.operations.rewrite.compaction_plan import (
    CompactionPlan,
    CompactionResult,
    CompactionTask,
)
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.write.copy_files import CopyRun
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.file_names import copy_name
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.supported_options import Use, check_supported

# What one commit brings home; a bucket with deletion vectors comes as a whole, however large.
MOST_FILES, MOST_BYTES = 1000, 16 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlePlan(Plan["SettleResult"]):
    """The files that are away, by the buckets to which they come home."""

    files: CompactionPlan

    @property
    def table(self) -> str:
        return self.files.table


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleResult(Shown):
    """What came home; `files_left` were replaced or worked on by others meanwhile."""

    snapshot_ids: tuple[int, ...]
    files: int
    bytes: int
    files_left: int
    duration_ms: int


def is_away(files: TableFiles, file: DataFileMeta) -> bool:
    """Whether a file of the table is named by its whole place; files of other systems are not."""
    return file.external_path is not None and not files.is_foreign(file)


def plan_settle(files: TableFiles, *, max_bytes: int | None = None) -> SettlePlan:
    """Bring files that a change of partition keys left behind into the folders of their keys.

    The store copies them; no row is read. A plan with `max_bytes` copies no more than that, or one
    bucket.

    Raises:
        UnsupportedError: the table has an option that is not implemented.
        InvalidRequestError: `max_bytes` is too small.
    """
    check_supported(files.schema, Use.COMPACT, table=files.name)
    max_bytes = whole_or_none(max_bytes, "max_bytes")
    if max_bytes is not None and max_bytes < 1:
        raise InvalidRequestError(f"max_bytes is {max_bytes}; give at least 1, or None for all")

    def pick(
        metas: Sequence[DataFileMeta], indexes: Sequence[IndexFileMeta]
    ) -> tuple[list[CompactionUnit], str]:
        away = [each for each in metas if is_away(files, each)]
        if files.schema.is_keyed or not away:
            return [], "its files are home"
        # The index of a bucket is replaced once in a commit.
        size = len(away) if indexes else MOST_FILES
        units = [
            CompactionUnit(
                files=tuple(away[at : at + size]), output_level=0, reason="named by their places"
            )
            for at in range(0, len(away), size)
        ]
        return units, ""

    plan = planned_buckets(files, pick, partitions=None)
    plan = plan if max_bytes is None else within(plan, max_bytes)
    return SettlePlan(files=replace(plan, skipped=()))


def run_settle(files: TableFiles, plan: SettlePlan, *, lease: Lease | None = None) -> SettleResult:
    """Carry a plan out, commit by commit; with a lease, only what it covers.

    Raises:
        StalePlan: other commits changed all planned files; plan again.
        LeaseLost: the lease was lost, or all its partitions were taken.
        SchemaMoved: the table's schema changed since it was opened.
        CorruptionError: a file is not as long as its metadata says; its commit was not made.
    """
    started_ms = files.env.now_ms()
    done: list[CompactionResult] = []
    stale: StalePlan | None = None
    for tasks in _batches(plan.files.tasks):
        part = replace(plan.files, tasks=tuple(tasks))
        try:
            done.append(rewrite_buckets(files, part, LocalEngine(env=files.env), _copied, lease))
        except StalePlan as error:
            stale = error
    if stale is not None and not done:
        raise stale
    home = sum(each.files_before for each in done)
    return SettleResult(
        snapshot_ids=tuple(each.snapshot.id for each in done if each.snapshot is not None),
        files=home,
        bytes=sum(each.bytes_before for each in done),
        files_left=plan.files.files_before - home,
        duration_ms=files.env.now_ms() - started_ms,
    )


def _batches(tasks: Sequence[CompactionTask]) -> Iterator[list[CompactionTask]]:
    """What is committed together."""
    batch: list[CompactionTask] = []
    count = size = 0
    for task in tasks:
        full = count + len(task.files) > MOST_FILES or size + task.bytes > MOST_BYTES
        if batch and full:
            yield batch
            batch, count, size = [], 0, 0
        batch.append(task)
        count += len(task.files)
        size += task.bytes
    if batch:
        yield batch


def _copied(files: TableFiles, write_id: str, work: BucketWork) -> tuple[CommitMessage, ...]:
    assert isinstance(work, AppendTask)
    names = {each.file_name for each in work.files}
    indexes = tuple(
        each
        for each in work.indexes
        if any(vector.data_file in names for vector in each.deletion_vectors or ())
    )
    message = CommitMessage(
        partition=work.partition,
        bucket=work.bucket,
        total_buckets=work.total_buckets,
        compact_before=work.files,
        removed_indexes=indexes,
    )
    # The id of the whole commit, by which the runner finds what failed; no file is copied twice.
    run = CopyRun(files, files, partial(copy_name, write_id.rpartition("-")[0]))
    copies, copied_indexes = run.copied(
        message.entries(message.compact_before), message.removed_index_entries
    )
    return (
        replace(
            message,
            compact_after=tuple(each.file for each in copies),
            new_indexes=tuple(each.file for each in copied_indexes),
        ),
    )
