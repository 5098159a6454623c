"""Compaction: fewer, larger files with the same rows.

1. Plan from metadata: per bucket, which files are worth rewriting and why. Append buckets are
   packed. For a primary-key bucket the LSM tree decides which runs are merged, their output
   level, and which files only change their level.
2. Carry the plan out (`runner.py`): `compact_append.py` or `compact_levels.py` rewrites the files
   of a bucket, and proves that the new files hold the rows that were read or merged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.levels import levels_of
from lakewright.storage.lsm.universal_compaction import CompactionUnit, may_merge
from lakewright.storage.operations.rewrite.compact_append import (
    AppendTask,
    joined_rows,
    rewrite_append,
    stretches_of,
)
from lakewright.storage.operations.rewrite.compact_levels import LevelsTask, rewrite_levels
from lakewright.storage.operations.rewrite.compaction_plan import (
    BucketsPlan,
    CompactionPlan,
    CompactionResult,
    CompactionTask,
    SkippedBucket,
)
from lakewright.storage.operations.rewrite.held_files import HeldBucket, HeldPartition, read_held
from lakewright.storage.operations.rewrite.pick_units import (
    PickUnits,
    pick_append,
    pick_keyed,
    upgrades_of,
)
from lakewright.storage.operations.rewrite.runner import Part, Rewrite, carry_out, check_plan
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.verb_options import (
    BYTES,
    COUNT,
    FLAG,
    PARTITIONS,
    Partitions,
    counts,
    option,
)
from lakewright.storage.operations.state.table_state import SETTLED, Keys
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.arguments import (
    list_or_none,
    listed_partitions,
    whole_number,
    whole_or_none,
)
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import DataFileMeta, FileSource
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition_words import name_partition
from lakewright.storage.spec.supported_options import Use, check_supported

# --- planning ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompactOptions:
    """Which files a compaction takes."""

    partitions: Partitions | None = option(
        PARTITIONS, None, "Partitions to process, by all or some of their columns (default: all)."
    )
    buckets: Sequence[int] | None = option(
        counts(0), None, "Buckets to process (default: all).", flag="--bucket"
    )
    full: bool = option(
        FLAG,
        default=False,
        text="Rewrite all that is not one sorted run yet, or holds small files or deleted rows.",
    )
    min_files: int | None = option(
        COUNT,
        None,
        "Compact a bucket from this number of small files or sorted runs on. Without it, the "
        "table's options say.",
    )
    max_bytes: int | None = option(
        BYTES, None, "Rewrite at most this size, or one bucket; those that wait longest come first."
    )


def plan_compact(files: TableFiles, options: CompactOptions) -> CompactionPlan:
    """Rewrite due files, or all with `full`, into fewer and larger; planned from metadata alone.

    A partition may be named by some of its columns. `full` takes every file that a full compaction
    would still change. Otherwise append buckets need `min_files` small files (option
    `compaction.min.file-num`), and universal compaction picks the runs of primary-key buckets;
    there `min_files` replaces the option `num-sorted-run.compaction-trigger`. A plan with
    `max_bytes` rewrites no more than that, or one bucket; the others are left for a later plan.

    Raises:
        UnsupportedError: the table has an option that is not implemented.
        InvalidRequestError: a partition names an unknown column, or a number is too small.
    """
    partitions = listed_partitions(options.partitions, "partitions")
    buckets = list_or_none(options.buckets, "buckets", whole_number)
    check_supported(files.schema, Use.COMPACT, table=files.name)
    min_files = whole_or_none(options.min_files, "min_files")
    max_bytes = whole_or_none(options.max_bytes, "max_bytes")
    if max_bytes is not None and max_bytes < 1:
        raise InvalidRequestError(f"max_bytes is {max_bytes}; give at least 1, or None for all")
    if min_files is not None and min_files < 2:
        raise InvalidRequestError(
            f"min_files (--min-files) is {min_files}; compaction needs at least 2"
        )

    def pick(
        metas: Sequence[DataFileMeta], indexes: Sequence[IndexFileMeta]
    ) -> tuple[list[CompactionUnit], str]:
        if files.schema.is_keyed:
            return pick_keyed(files, metas, indexes, full=options.full, trigger=min_files)
        return pick_append(files, metas, indexes, full=options.full, least=min_files)

    plan = planned_buckets(files, pick, partitions=partitions, buckets=buckets)
    return plan if max_bytes is None else _within(plan, max_bytes)


def planned_buckets(
    files: TableFiles,
    pick: PickUnits,
    *,
    partitions: Sequence[Mapping[str, object]] | None,
    buckets: Sequence[int] | None = None,
    takes: Collection[Keys] = SETTLED,
) -> CompactionPlan:
    """A plan of the work that `pick` finds in each requested bucket."""
    snapshot_id, held = read_held(files, partitions, takes=takes)
    tasks: list[CompactionTask] = []
    skipped: list[SkippedBucket] = []
    for bucket in (bucket for held_buckets in held.values() for bucket in held_buckets.values()):
        # Rows below bucket 0 have no bucket yet, and are merged only after they get one.
        if (
            not bucket.entries
            or bucket.bucket < 0
            or (buckets is not None and bucket.bucket not in buckets)
        ):
            continue
        spec = files.partitions.of_entry(bucket.entries[0]).spec
        units, reason = pick(bucket.files, bucket.indexes)
        if not units:
            skipped.append(
                SkippedBucket(
                    partition=spec, bucket=bucket.bucket, files=len(bucket.files), reason=reason
                )
            )
        tasks += [_task(files, spec, bucket, unit) for unit in units]
    return CompactionPlan(
        table=files.name, snapshot_id=snapshot_id, tasks=tuple(tasks), skipped=tuple(skipped)
    )


def _within(plan: CompactionPlan, max_bytes: int) -> CompactionPlan:
    """The part of a plan that rewrites at most so many bytes: the buckets that wait longest.

    The first bucket is planned whatever its size, so that no bucket waits forever.
    """
    of_bucket: dict[tuple[str, int], list[CompactionTask]] = {}
    for task in plan.tasks:
        of_bucket.setdefault((str(task.partition), task.bucket), []).append(task)
    chosen: set[tuple[str, int]] = set()
    left = max_bytes
    for key in sorted(
        of_bucket, key=lambda key: min(each.waits_since_ms for each in of_bucket[key])
    ):
        cost = sum(each.rewritten_bytes for each in of_bucket[key])
        if cost <= left or not chosen:
            chosen.add(key)
            left -= cost
    waiting = [
        SkippedBucket(
            partition=tasks[0].partition,
            bucket=tasks[0].bucket,
            files=sum(len(each.files) for each in tasks),
            reason=f"left for a later run: this one rewrites at most {max_bytes} bytes",
        )
        for key, tasks in of_bucket.items()
        if key not in chosen
    ]
    kept = [each for each in plan.tasks if (str(each.partition), each.bucket) in chosen]
    return replace(
        plan,
        tasks=tuple(kept),
        skipped=(*plan.skipped, *waiting),
        bytes_left=plan.bytes_before - sum(each.bytes for each in kept),
    )


def _waits_since_ms(metas: Sequence[DataFileMeta]) -> int:
    """When the oldest file was written that no compaction has rewritten; 0 if that is unknown."""
    written = [meta for meta in metas if meta.file_source is not FileSource.COMPACT] or metas
    return min(each.creation_time or 0 for each in written)


def _task(
    files: TableFiles, spec: dict[str, object], held: HeldBucket, unit: CompactionUnit
) -> CompactionTask:
    return CompactionTask(
        partition=spec,
        bucket=held.bucket,
        files=tuple(file.file_name for file in unit.files),
        file_sizes=tuple(file.file_size for file in unit.files),
        rows=sum(file.row_count for file in unit.files),
        output_level=unit.output_level,
        reason=unit.reason,
        upgrades=upgrades_of(files, unit, held.files),
        file_by_file=unit.file_by_file,
        waits_since_ms=_waits_since_ms(unit.files),
    )


# --- running ----------------------------------------------------------------------------------

BucketWork: TypeAlias = AppendTask | LevelsTask
# Takes a table, the name prefix of new files and a bucket's work; returns its commit message.
WriteBucket: TypeAlias = Callable[[TableFiles, str, BucketWork], tuple[CommitMessage, ...]]


def run_compact(
    files: TableFiles,
    plan: CompactionPlan,
    engine: Engine,
    *,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
    lease: Lease | None = None,
) -> CompactionResult:
    """Carry a plan out; with a lease, only the part that the lease covers until the commit.

    Tasks that conflict with other commits are left out; the result counts them.

    Raises:
        StalePlan: other commits changed all planned files; plan again.
        LeaseLost: the lease was lost, or all its partitions were taken; nothing is published.
        SchemaMoved: the table's schema changed since it was opened.
        VerificationFailed: rows written differ from rows merged; nothing is committed.
    """
    return rewrite_buckets(files, plan, engine, partial(rewrite_bucket, verify=verify), lease)


def rewrite_bucket(
    files: TableFiles, write_id: str, work: BucketWork, verify: VerifyLevel = VerifyLevel.CHECKSUMS
) -> tuple[CommitMessage, ...]:
    """Rewrite the files of one bucket."""
    if isinstance(work, AppendTask):
        return (rewrite_append(files, write_id, work, verify),)
    return (rewrite_levels(files, write_id, work, verify),)


def rewrite_buckets(
    files: TableFiles,
    plan: BucketsPlan[Any],
    engine: Engine,
    write: WriteBucket,
    lease: Lease | None = None,
) -> CompactionResult:
    """Carry a plan out; the engine's workers call `write` for each bucket."""
    looked_for = partial(_part_of, files)
    rewrite = Rewrite(plan=plan, tasks=plan.tasks, part_of=looked_for, write=write)
    outcome = carry_out(files, check_plan(files, rewrite), engine, lease)
    before, after = outcome.before, outcome.after
    upgraded = {file.file_name for file in before} & {file.file_name for file in after}
    return CompactionResult(
        **outcome.totals(),
        snapshot=next(iter(outcome.snapshots), None),
        file_sizes_before=tuple(file.file_size for file in before),
        file_sizes_after=tuple(file.file_size for file in after),
        files_upgraded=len(upgraded),
        dropped_tasks=len(outcome.dropped),
    )


