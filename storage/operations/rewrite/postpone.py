"""Gives postponed rows their buckets: the compaction of a table with bucket=-2.

1. Plan from metadata alone: partitions with postponed files, and their bucket counts. A new
   partition gets the option's count, or a count computed from its rows or bytes.
2. Per partition, read the files in writing order, and write each row to the bucket of its hash;
   sequence numbers continue from those of the bucket. The bucket's writer merges the rows as in
   any write.
3. Prove that the bucket's writer received each postponed row, and that its files hold the merged
   rows.
4. Commit each partition as a whole (`runner.py`): the new files replace the postponed files, and
   readers see the rows.

Source: Paimon `PostponeUtils`, `SparkPostponeCompactProcedure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.rewrite.give_buckets import Move, give_buckets
from lakewright.storage.operations.rewrite.held_files import HeldPartition, read_held, settled
from lakewright.storage.operations.rewrite.runner import (
    MoveResult,
    MoveTask,
    Part,
    Rewrite,
    carry_out,
    check_plan,
)
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import RewritePlan
from lakewright.storage.operations.running.verb_options import PARTITIONS, Partitions, option
from lakewright.storage.operations.state.assign_buckets import next_sequences
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.arguments import listed_partitions
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.options import POSTPONE_BUCKET, BucketMode, TableOptions
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponePlan(RewritePlan["PostponeResult"]):
    """What a postpone compaction would do, as of one snapshot."""

    tasks: tuple[MoveTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponeResult(MoveResult):
    """What a postpone compaction did; `rows_after` counts rows after the merge of each flush."""


# --- planning ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class PostponeOptions:
    """Whose rows get their buckets."""

    partitions: Partitions | None = option(
        PARTITIONS, None, "Partitions to process, by all or some of their columns (default: all)."
    )


def plan_postpone_compact(files: TableFiles, options: PostponeOptions) -> PostponePlan:
    """Assign buckets to postponed rows, so that readers see them; planned from metadata alone.

    A partition may be named by some of its columns; None means all.

    Raises:
        InvalidRequestError: the table does not postpone buckets, or a partition is invalid.
        UnsupportedError: the table has an option that is not implemented.
    """
    partitions = listed_partitions(options.partitions, "partitions")
    check_supported(files.schema, Use.COMPACT, table=files.name)
    if files.options.bucket_mode is not BucketMode.POSTPONE:
        raise InvalidRequestError(
            f"{files.name} has {files.options.bucket_mode.value} buckets and no postponed rows; "
            "compact it as usual (lakewright compact)"
        )
    snapshot_id, held = read_held(files, partitions)
    tasks = []
    for partition, buckets in held.items():
        if POSTPONE_BUCKET not in buckets:
            continue
        metas = in_writing_order(buckets[POSTPONE_BUCKET].files)
        placed = _placed(buckets)
        count = placed[0].total_buckets if placed else _new_bucket_count(files.options, metas)
        tasks.append(
            MoveTask(
                partition=files.partitions.of_row(partition).spec,
                bucket_count=count,
                files=tuple(file.file_name for file in metas),
                bytes=sum(file.file_size for file in metas),
                rows=sum(file.row_count for file in metas),
            )
        )
    return PostponePlan(table=files.name, snapshot_id=snapshot_id, tasks=tuple(tasks))


def _placed(partition: HeldPartition) -> list[ManifestEntry]:
    """Files of a partition whose rows have a bucket."""
    return [entry for each in settled(partition) for entry in each.entries]


def _new_bucket_count(options: TableOptions, metas: Sequence[DataFileMeta]) -> int:
    """The bucket count of a new partition."""
    if options.postpone_default_bucket_num is not None:
        return options.postpone_default_bucket_num
    amount, target = sum(file.file_size for file in metas), options.postpone_target_size_per_bucket
    if options.postpone_target_row_num_per_bucket is not None:
        amount = sum(file.row_count for file in metas)
        target = options.postpone_target_row_num_per_bucket
    return max(1, -(-amount // target))


def in_writing_order(metas: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Postponed files in the order in which their rows were written.

    That is the order in which they were finished; manifests keep it for equal times.
    """
    return sorted(metas, key=lambda file: file.creation_time or 0)


# --- running ----------------------------------------------------------------------------------


def run_postpone_compact(
    files: TableFiles,
    plan: PostponePlan,
    engine: Engine,
    *,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
    lease: Lease | None = None,
) -> PostponeResult:
    """Carry a plan out by partition; with a lease, only partitions that it covers until the commit.

    Partitions that conflict with other commits are left out; the result names them.

    Raises:
        StalePlan: other commits changed all planned partitions; plan again.
        LeaseLost: the lease was lost, or all its partitions were taken; nothing is published.
        SchemaMoved: the table's schema changed since it was opened.
        InvalidRows: the table's merge engine does not accept the rows; their partition is not
            committed.
        VerificationFailed: rows written differ from rows expected; their partition stays.
        RetriesExhausted: other processes committed too often; committed partitions stay.
    """
    rewrite = Rewrite(
        plan=plan,
        tasks=plan.tasks,
        part_of=_part_of,
        write=partial(give_buckets, verify=verify),
        by_partition=True,
    )
    outcome = carry_out(files, check_plan(files, rewrite), engine, lease)
    return PostponeResult(**outcome.moved())


def _part_of(task: MoveTask, partition: HeldPartition) -> Part[Move] | None:
    postponed, placed = partition.get(POSTPONE_BUCKET), _placed(partition)
    if postponed is None or any(each.total_buckets != task.bucket_count for each in placed):
        return None
    # Rows written after the plan wait for the next plan. Rows written before a planned file do not:
    # placed later, they would win over newer ones.
    chosen = in_writing_order(postponed.files)[: len(task.files)]
    if {each.file_name for each in chosen} != set(task.files):
        return None
    numbers = {bucket: number for (_, bucket), number in next_sequences(placed).items()}
    move = Move(
        partition=postponed.partition,
        bucket_count=task.bucket_count,
        files=tuple(chosen),
        next_sequences=numbers,
    )
    return Part(
        task=task,
        places=frozenset([postponed.place]),
        reads=move.files,
        work=(move,),
        removals=(postponed.removal(POSTPONE_BUCKET, chosen),),
    )
