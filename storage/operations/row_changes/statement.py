"""What deletes, updates and merges share: their plans and results, staging, and one commit."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeAlias

import pyarrow as pa

from lakewright.storage.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    FileMissing,
    RetriesExhausted,
    SchemaMoved,
    SnapshotNotFound,
    StalePlan,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.pending import commit_or_abort
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.references.sweep import sweep_after_failure, sweep_repeated
from lakewright.storage.operations.rewrite.compact import CompactOptions, plan_compact, run_compact
from lakewright.storage.operations.rewrite.compact_written import WriterCompaction, compact_written
from lakewright.storage.operations.row_changes.matches import Match, Matches, find_matches
from lakewright.storage.operations.row_changes.remove_rows import Removal, remove_rows
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import Plan, ResultT
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_files import level_0_waits, live_entries
from lakewright.storage.operations.state.rewrite_schema import check_current_schema
from lakewright.storage.operations.write.write import (
    StagingJob,
    StagingWriter,
    prepare_write,
    staged_write,
)
from lakewright.storage.spec.commit import CommitMessage, StagedWrite, WriteMode
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot

_LOG = logging.getLogger(__name__)

# A statement that others get ahead of is planned anew so many times.
_ATTEMPTS = 5
_WAIT_MS = 50
# Files for one task.
_TASK_BYTES = 256 << 20

# What becomes of matching rows; picklable.
Transform: TypeAlias = Callable[[TableFiles, pa.Table], pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedBucket:
    """Rows of a bucket that change, and its files that are written again, of so many bytes."""

    partition: dict[str, object]
    bucket: int
    rows: int
    files: tuple[str, ...]
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangePlan(Plan[ResultT]):
    """What a statement would do to a snapshot: the files it opens, the rows that it changes.

    A run carries the statement out on the latest snapshot, whatever was committed since the plan.
    """

    table: str
    snapshot_id: int | None
    files_opened: int
    bytes_opened: int
    rows: int
    buckets: tuple[ChangedBucket, ...]

    @classmethod
    def of(cls, files: TableFiles, matches: Matches, **statement: Any) -> Self:
        """The plan of a statement that changes the rows which a filter selects."""
        return cls(
            table=files.name,
            snapshot_id=None if matches.snapshot is None else matches.snapshot.id,
            files_opened=sum(len(each.files) for each in matches.opened),
            bytes_opened=sum(file.file_size for each in matches.opened for file in each.files),
            rows=matches.rows,
            buckets=planned_buckets(files, matches.found),
            **statement,
        )

    @property
    def files_rewritten(self) -> int:
        return sum(len(bucket.files) for bucket in self.buckets)

    @property
    def work_bytes(self) -> int | None:
        return self.bytes_rewritten

    @property
    def bytes_rewritten(self) -> int:
        return sum(bucket.bytes for bucket in self.buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeResult(Shown):
    """What a statement did; the snapshot is None if it changed no row.

    `files_removed` left the table, `files_written` and `bytes_written` are new. `compaction` is of
    tables whose readers see new rows after a compaction only.
    """

    snapshot: Snapshot | None
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    files_removed: int = 0
    files_written: int = 0
    bytes_written: int = 0
    attempts: int = 1
    compaction: WriterCompaction | None = None
    duration_ms: int = 0


def check_same_statement(files: TableFiles, plan: RowChangePlan[Any]) -> None:
    """Check that a plan is of a history that this table still has.

    Raises:
        StalePlan: the table was dropped and created again since, or its snapshots rolled back.
    """
    latest = files.snapshots.latest_id()
    if plan.snapshot_id is not None and (latest is None or latest < plan.snapshot_id):
        raise StalePlan(
            f"the plan for {files.name} was made at snapshot {plan.snapshot_id}, and its latest is "
            f"{latest or 'none'} now: it was created again or rolled back since; plan again"
        )


def planned_buckets(files: TableFiles, found: Sequence[Match]) -> tuple[ChangedBucket, ...]:
    """The buckets of matches, with their files that are written again."""
    by_place: dict[tuple[bytes, int], list[Match]] = defaultdict(list)
    for each in found:
        by_place[each.split.partition, each.split.bucket].append(each)
    rewrites = not files.schema.is_keyed and not files.options.deletion_vectors_enabled
    result = []
    for (partition, bucket), matches in by_place.items():
        again = [each for each in matches if rewrites and not each.whole]
        result.append(
            ChangedBucket(
                partition=files.partitions.of_row(partition).spec,
                bucket=bucket,
                rows=sum(each.rows for each in matches),
                files=tuple(file.file_name for each in again for file in each.split.files),
                bytes=sum(each.bytes for each in again),
            )
        )
    return tuple(result)


def with_kind(rows: pa.Table, kind: RowKind) -> pa.Table:
    """The rows with a column of their kind."""
    kinds = pa.repeat(pa.scalar(kind.short), rows.num_rows)
    return rows.append_column(ROW_KIND_COLUMN, kinds)


def job_on(files: TableFiles, snapshot: Snapshot | None) -> StagingJob:
    """A job that stages rows made of those of a snapshot."""
    job = prepare_write(files, mode=WriteMode.APPEND)
    return replace(
        job,
        base_snapshot_id=None if snapshot is None else snapshot.id,
        base_commit=None if snapshot is None else snapshot.delta_manifest_list,
        keeps_nulls=True,
    )


def change_matches(
    files: TableFiles, predicate: Predicate | None, transform: Transform | None, engine: Engine
) -> tuple[RowChangeResult, int]:
    """Publish what becomes of the matching rows, None for nothing; the result, and their number.

    Of append tables the rows of before leave their files.
    """
    matches = find_matches(files, predicate, engine)
    job = job_on(files, matches.snapshot)
    staged: list[CommitMessage] = []
    removed: list[CommitMessage] = []
    with swept_on_failure(job):
        if transform is not None:
            staged = _stage_changed(job, matches, predicate, transform, engine)
        if not files.schema.is_keyed:
            removals = [
                Removal(each.split, whole=each.whole, predicate=predicate) for each in matches.found
            ]
            removed = remove_rows(files, matches.snapshot, removals, engine, job.write_id)
    result = publish(job, staged, removed, engine, reads_base=files.schema.is_keyed)
    return result, matches.rows


def _stage_changed(
    job: StagingJob,
    matches: Matches,
    predicate: Predicate | None,
    transform: Transform,
    engine: Engine,
) -> list[CommitMessage]:
    """Read the matching rows in tasks, and stage what becomes of them."""
    snapshot_id = None if matches.snapshot is None else matches.snapshot.id
    task = partial(_stage, job, predicate, snapshot_id, transform)
    tasks = list(_tasks(job.files, [each.split for each in matches.found]))
    return [message for messages in engine.map(task, tasks) for message in messages]


def _tasks(files: TableFiles, splits: Sequence[DataSplit]) -> Iterator[tuple[DataSplit, ...]]:
    if files.schema.is_keyed and files.options.bucket_mode is not BucketMode.FIXED:
        # Two tasks would give a key two buckets.
        yield tuple(splits)
        return
    task: list[DataSplit] = []
    size = 0
    for split in splits:
        moved_on = task and split.place != task[-1].place
        if task and (moved_on if files.schema.is_keyed else size >= _TASK_BYTES):
            yield tuple(task)
            task, size = [], 0
        task.append(split)
        size += sum(file.file_size for file in split.files)
    if task:
        yield tuple(task)


def _stage(
    job: StagingJob,
    predicate: Predicate | None,
    snapshot_id: int | None,
    transform: Transform,
    splits: Sequence[DataSplit],
) -> tuple[CommitMessage, ...]:
    reader = SplitReader(job.files, columns=None, predicate=predicate, snapshot_id=snapshot_id)
    writer = StagingWriter(job)
    try:
        for split in splits:
            for rows in reader.read(split):
                if rows.num_rows:
                    writer.write(transform(job.files, rows))
        return writer.close()
    except BaseException:
        writer.abandon()
        raise


@contextmanager
def swept_on_failure(job: StagingJob) -> Iterator[None]:
    """Delete what tasks have written if one of them fails, such as one whose snapshot expired."""
    try:
        with told_if_expired(job.files, job.base_snapshot_id):
            yield
    except BaseException:
        sweep_after_failure(job.files, [job.write_id], since_snapshot_id=job.base_snapshot_id)
        raise


def publish(
    job: StagingJob,
    staged: Sequence[CommitMessage],
    removed: Sequence[CommitMessage],
    engine: Engine,
    *,
    reads_base: bool,
) -> RowChangeResult:
    """Publish new rows and removals in one snapshot; with `reads_base` if no row changed since.

    Raises:
        CommitConflictError: another commit changed the files or rows; nothing is written.
    """
    files = job.files
    messages = (*staged, *removed)
    if not messages:
        return RowChangeResult(snapshot=None)
    write: StagedWrite = replace(staged_write(job, staged), messages=messages)
    # Indexes of dynamic buckets are conflicts where rows of two writers would meet.
    result = commit_or_abort(files, write, reads_base=reads_base)
    if engine.may_repeat:
        with suppress(CommitConflictError):
            sweep_repeated(files, job.write_id, messages, since_snapshot_id=job.base_snapshot_id)
    written = [file for message in messages for file in message.written_files]
    moved = {file.file_name for message in messages for file in message.compact_before}
    return RowChangeResult(
        snapshot=result.snapshot,
        files_removed=len(moved),
        files_written=len(written),
        bytes_written=sum(file.file_size for file in written),
        compaction=_compaction(files, staged, engine),
    )


def _compaction(
    files: TableFiles, staged: Sequence[CommitMessage], engine: Engine
) -> WriterCompaction | None:
    """The compaction without which readers do not see rows of level 0, if the table needs it."""
    if not staged or not level_0_waits(files):
        return None
    touched = {each.partition for each in staged}
    specs = [files.partitions.of_row(row).spec for row in sorted(touched)]
    compacted = compact_written(files, specs, lambda _: engine)
    if compacted.failure is not None:
        _LOG.warning(
            "the changes of %s are committed, and readers see them after a compaction, which "
            "failed (%s); run `lakewright compact %s`, and do not repeat the statement",
            files.name,
            compacted.failure,
            files.name,
        )
    return compacted


def _settle(files: TableFiles, engine: Engine) -> None:
    """Compact what readers do not see yet, so that a statement misses no row.

    Raises:
        UnsupportedError: the table forbids writers to compact.
    """
    if not level_0_waits(files):
        return
    if files.options.write_only:
        raise UnsupportedError(
            f"rows that are written to {files.name} are seen after a compaction, which "
            "write-only=true forbids to writers; write rows with their kinds, or set "
            "write-only=false"
        )
    _, waits = read_latest(
        files, lambda latest: any(not entry.file.level for entry in live_entries(files, latest))
    )
    if waits:
        run_compact(files, plan_compact(files, CompactOptions()), engine)


def carried_out(
    files: TableFiles, engine: Engine, attempt: Callable[[TableFiles], RowChangeResult]
) -> RowChangeResult:
    """The result of an attempt; one that other commits got ahead of is made again.

    Raises:
        UnsupportedError: rows wait for a compaction that the table forbids.
        CommitConflictError: others got ahead of five attempts; nothing is written.
    """
    started_ms = files.env.now_ms()
    for number in range(1, _ATTEMPTS + 1):
        try:
            check_current_schema(files)
            # A compaction is no sign that the run has carried its statement out.
            _settle(replace(files, run=None), engine)
            result = attempt(files.with_row_ids())
        except (RetriesExhausted, SchemaMoved, CommitOutcomeUnknownError):
            raise
        except (CommitConflictError, SnapshotNotFound, FileMissing):
            if number == _ATTEMPTS:
                raise
            # Of statements that are in each other's way, each has its turn.
            files.env.sleep_ms(_WAIT_MS * 2**number * files.env.jitter())
        else:
            duration_ms = files.env.now_ms() - started_ms
            return replace(result, attempts=number, duration_ms=duration_ms)
    raise AssertionError
