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

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from lakewright.storage.errors import InvalidRequestError, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.bin_packing import pack_in_order
from lakewright.storage.lsm.universal_compaction import CompactionUnit
from lakewright.storage.operations.rewrite.compact import (
    BucketWork,
    planned_buckets,
    rewrite_buckets,
)
from lakewright.storage.operations.rewrite.compact_append import AppendTask
from lakewright.storage.operations.rewrite.compact_outputs import deletions_of
from lakewright.storage.operations.rewrite.compaction_plan import (
    BucketsPlan,
    CompactionResult,
    CompactionTask,
)
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.running.verb_options import BYTES, option
from lakewright.storage.operations.write.copy_files import CopyRun
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.file_names import copy_name
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.supported_options import Use, check_supported

# What one commit brings home, or one file.
MOST_FILES, MOST_BYTES = 10_000, 128 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlePlan(BucketsPlan["SettleResult"]):
    """The files that are away, by the buckets to which they come home."""


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


@dataclass(frozen=True)
class SettleOptions:
    """How much is copied."""

    max_bytes: int | None = option(BYTES, None, "Copy at most this size, or one file.")


def plan_settle(files: TableFiles, options: SettleOptions) -> SettlePlan:
    """Bring files that a change of partition keys left behind into the folders of their keys.

    The store copies them; no row is read. A plan with `max_bytes` copies no more than that, or one
    file.

    Raises:
        UnsupportedError: the table has an option that is not implemented.
        InvalidRequestError: `max_bytes` is too small.
    """
    check_supported(files.schema, Use.COMPACT, table=files.name)
    max_bytes = whole_or_none(options.max_bytes, "max_bytes")
    if max_bytes is not None and max_bytes < 1:
        raise InvalidRequestError(f"max_bytes is {max_bytes}; give at least 1, or None for all")
    most_bytes = min(MOST_BYTES, max_bytes or MOST_BYTES)

    def pick(
        metas: Sequence[DataFileMeta], _: Sequence[IndexFileMeta]
    ) -> tuple[list[CompactionUnit], str]:
        away = [] if files.schema.is_keyed else [meta for meta in metas if is_away(files, meta)]
        why = "named by their places"
        parts = pack_in_order(
            away, (lambda _: 1, MOST_FILES), (lambda each: each.file_size, most_bytes)
        )
        return [CompactionUnit(files=part, output_level=0, reason=why) for part in parts], why

    plan = planned_buckets(files, pick, partitions=None)
    tasks = plan.tasks
    if max_bytes is not None:
        sums = list(accumulate(task.bytes for task in tasks))
        tasks = tasks[: max(1, bisect_right(sums, max_bytes))]
    taken = sum(task.bytes for task in tasks)
    return SettlePlan(
        table=plan.table,
        snapshot_id=plan.snapshot_id,
        tasks=tasks,
        skipped=(),
        bytes_left=plan.bytes_before - taken,
    )


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
    for tasks in _batches(plan.tasks):
        part = replace(plan, tasks=tuple(tasks))
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
        files_left=plan.files_before - home,
        duration_ms=files.env.now_ms() - started_ms,
    )


def _batches(tasks: Sequence[CompactionTask]) -> Iterator[list[CompactionTask]]:
    """What is committed together: of a bucket one task, as its index files are replaced once."""
    batch: list[CompactionTask] = []
    places: set[tuple[str, int]] = set()
    count = size = 0
    for task in tasks:
        place = str(task.partition), task.bucket
        full = count + len(task.files) > MOST_FILES or size + task.bytes > MOST_BYTES
        if batch and (full or place in places):
            yield batch
            batch, places, count, size = [], set(), 0, 0
        batch.append(task)
        places.add(place)
        count += len(task.files)
        size += task.bytes
    if batch:
        yield batch


def _copied(files: TableFiles, write_id: str, work: BucketWork) -> tuple[CommitMessage, ...]:
    assert isinstance(work, AppendTask)
    names = {file.file_name for file in work.files}
    # Those of a bucket are replaced as a whole.
    indexes = work.indexes if deletions_of(work.indexes, names) else ()
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
            compact_after=tuple(copy.file for copy in copies),
            new_indexes=tuple(copied_index.file for copied_index in copied_indexes),
        ),
    )