def _part_of(
    files: TableFiles, task: CompactionTask, partition: HeldPartition
) -> Part[BucketWork] | None:
    held = partition.get(task.bucket)
    by_name = {} if held is None else {file.file_name: file for file in held.files}
    if held is None or not held.entries or not by_name.keys() >= set(task.files):
        return None
    metas = tuple(by_name.pop(name) for name in task.files)
    work = _work_of(files, task, held, metas, tuple(by_name.values()))
    if work is None:
        return None
    # Lookups also read the other files of the bucket.
    return Part(task=task, places=frozenset([held.place]), reads=held.files, work=(work,))


def _work_of(
    files: TableFiles,
    task: CompactionTask,
    held: HeldBucket,
    metas: tuple[DataFileMeta, ...],
    rest: tuple[DataFileMeta, ...],
) -> BucketWork | None:
    total_buckets = held.entries[0].total_buckets
    if files.options.data_evolution_enabled:
        joined = joined_rows(files, metas, rest)
        if joined is None:
            return None
        return AppendTask(
            partition=held.partition,
            bucket=held.bucket,
            total_buckets=total_buckets,
            stretches=(joined,),
        )
    if not files.schema.is_keyed:
        in_order = files.options.bucket_mode is BucketMode.FIXED
        return AppendTask(
            partition=held.partition,
            bucket=held.bucket,
            total_buckets=total_buckets,
            stretches=stretches_of(metas, rest) if in_order else (metas,),
            others=frozenset(file.file_name for file in rest),
            indexes=held.indexes,
        )
    levels = levels_of([*metas, *rest], files.options.num_levels)
    if not 0 < task.output_level <= levels.max_level:
        raise InvalidRequestError(
            f"a task for bucket {task.bucket} of {name_partition(task.partition)} writes to level "
            f"{task.output_level}, and a compaction of {files.name} writes to levels 1 to "
            f"{levels.max_level}; plan again"
        )
    unit = CompactionUnit(
        files=metas,
        output_level=task.output_level,
        reason=task.reason,
        file_by_file=task.file_by_file,
    )
    # Another commit may have moved planned files, or added files among them.
    if not may_merge(unit, rest):
        return None
    return LevelsTask(
        partition=held.partition,
        bucket=held.bucket,
        total_buckets=total_buckets,
        unit=unit,
        levels=levels,
        indexes=held.indexes,
    )
