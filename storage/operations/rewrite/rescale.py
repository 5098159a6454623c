"""Rescaling: the rows of partitions move into another number of buckets.

1. Plan, from metadata alone: which partitions have another count than asked for.
2. Where the whole table is meant, change its option first: from then on nobody begins
   a partition with the old count, and writes to those that still have it are refused.
3. Rows go where their hash says. A bucket and the new ones that its rows may go to share
   a remainder by the greatest common divisor of both counts, so the buckets of one
   remainder are a task of their own. Rows are read merged; what is deleted stays behind.
4. Where several buckets flow into one, the sorted runs they bring are merged once more.
5. Prove that the new buckets hold together what the old ones held, each row where its hash
   says, and commit each partition as a whole, in place of exactly the files that were
   read: if anybody wrote meanwhile, it is left as it was.

Readers are right at every moment, since each partition says how many buckets it has.
Source: Paimon, chapter Rescale Bucket.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    FileMissing,
    InvalidRequestError,
    RetriesExhausted,
    SchemaMoved,
    StalePlan,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import without_deletions
from lakewright.storage.operations.commit.commit import commit_compaction
from lakewright.storage.operations.leases.leases import check_not_all_given_up, given_up
from lakewright.storage.operations.read.merge_read import merged_windows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.references.sweep import (
    sweep,
    sweep_after_failure,
    sweep_repeated,
)
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import RewritePlan
from lakewright.storage.operations.running.task_memory import MOVED_BYTES, free_memory
from lakewright.storage.operations.state.latest import is_latest, read_latest
from lakewright.storage.operations.state.live_files import (
    deletions_by_bucket,
    index_entries,
    live_entries,
)
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.state.rewrite_schema import check_rewritable
from lakewright.storage.operations.write.rolling_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.write.verify import (
    Proof,
    VerifyLevel,
    Written,
    check_files,
    rows_to_rewrite,
)
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import DataFileMeta, FileSource, ManifestEntry
from lakewright.storage.spec.options import BucketMode, ChangelogProducer, TableOptions
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

# Partitions are rewritten together until they make up this many tasks.
_TASKS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleTask:
    """One partition's work: these files become those of `to_buckets` buckets."""

    partition: dict[str, object]
    from_buckets: int
    to_buckets: int
    files: tuple[str, ...]
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePlan(RewritePlan):
    """What a rescale would do, as of one snapshot; `bucket_option` is the option's new value."""

    schema_id: int
    tasks: tuple[RescaleTask, ...]
    bucket_option: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleResult:
    """What a rescale did; `dropped` are partitions that others wrote to meanwhile."""

    snapshots: tuple[Snapshot, ...]
    partitions: int
    rows_before: int
    rows_after: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    dropped: tuple[dict[str, object], ...]
    schema_id: int
    duration_ms: int


# --- planning ---------------------------------------------------------------------------------


def plan_rescale(
    files: TableFiles,
    bucket_count: int,
    *,
    partitions: Sequence[Mapping[str, object]] | None = None,
) -> RescalePlan:
    """Which partitions get another number of buckets, from metadata alone.

    Without `partitions` the whole table is meant, and the option `bucket` changes too,
    except for postponed buckets, whose option stays. A partition may be named by some of
    its columns.

    Raises:
        InvalidRequestError: the table has no buckets that hash decides on, the number or a
            partition cannot be, or a partition holds changes that a compaction must tell first.
        UnsupportedError: the table has an option that is not implemented.
    """
    check_supported(files.schema, Use.COMPACT, table=files.name)
    mode = files.options.bucket_mode
    if mode not in (BucketMode.FIXED, BucketMode.POSTPONE):
        raise InvalidRequestError(
            f"{files.name} has {mode.value} buckets, which are not counted; only tables with a "
            "positive number in option bucket, or -2, can be rescaled",
            table=files.name,
        )
    if bucket_count < 1:
        raise InvalidRequestError(
            f"{files.name} cannot have {bucket_count} buckets; ask for 1 or more", table=files.name
        )
    wanted = PartitionFilter.of_specs(files, partitions)
    snapshot, held = read_latest(files, lambda latest: _real_partitions(files, latest))
    tasks = []
    for partition, entries in held.items():
        if not wanted.takes(entries[0]):
            continue
        if all(entry.total_buckets == bucket_count for entry in entries):
            continue
        _check_told(files, partition, entries)
        tasks.append(
            RescaleTask(
                partition=files.partitions.of_entry(entries[0]).spec,
                from_buckets=entries[0].total_buckets,
                to_buckets=bucket_count,
                files=tuple(entry.file.file_name for entry in entries),
                bytes=sum(entry.file.file_size for entry in entries),
                rows=sum(entry.file.row_count for entry in entries),
            )
        )
    changes_option = partitions is None and mode is BucketMode.FIXED
    return RescalePlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        schema_id=files.schema.id,
        tasks=tuple(tasks),
        bucket_option=(
            bucket_count if changes_option and files.options.bucket != bucket_count else None
        ),
    )


