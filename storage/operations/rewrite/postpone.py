"""Giving postponed rows their buckets: what compaction means for a table with bucket=-2.

1. Plan, from metadata alone: partitions with postponed files, and how many buckets each
   has, or gets: the option's number, or as many as its rows or bytes ask for.
2. Per partition, read the files in the order they were written, and write each row into
   the bucket that its hash says, numbered on from what the bucket holds. A bucket's
   writer merges them as any write.
3. Prove that each waiting row came to the writer of its bucket, and what that writer merged
   into the files.
4. Commit each partition as a whole: the postponed files go, those of the buckets come,
   and readers see the rows from then on.

Source: Paimon `PostponeUtils`, `SparkPostponeCompactProcedure`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidRequestError,
    RetriesExhausted,
    StalePlan,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.checksum import Sums, UnorderedChecksum
from lakewright.storage.operations.commit.commit import commit_compaction
from lakewright.storage.operations.leases.leases import check_not_all_given_up, given_up
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.references.sweep import (
    sweep,
    sweep_after_failure,
    sweep_repeated,
)
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import RewritePlan
from lakewright.storage.operations.running.task_memory import free_memory
from lakewright.storage.operations.state.assign_buckets import next_sequences
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.state.rewrite_schema import (
    check_current_schema,
    check_rewritable,
)
from lakewright.storage.operations.write.bucket_writer import BucketWriter, ShownRows
from lakewright.storage.operations.write.rolling_writer import BucketTarget, WrittenFiles
from lakewright.storage.operations.write.verify import (
    Proof,
    VerifyLevel,
    Written,
    check_files,
    refuse_rows,
    rows_to_rewrite,
)
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.options import POSTPONE_BUCKET, BucketMode, TableOptions
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.schema import VALUE_KIND
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponeTask:
    """One partition's work: the rows of these files get one of `bucket_count` buckets."""

    partition: dict[str, object]
    bucket_count: int
    files: tuple[str, ...]
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponePlan(RewritePlan):
    """What giving rows their buckets would do, as of one snapshot."""

    tasks: tuple[PostponeTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponeResult:
    """What was done; `rows_after` are those left after each flush merged its own.

    `dropped` are partitions whose postponed files or buckets somebody else changed meanwhile.
    """

    snapshots: tuple[Snapshot, ...]
    partitions: int
    rows_before: int
    rows_after: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    dropped: tuple[dict[str, object], ...]
    duration_ms: int


# --- planning ---------------------------------------------------------------------------------


def plan_postpone_compact(
    files: TableFiles, *, partitions: Sequence[Mapping[str, object]] | None = None
) -> PostponePlan:
    """Which partitions have rows without a bucket, from metadata alone.

    A partition may be named by some of its columns; None means all.

    Raises:
        InvalidRequestError: the table does not postpone buckets, or a partition cannot be.
        UnsupportedError: the table has an option that is not implemented.
    """
    check_supported(files.schema, Use.COMPACT, table=files.name)
    if files.options.bucket_mode is not BucketMode.POSTPONE:
        raise InvalidRequestError(
            f"{files.name} has {files.options.bucket_mode.value} buckets and postpones none; "
            "compact it as usual (lakewright run compact)",
            table=files.name,
        )
    wanted = PartitionFilter.of_specs(files, partitions)
    snapshot = files.snapshots.latest()
    tasks = []
    for held in _by_partition(live_entries(files, snapshot)).values():
        if not held.postponed:
            continue
        if not wanted.takes(held.postponed[0]):
            continue
        metas = [entry.file for entry in held.postponed]
        tasks.append(
            PostponeTask(
                partition=files.partitions.of_entry(held.postponed[0]).spec,
                bucket_count=held.bucket_count or _new_bucket_count(files.options, metas),
                files=tuple(file.file_name for file in in_writing_order(metas)),
                bytes=sum(file.file_size for file in metas),
                rows=sum(file.row_count for file in metas),
            )
        )
    return PostponePlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        tasks=tuple(tasks),
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """What a partition holds: rows without a bucket, and those in buckets."""

    postponed: list[ManifestEntry]
    settled: list[ManifestEntry]

    @property
    def bucket_count(self) -> int | None:
        """How many buckets the partition has; None before it has any."""
        return self.settled[0].total_buckets if self.settled else None


def _by_partition(entries: Iterable[ManifestEntry]) -> dict[bytes, _Held]:
    found: dict[bytes, _Held] = defaultdict(lambda: _Held([], []))
    for entry in entries:
        held = found[entry.partition]
        (held.postponed if entry.bucket == POSTPONE_BUCKET else held.settled).append(entry)
    return dict(found)


def _new_bucket_count(options: TableOptions, metas: Sequence[DataFileMeta]) -> int:
    """How many buckets a partition begins with."""
    if options.postpone_default_bucket_num is not None:
        return options.postpone_default_bucket_num
    amount, target = sum(file.file_size for file in metas), options.postpone_target_size_per_bucket
    if options.postpone_target_row_num_per_bucket is not None:
        amount = sum(file.row_count for file in metas)
        target = options.postpone_target_row_num_per_bucket
    return max(1, -(-amount // target))


def in_writing_order(metas: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Postponed files in the order in which their rows were written.

    That is the order in which they were finished; manifests keep it where the clock cannot tell.
    """
    return sorted(metas, key=lambda file: file.creation_time or 0)


# --- running ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition's postponed files in order, and where its buckets go on numbering."""

    run_id: str
    task: PostponeTask
    partition: bytes
    files: tuple[DataFileMeta, ...]
    next_sequences: Mapping[int, int]


def run_postpone_compact(
    files: TableFiles,
    plan: PostponePlan,
    engine: Engine,
    *,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
    lease: Lease | None = None,
) -> PostponeResult:
    """Carry a plan out, partition by partition; with a lease those that it is, and stays, for.

    Raises:
        StalePlan: none of the planned partitions is as it was; plan again.
        LeaseLost: the lease was, or all of it was taken away; nothing is published.
        SchemaMoved: the table's schema changed since it was opened.
        InvalidRows: rows that the table's merge engine can make nothing of; nothing of
            their partition is committed.
        VerificationFailed: rows written differ from rows due; their partition stays.
        RetriesExhausted: others committed too often; partitions done before stay done.
    """
    check_supported(files.schema, Use.COMPACT, table=files.name)
    check_current_schema(files)
    started = files.env.now_ms()
    snapshot = files.snapshots.latest()
    moves, dropped = _live_moves(files, plan, snapshot)
    done: list[tuple[Move, Snapshot, tuple[CommitMessage, ...]]] = []
    if moves and snapshot is not None:
        for move, outcome in _rewrite(files, moves, snapshot, engine, verify, lease):
            if outcome is None:
                dropped.append(move.task.partition)
            else:
                done.append((move, *outcome))
    if plan.tasks and not done:
        places = [Place(move.partition, POSTPONE_BUCKET) for move in moves]
        check_not_all_given_up(files, lease, places)
        raise StalePlan(
            f"the plan for {files.name} was made at snapshot {plan.snapshot_id}, and somebody else "
            f"changed each of its {len(plan.tasks)} partitions since; plan again",
            table=files.name,
        )
    after = [file for _, _, messages in done for each in messages for file in each.compact_after]
    return PostponeResult(
        snapshots=tuple(found for _, found, _ in done),
        partitions=len(done),
        rows_before=sum(move.task.rows for move, _, _ in done),
        rows_after=sum(file.row_count for file in after),
        files_before=sum(len(move.files) for move, _, _ in done),
        files_after=len(after),
        bytes_before=sum(move.task.bytes for move, _, _ in done),
        bytes_after=sum(file.file_size for file in after),
        dropped=tuple(dropped),
        duration_ms=files.env.now_ms() - started,
    )


def _live_moves(
    files: TableFiles, plan: PostponePlan, snapshot: Snapshot | None
) -> tuple[list[Move], list[dict[str, object]]]:
    """Planned partitions whose files are there, and those that somebody else saw to."""
    live = _by_partition(live_entries(files, snapshot))
    moves: list[Move] = []
    changed: list[dict[str, object]] = []
    for task in plan.tasks:
        partition = files.partitions.planned(task.partition).row
        held = live.get(partition, _Held([], []))
        metas = {entry.file.file_name: entry.file for entry in held.postponed}
        if not metas.keys() >= set(task.files) or held.bucket_count not in (
            None,
            task.bucket_count,
        ):
            changed.append(task.partition)
            continue
        # Rows written since the plan stay for the next one.
        planned = set(task.files)
        chosen = in_writing_order(file for name, file in metas.items() if name in planned)
        check_rewritable(files, chosen)
        moves.append(
            Move(
                run_id=files.env.new_id(),
                task=task,
                partition=partition,
                files=tuple(chosen),
                next_sequences={
                    bucket: number for (_, bucket), number in next_sequences(held.settled).items()
                },
            )
        )
    return moves, changed


def _rewrite(
    files: TableFiles,
    moves: Sequence[Move],
    snapshot: Snapshot,
    engine: Engine,
    verify: VerifyLevel,
    lease: Lease | None,
) -> list[tuple[Move, tuple[Snapshot, tuple[CommitMessage, ...]] | None]]:
    """Write all partitions and commit each; None for those that lost to somebody else."""
    outcomes: list[tuple[Move, tuple[Snapshot, tuple[CommitMessage, ...]] | None]] = []
    unfinished = {move.run_id for move in moves}
    try:
        written = engine.map(partial(_give_buckets, files, verify, lease), moves)
        for move, messages in zip(moves, written, strict=True):
            try:
                outcome = _commit(files, move, messages, snapshot, lease)
                if outcome is not None and engine.may_repeat:
                    sweep_repeated(files, move.run_id, messages, since_snapshot_id=snapshot.id)
                outcomes.append((move, outcome))
            except CommitOutcomeUnknownError:
                # Its files may be published; those of the partitions that follow never are.
                unfinished.discard(move.run_id)
                raise
            unfinished.discard(move.run_id)
    except BaseException:
        sweep_after_failure(files, unfinished, since_snapshot_id=snapshot.id)
        raise
    return outcomes


def _commit(
    files: TableFiles,
    move: Move,
    messages: tuple[CommitMessage, ...],
    base: Snapshot,
    lease: Lease | None,
) -> tuple[Snapshot, tuple[CommitMessage, ...]] | None:
    try:
        result, lost = commit_compaction(
            files,
            messages,
            user=move.run_id,
            base_snapshot_id=base.id,
            whole_partitions=True,
            given_up=partial(given_up, files, lease),
        )
    except RetriesExhausted:
        # Nobody touched the partition; there were only too many commits at once.
        raise
    except CommitConflictError:
        lost, result = messages, None
    if lost or result is None or result.snapshot is None:
        sweep(files, move.run_id, since_snapshot_id=base.id)
        return None
    return result.snapshot, messages


def _give_buckets(
    files: TableFiles, verify: VerifyLevel, lease: Lease | None, move: Move
) -> tuple[CommitMessage, ...]:
    """Write the rows of one partition into its buckets; on failure no new file is left.

    A partition that was given up gets no message.
    """
    if given_up(files, lease, [Place(move.partition, POSTPONE_BUCKET)]):
        return ()
    return BucketSorting(files, move, verify).carry_out()


class BucketSorting:
    """Rows of one partition on their way into buckets, once."""

    def __init__(self, files: TableFiles, move: Move, verify: VerifyLevel) -> None:
        self._files = files
        self._move = move
        self._rows = rows_to_rewrite(files, verify)
        self._write_id = f"{move.run_id}-{files.env.new_id()[:8]}"
        self._verify = verify
        self._buckets: dict[int, _OneBucket] = {}
        # What was read, whatever bucket it comes to.
        self._columns = (VALUE_KIND, *files.schema.field_names)
        self._waiting = UnorderedChecksum([("values", self._columns)])

    def carry_out(self) -> tuple[CommitMessage, ...]:
        """The work; on failure no new file is left."""
        try:
            for file in self._move.files:
                self._take(file)
            return self._close()
        except BaseException:
            for each in self._buckets.values():
                each.writer.abandon()
            raise

    def _take(self, file: DataFileMeta) -> None:
        """Hand the rows of a postponed file to the writers of their buckets."""
        split = DataSplit(
            partition=self._move.partition, bucket=POSTPONE_BUCKET, files=(file,), merge=True
        )
        options = self._files.options
        keys = self._files.schema.fields_of(options.bucket_keys)
        batch_rows = self._rows.batch_rows(split, file)
        for rows in self._rows.key_value_rows(split, file, batch_rows=batch_rows):
            count = self._move.task.bucket_count
            buckets = buckets_of(rows, keys, count, options.bucket_function)
            # Rows are numbered anew, after those that their bucket holds.
            unnumbered = rows.select(list(self._columns))
            if self._verify is not VerifyLevel.COUNTS:
                self._waiting.add(unnumbered)
            for bucket in np.unique(buckets).tolist():
                self.give(bucket, unnumbered.filter(pa.array(buckets == bucket)))
            free_memory(self._files.env, [each.writer for each in self._buckets.values()])

    def give(self, bucket: int, rows: pa.Table) -> None:
        """Hand rows to the writer of a bucket."""
        if bucket not in self._buckets:
            target = BucketTarget(
                partition=self._move.partition,
                bucket=bucket,
                next_sequence=self._move.next_sequences.get(bucket, 0),
            )
            write_id = f"{self._write_id}-{bucket}"
            count = self._move.task.bucket_count
            self._buckets[bucket] = _OneBucket(self._files, target, write_id, count, self._verify)
        self._buckets[bucket].write(rows)

    def _close(self) -> tuple[CommitMessage, ...]:
        """The partition's messages: postponed files go, files of buckets come.

        Raises:
            VerificationFailed: rows got lost or changed on their way into buckets, or into files.
        """
        self._check_taken()
        messages = [
            CommitMessage(
                partition=self._move.partition,
                bucket=POSTPONE_BUCKET,
                total_buckets=POSTPONE_BUCKET,
                compact_before=self._move.files,
            )
        ]
        for bucket, each in sorted(self._buckets.items()):
            written = each.close()
            messages.append(
                CommitMessage(
                    partition=self._move.partition,
                    bucket=bucket,
                    total_buckets=self._move.task.bucket_count,
                    compact_after=written.data,
                    compact_changelog=written.changelog,
                )
            )
        return tuple(messages)

    def _check_taken(self) -> None:
        """Prove that what waits has all come to the writers of the buckets, which merge it."""
        found = Sums(0, ())
        for each in self._buckets.values():
            found = found.plus(each.taken.sums())
        due = sum(file.row_count for file in self._move.files)
        what = f"of {due} rows that wait for a bucket {found.rows} came to one"
        if found.rows == due:
            if self._verify is VerifyLevel.COUNTS or not self._waiting.sums().differences(found):
                return
            what = f"the {due} rows that wait for a bucket are others than those that came to one"
        refuse_rows(self._files, self._move.partition, what, due=due, found=found.rows)


class _OneBucket:
    """A bucket's writer, and what proves that its files hold what merging gave."""

    def __init__(
        self,
        files: TableFiles,
        target: BucketTarget,
        write_id: str,
        total_buckets: int,
        verify: VerifyLevel,
    ) -> None:
        self._files = files
        self._target, self._told = target, replace(target, changelog=True)
        self._proof, self._changes_proof = Proof(files, verify), Proof(files, verify)
        self._shown = ShownRows(
            merged=self._proof.expect,
            written=self._proof.witness_of_bucket(target, total_buckets),
            changes=self._changes_proof.expect,
            changes_written=self._changes_proof.witness_of_bucket(self._told, total_buckets),
        )
        self.writer = BucketWriter(files, target, write_id=write_id, shown=self._shown)
        columns = (VALUE_KIND, *files.schema.field_names)
        counted = verify is VerifyLevel.COUNTS
        self.taken = UnorderedChecksum([] if counted else [("values", columns)])

    def write(self, rows: pa.Table) -> None:
        self.taken.add(rows)
        self.writer.write(rows)

    def close(self) -> WrittenFiles:
        """The files, proved.

        Raises:
            VerificationFailed: they do not hold what merging gave.
        """
        written = self.writer.close()
        check_files(self._files, self._target, written.data, self.writer.rows_due)
        check_files(self._files, self._told, written.changelog, self.writer.changes_due)
        self._proof.check(Written(self._target, self._shown.written, written.data))
        self._changes_proof.check(
            Written(self._told, self._shown.changes_written, written.changelog)
        )
        return written