def _real_partitions(
    files: TableFiles, snapshot: Snapshot | None
) -> dict[bytes, list[ManifestEntry]]:
    """Live files by partition, without those that wait for a bucket."""
    found: dict[bytes, list[ManifestEntry]] = defaultdict(list)
    for entry in live_entries(files, snapshot):
        if entry.bucket >= 0:
            found[entry.partition].append(entry)
    return dict(found)


def _check_told(files: TableFiles, partition: bytes, entries: Sequence[ManifestEntry]) -> None:
    """Refuse to rewrite rows whose changes no compaction has told to streaming readers yet."""
    options = files.options
    settled = _told_from_level(options)
    untold = [entry.file for entry in entries if entry.file.level < settled]
    if untold:
        spec = files.partitions.of_row(partition).spec
        raise InvalidRequestError(
            f"partition {spec} of {files.name} holds {len(untold)} "
            f"files whose changes changelog-producer={options.changelog_producer.value} has not "
            "told yet, and a rescale would lose them; compact the partition fully first "
            "(lakewright run compact, with --full)",
            table=files.name,
        )


def _told_from_level(options: TableOptions) -> int:
    match options.changelog_producer:
        case ChangelogProducer.FULL_COMPACTION:
            return options.max_level
        case ChangelogProducer.LOOKUP:
            return 1
        case _:
            return 0


# --- running ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The buckets of a partition that share a remainder: no row leaves or enters them."""

    partition: bytes
    splits: tuple[DataSplit, ...]
    to_buckets: int
    targets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What one share became: the files of each new bucket."""

    buckets: tuple[tuple[int, tuple[DataFileMeta, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Move:
    """A partition to be rewritten, with the entries that it replaces."""

    task: RescaleTask
    entries: tuple[ManifestEntry, ...]
    deletions: tuple[IndexEntry, ...]

    @property
    def partition(self) -> bytes:
        return self.entries[0].partition


def run_rescale(
    files: TableFiles,
    plan: RescalePlan,
    engine: Engine,
    *,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
    lease: Lease | None = None,
) -> RescaleResult:
    """Carry a plan out, partition by partition; with a lease those that it is, and stays, for.

    What is done when something fails stays done, and another rescale goes on from there.

    Raises:
        StalePlan: none of the planned partitions is as it was; plan again.
        LeaseLost: the lease was, or all of it was taken away; nothing is published.
        SchemaMoved: the table's schema changed since the plan.
        RetriesExhausted: others committed too often.
        VerificationFailed: rows written differ from rows read; the partition stays.
    """
    check_supported(files.schema, Use.COMPACT, table=files.name)
    started = files.env.now_ms()
    _check_schema(files, plan)
    snapshot, (moves, dropped) = read_latest(files, lambda latest: _live_moves(files, plan, latest))
    if plan.tasks and not moves:
        raise StalePlan(
            f"the plan for {files.name} was made at snapshot {plan.snapshot_id}, and somebody "
            f"wrote to each of its {len(plan.tasks)} partitions since; plan again",
            table=files.name,
        )
    if plan.bucket_option is not None:
        files = _with_bucket_option(files, plan.bucket_option)
    done: list[tuple[_Move, Snapshot, list[DataFileMeta]]] = []
    for together in _groups(moves):
        for move, outcome in _rewrite(files, together, snapshot, engine, verify, lease):
            if outcome is None:
                dropped.append(move.task.partition)
            else:
                done.append((move, *outcome))
    if moves and not done:
        check_not_all_given_up(files, lease, _places(moves))
        raise StalePlan(
            f"somebody wrote to each of the {len(moves)} partitions of {files.name} while they "
            "were rescaled; nothing of them was changed: plan again",
            table=files.name,
        )
    after = [file for _, _, written in done for file in written]
    return RescaleResult(
        snapshots=tuple(found for _, found, _ in done),
        partitions=len(done),
        rows_before=sum(move.task.rows for move, _, _ in done),
        rows_after=sum(file.row_count for file in after),
        files_before=sum(len(move.task.files) for move, _, _ in done),
        files_after=len(after),
        bytes_before=sum(move.task.bytes for move, _, _ in done),
        bytes_after=sum(file.file_size for file in after),
        dropped=tuple(dropped),
        schema_id=files.schema.id,
        duration_ms=files.env.now_ms() - started,
    )


def _check_schema(files: TableFiles, plan: RescalePlan) -> None:
    latest = files.schemas.ids()[-1]
    if latest != plan.schema_id or files.schema.id != plan.schema_id:
        raise SchemaMoved(
            f"{files.name} was planned to be rescaled with schema {plan.schema_id}, and has "
            f"schema {latest} now; open the table and plan again",
            table=files.name,
        )


def _with_bucket_option(files: TableFiles, bucket_count: int) -> TableFiles:
    """The table after its option `bucket` is changed."""
    schema = replace(
        files.schema,
        id=files.schema.id + 1,
        options={**files.schema.options, "bucket": str(bucket_count)},
        time_millis=files.env.now_ms(),
    )
    check_supported(schema, Use.COMPACT, table=files.name)
    if not files.schemas.put_schema(schema):
        raise SchemaMoved(
            f"somebody else changed the schema of {files.name} just now; open the table and plan "
            "again",
            table=files.name,
        )
    return replace(files, schema=schema)


def _live_moves(
    files: TableFiles, plan: RescalePlan, snapshot: Snapshot | None
) -> tuple[list[_Move], list[dict[str, object]]]:
    """Planned partitions that hold just the files planned, and those that do not."""
    live = _real_partitions(files, snapshot)
    indexes: dict[bytes, list[IndexEntry]] = defaultdict(list)
    for index in index_entries(files, snapshot):
        if index.file.deletion_vectors is not None:
            indexes[index.partition].append(index)
    moves: list[_Move] = []
    changed: list[dict[str, object]] = []
    for task in plan.tasks:
        partition = files.partitions.planned(task.partition).row
        entries = live.get(partition, [])
        if {entry.file.file_name for entry in entries} == set(task.files):
            check_rewritable(files, (entry.file for entry in entries))
            moves.append(_Move(task, tuple(entries), tuple(indexes[partition])))
        else:
            changed.append(task.partition)
    return moves, changed


def _groups(moves: Sequence[_Move]) -> Iterator[tuple[_Move, ...]]:
    """Partitions that are rewritten together, so that an engine has work for all its workers."""
    if not moves:
        return
    shares = max(gcd(move.task.from_buckets, move.task.to_buckets) for move in moves)
    step = max(1, _TASKS_AT_ONCE // shares)
    for start in range(0, len(moves), step):
        yield tuple(moves[start : start + step])


def _rewrite(
    files: TableFiles,
    moves: Sequence[_Move],
    snapshot: Snapshot | None,
    engine: Engine,
    verify: VerifyLevel,
    lease: Lease | None,
) -> list[tuple[_Move, tuple[Snapshot, list[DataFileMeta]] | None]]:
    """Rewrite partitions together and commit each; None for those that lost to somebody else."""
    assert snapshot is not None
    left = {place.partition for place in given_up(files, lease, _places(moves))}
    outcomes: list[tuple[_Move, tuple[Snapshot, list[DataFileMeta]] | None]] = [
        (move, None) for move in moves if move.partition in left
    ]
    moves = [move for move in moves if move.partition not in left]
    run_ids = {move.partition: files.env.new_id() for move in moves}
    jobs = [(run_ids[move.partition], share) for move in moves for share in _shares(move)]
    unfinished = dict(run_ids)
    try:
        moved = engine.map(partial(_move_rows, files, verify), jobs)
        for move in moves:
            run_id = run_ids[move.partition]
            own = [done for (each, _), done in zip(jobs, moved, strict=True) if each == run_id]
            try:
                outcome = _commit(files, move, own, run_id, snapshot, lease, engine.may_repeat)
                outcomes.append((move, outcome))
            except CommitOutcomeUnknownError:
                # Its files may be published; those of the partitions that follow never are.
                del unfinished[move.partition]
                raise
            del unfinished[move.partition]
    except BaseException as error:
        sweep_after_failure(files, unfinished.values(), since_snapshot_id=snapshot.id)
        if isinstance(error, FileMissing) and not is_latest(files, snapshot):
            raise StalePlan(
                f"files of snapshot {snapshot.id} of {files.name} went while they were rescaled, "
                "since it is the latest no more; plan again",
                table=files.name,
            ) from error
        raise
    return outcomes


def _places(moves: Sequence[_Move]) -> set[Place]:
    return {entry.place for move in moves for entry in move.entries}


def _shares(move: _Move) -> list[Share]:
    task = move.task
    remainders = gcd(task.from_buckets, task.to_buckets)
    by_bucket: dict[int, list[DataFileMeta]] = defaultdict(list)
    for entry in move.entries:
        by_bucket[entry.bucket].append(entry.file)
    deletions = deletions_by_bucket(move.deletions)
    splits: dict[int, list[DataSplit]] = defaultdict(list)
    for bucket, metas in sorted(by_bucket.items()):
        splits[bucket % remainders].append(
            DataSplit(
                partition=move.partition,
                bucket=bucket,
                files=tuple(metas),
                merge=True,
                deletions=deletions.get(Place(move.partition, bucket), ()),
            )
        )
    return [
        Share(
            partition=move.partition,
            splits=tuple(parts),
            to_buckets=task.to_buckets,
            targets=task.to_buckets // remainders,
        )
        for parts in splits.values()
    ]


def _commit(
    files: TableFiles,
    move: _Move,
    moved: Sequence[Moved],
    run_id: str,
    base: Snapshot,
    lease: Lease | None,
    repeated: bool,
) -> tuple[Snapshot, list[DataFileMeta]] | None:
    messages = [*_removals(move)]
    written: list[DataFileMeta] = []
    for done in moved:
        for bucket, metas in done.buckets:
            written += metas
            messages.append(
                CommitMessage(
                    partition=move.partition,
                    bucket=bucket,
                    total_buckets=move.task.to_buckets,
                    compact_after=metas,
                )
            )
    try:
        result, lost = commit_compaction(
            files,
            messages,
            user=run_id,
            base_snapshot_id=base.id,
            whole_partitions=True,
            kind=CommitKind.OVERWRITE,
            given_up=partial(given_up, files, lease),
        )
    except RetriesExhausted:
        # Nobody wrote to the partition; there were only too many commits at once.
        raise
    except CommitConflictError:
        sweep(files, run_id, since_snapshot_id=base.id)
        return None
    if lost or result.snapshot is None:
        sweep(files, run_id, since_snapshot_id=base.id)
        return None
    if repeated:
        sweep_repeated(files, run_id, messages, since_snapshot_id=base.id)
    return result.snapshot, written


def _removals(move: _Move) -> list[CommitMessage]:
    by_bucket: dict[int, list[DataFileMeta]] = defaultdict(list)
    for entry in move.entries:
        by_bucket[entry.bucket].append(entry.file)
    for index in move.deletions:
        # A bucket may have lost its files and kept its index.
        by_bucket.setdefault(index.bucket, [])
    return [
        CommitMessage(
            partition=move.partition,
            bucket=bucket,
            total_buckets=move.task.from_buckets,
            compact_before=tuple(metas),
            removed_indexes=tuple(each.file for each in move.deletions if each.bucket == bucket),
        )
        for bucket, metas in sorted(by_bucket.items())
    ]


# --- one share ----------------------------------------------------------------------------------


def _move_rows(files: TableFiles, verify: VerifyLevel, job: tuple[str, Share]) -> Moved:
    """Write the rows of some buckets into the buckets that their hashes say."""
    run_id, share = job
    write_id = f"{run_id}-{files.env.new_id()[:8]}"
    return ShareMove(files, share, write_id=write_id, verify=verify).carry_out()


# A writer that is done, and the files of it.
_Run: TypeAlias = tuple[RollingWriter, tuple[DataFileMeta, ...]]


class ShareMove:
    """A share being rewritten, once."""

    def __init__(
        self, files: TableFiles, share: Share, *, write_id: str, verify: VerifyLevel
    ) -> None:
        self._files = files
        self._share = share
        self._write_id = write_id
        self._writers: list[RollingWriter] = []
        self._rows = rows_to_rewrite(files, verify)
        # Of all buckets together, since it is between them that rows move.
        self._proof = Proof(files, verify, ordered=False)

    def carry_out(self) -> Moved:
        """The work; on failure no new file is left."""
        try:
            if self._files.schema.is_keyed:
                return self._move_keyed()
            return self._move_appended()
        except BaseException:
            for writer in self._writers:
                writer.abandon()
            raise

    def _move_keyed(self) -> Moved:
        """Rows as they are once merged, with their kinds and sequence numbers."""
        runs: dict[int, list[_Run]] = defaultdict(list)
        due: dict[int, int] = defaultdict(int)
        for split in self._share.splits:
            writers: dict[int, RollingWriter] = {}
            for window in merged_windows(self._rows, split):
                kept = without_deletions(window)
                self._proof.expect(kept)
                for bucket, rows in self.by_bucket(kept):
                    if bucket not in writers:
                        writers[bucket] = self._writer(bucket, level=self._run_level)
                    writers[bucket].write(rows)
                    due[bucket] += rows.num_rows
                free_memory(self._files.env, writers.values(), MOVED_BYTES)
            for bucket, writer in writers.items():
                runs[bucket].append((writer, writer.close()))
        moved = [(bucket, self._one_run(bucket, parts)) for bucket, parts in sorted(runs.items())]
        return self._proved(moved, due)

    def _move_appended(self) -> Moved:
        """Rows as they came, bucket after bucket, numbered anew."""
        writers: dict[int, RollingWriter] = {}
        due: dict[int, int] = defaultdict(int)
        for split in self._share.splits:
            for file in sorted(split.files, key=lambda each: each.min_sequence_number):
                for batch in self._proof.expected(self._rows.batches(split, file)):
                    for bucket, rows in self.by_bucket(batch):
                        if bucket not in writers:
                            writers[bucket] = self._writer(bucket, level=0)
                        writers[bucket].write(rows)
                        due[bucket] += rows.num_rows
                    free_memory(self._files.env, writers.values(), MOVED_BYTES)
        return self._proved(
            [(bucket, (each, each.close())) for bucket, each in sorted(writers.items())], due
        )

    @property
    def _run_level(self) -> int:
        """Rows of one bucket arrive in key order; those of several must be merged once more."""
        return self._files.options.max_level if len(self._share.splits) == 1 else 0

    def _one_run(self, bucket: int, runs: Sequence[_Run]) -> _Run:
        """The runs that buckets brought, as one run of the deepest level."""
        top = self._files.options.max_level
        if len(runs) == 1:
            writer, written = runs[0]
            return writer, tuple(replace(file, level=top) for file in written)
        # The files of each run belong together, as those of a deeper level do.
        parts = tuple(
            replace(file, level=level) for level, (_, run) in enumerate(runs, 1) for file in run
        )
        split = DataSplit(partition=self._share.partition, bucket=bucket, files=parts, merge=True)
        writer = self._writer(bucket, level=top)
        for window in merged_windows(self._rows, split):
            writer.write(window)
        written = writer.close()
        folder = self._files.bucket_dir(Place(self._share.partition, bucket))
        discard_files(self._files.fs, [f"{folder}/{file.file_name}" for file in parts])
        return writer, written

    def by_bucket(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Rows by their new bucket, their order kept."""
        if rows.num_rows == 0:
            return
        options = self._files.options
        keys = self._files.schema.fields_of(options.bucket_keys)
        buckets = buckets_of(rows, keys, self._share.to_buckets, options.bucket_function)
        for bucket in np.unique(buckets).tolist():
            yield bucket, rows.filter(pa.array(buckets == bucket))

    def _writer(self, bucket: int, *, level: int) -> RollingWriter:
        target = BucketTarget(
            partition=self._share.partition, bucket=bucket, level=level, source=FileSource.COMPACT
        )
        write_id = f"{self._write_id}-{len(self._writers)}"
        witness = self._proof.witness_of_bucket(target, self._share.to_buckets)
        writer = RollingWriter(self._files, target, write_id=write_id, witness=witness)
        self._writers.append(writer)
        return writer

    def _proved(self, moved: Sequence[tuple[int, _Run]], due: Mapping[int, int]) -> Moved:
        for bucket, (writer, metas) in moved:
            check_files(self._files, writer.target, metas, due[bucket])
        self._proof.check(
            *(Written(writer.target, writer.witness, metas) for _, (writer, metas) in moved)
        )
        return Moved(buckets=tuple((bucket, metas) for bucket, (_, metas) in moved))
