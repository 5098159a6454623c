"""Rescaling: changes the bucket count of partitions and moves their rows.

1. Plan from metadata alone: find partitions with another bucket count than requested.
2. For the whole table, change its option first. From then on no writer begins a partition with
   the old count, and writers refuse rows for partitions that still have it.
3. Move each row to the bucket of its hash. An old bucket and the new buckets of its rows share a
   remainder by the greatest common divisor of both counts, so each remainder is a task. Rows are
   read merged, without deleted rows.
4. If several buckets flow into one, merge their sorted runs once more.
5. Prove that the new buckets hold the rows of the old ones, each row in the bucket of its hash.
   Commit each partition as a whole, replacing exactly the files that were read (`runner.py`). A
   partition with a conflicting write stays unchanged.

Reads stay correct throughout, because each partition records its bucket count.
Source: Paimon, chapter Rescale Bucket.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, gcd

from lakewright.storage.errors import InvalidRequestError, SchemaMoved
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.rewrite.compact_outputs import deletions_of
from lakewright.storage.operations.rewrite.held_files import (
    HeldBucket,
    HeldPartition,
    read_held,
    settled,
)
from lakewright.storage.operations.rewrite.move_rows import Share, move_rows
from lakewright.storage.operations.rewrite.runner import (
    MoveResult,
    MoveTask,
    Part,
    Rewrite,
    carry_out,
    check_plan,
)
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import RewritePlan, check_bucket_count
from lakewright.storage.operations.running.verb_options import COUNT, PARTITIONS, Partitions, option
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.arguments import listed_partitions, whole_number
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.options import BucketMode, ChangelogProducer, TableOptions
from lakewright.storage.spec.snapshot import CommitKind
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleTask(MoveTask):
    """One partition's work, which has `from_buckets` buckets."""

    from_buckets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePlan(RewritePlan["RescaleResult"]):
    """What a rescale would do, as of one snapshot; `bucket_option` is the option's new value."""

    schema_id: int
    tasks: tuple[RescaleTask, ...]
    bucket_option: int | None

    def __post_init__(self) -> None:
        counts = {task.bucket_count for task in self.tasks}
        if self.bucket_option is not None:
            check_bucket_count(self.bucket_option)
            counts.add(self.bucket_option)
        if len(counts) > 1:
            raise InvalidRequestError(
                f"a plan for {self.table} makes {', '.join(map(str, sorted(counts)))} buckets, and "
                "a rescale makes one number of them; plan again"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleResult(MoveResult):
    """What a rescale did."""

    schema_id: int


# --- planning ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RescaleOptions:
    """What gets how many buckets."""

    buckets: int | None = option(
        COUNT,
        None,
        "The new number of buckets (default: one for each GB of the largest partition).",
    )
    partitions: Partitions | None = option(
        PARTITIONS, None, "Partitions to process, by all or some of their columns (default: all)."
    )


# Buckets above it take long to compact.
_BUCKET_BYTES = 1 << 30


def plan_rescale(files: TableFiles, options: RescaleOptions) -> RescalePlan:
    """Change the bucket count of the table or of some partitions; planned from metadata alone.

    Without `partitions` the plan covers the whole table and changes the option `bucket`, except
    for postponed buckets; `Table.refresh()` afterwards. A partition may be named by some of its
    columns.

    Raises:
        InvalidRequestError: the table has no hash buckets, the count or a partition is invalid,
            or a partition holds changes that a compaction must first write to a changelog.
        UnsupportedError: the table has an option that is not implemented.
    """
    partitions = listed_partitions(options.partitions, "partitions")
    check_supported(files.schema, Use.COMPACT, table=files.name)
    mode = files.options.bucket_mode
    if mode not in (BucketMode.FIXED, BucketMode.POSTPONE):
        raise InvalidRequestError(
            f"{files.name} has {mode.value} buckets, which have no fixed number; only tables "
            "whose option bucket is positive, or -2, can be rescaled"
        )
    snapshot_id, held = read_held(files, partitions)
    bucket_count = _bucket_count(files, options.buckets, held.values())
    tasks = []
    for partition, buckets in held.items():
        entries = [entry for each in settled(buckets) for entry in each.entries]
        if all(entry.total_buckets == bucket_count for entry in entries):
            continue
        _check_told(files, partition, entries)
        tasks.append(
            RescaleTask(
                partition=files.partitions.of_row(partition).spec,
                from_buckets=entries[0].total_buckets,
                bucket_count=bucket_count,
                files=tuple(entry.file.file_name for entry in entries),
                bytes=sum(entry.file.file_size for entry in entries),
                rows=sum(entry.file.row_count for entry in entries),
            )
        )
    changes_option = partitions is None and mode is BucketMode.FIXED
    return RescalePlan(
        table=files.name,
        snapshot_id=snapshot_id,
        schema_id=files.schema.id,
        tasks=tuple(tasks),
        bucket_option=(
            bucket_count if changes_option and files.options.bucket != bucket_count else None
        ),
    )


def _bucket_count(files: TableFiles, asked: int | None, held: Iterable[HeldPartition]) -> int:
    """The count that was asked for, or one bucket for each GB of the largest partition."""
    if asked is None:
        sizes = (
            sum(entry.file.file_size for each in settled(buckets) for entry in each.entries)
            for buckets in held
        )
        return max(1, ceil(max(sizes, default=0) / _BUCKET_BYTES))
    count = whole_number(asked, "buckets")
    if count < 1:
        raise InvalidRequestError(f"{files.name} cannot have {count} buckets; ask for 1 or more")
    return count


def _check_told(files: TableFiles, partition: bytes, entries: Sequence[ManifestEntry]) -> None:
    """Refuse to rewrite rows whose changes are not in a changelog yet."""
    options = files.options
    settled = _told_from_level(options)
    untold = [entry.file for entry in entries if entry.file.level < settled]
    if untold:
        named = files.partitions.of_row(partition).named
        raise InvalidRequestError(
            f"{named} of {files.name} holds {len(untold)} files whose changes "
            f"changelog-producer={options.changelog_producer.value} has not recorded yet, and a "
            "rescale would lose them; compact the partition fully first (lakewright compact, "
            "with --full)"
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


def run_rescale(
    files: TableFiles,
    plan: RescalePlan,
    engine: Engine,
    *,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
    lease: Lease | None = None,
) -> RescaleResult:
    """Carry a plan out by partition; with a lease, only partitions that it covers until the commit.

    On failure, committed partitions stay, and another rescale continues. Partitions that conflict
    with other commits are left out; the result names them.

    Raises:
        StalePlan: other commits changed all planned partitions; plan again.
        LeaseLost: the lease was lost, or all its partitions were taken; nothing is published.
        InvalidRequestError: the plan changes the option `bucket` of a table that counts no buckets.
        SchemaMoved: the table's schema changed since the plan.
        RetriesExhausted: other processes committed too often.
        VerificationFailed: rows written differ from rows read; the partition stays.
    """
    if files.schema.id != plan.schema_id:
        raise SchemaMoved(
            f"{files.name} was opened with schema {files.schema.id}, and the rescale was planned "
            f"with schema {plan.schema_id}; plan again"
        )
    rewrite = Rewrite(
        plan=plan,
        tasks=plan.tasks,
        part_of=_part_of,
        write=partial(move_rows, verify=verify),
        by_partition=True,
        kind=CommitKind.OVERWRITE,
    )
    live = check_plan(files, rewrite)
    if plan.bucket_option is not None and files.options.bucket_mode is not BucketMode.FIXED:
        raise InvalidRequestError(
            f"the plan sets option bucket of {files.name} to {plan.bucket_option}, and its buckets "
            f"are {files.options.bucket_mode.value}; plan again"
        )
    if plan.bucket_option is not None:
        files = set_bucket_option(files, plan.bucket_option)
    outcome = carry_out(files, live, engine, lease)
    return RescaleResult(**outcome.moved(), schema_id=files.schema.id)


def with_bucket_option(files: TableFiles, bucket_count: int) -> TableFiles:
    """The table as its next schema, with another option `bucket`, would show it."""
    options = {**files.schema.options, "bucket": str(bucket_count)}
    schema = replace(
        files.schema, id=files.schema.id + 1, options=options, time_millis=files.env.now_ms()
    )
    return replace(files, schema=schema)


def set_bucket_option(files: TableFiles, bucket_count: int) -> TableFiles:
    """Change the option `bucket`, and return the table with the new schema.

    Raises:
        SchemaMoved: another client changed the schema; nothing is changed.
    """
    changed = with_bucket_option(files, bucket_count)
    check_supported(changed.schema, Use.COMPACT, table=files.name)
    if not files.schemas.put_schema(changed.schema):
        raise SchemaMoved(
            f"another client changed the schema of {files.name} just now; open the table and plan "
            "again"
        )
    return changed


def _part_of(task: RescaleTask, partition: HeldPartition) -> Part[Share] | None:
    buckets = settled(partition)
    reads = tuple(file for bucket in buckets for file in bucket.files)
    if {file.file_name for file in reads} != set(task.files):
        return None
    return Part(
        task=task,
        places=frozenset(bucket.place for bucket in buckets if bucket.entries),
        reads=reads,
        work=_shares(task, buckets),
        removals=tuple(
            bucket.removal(task.from_buckets, bucket.files, bucket.indexes) for bucket in buckets
        ),
    )


def _shares(task: RescaleTask, buckets: Sequence[HeldBucket]) -> tuple[Share, ...]:
    remainders = gcd(task.from_buckets, task.bucket_count)
    splits: dict[int, list[DataSplit]] = defaultdict(list)
    for bucket in buckets:
        if bucket.entries:
            split = DataSplit(
                partition=bucket.partition,
                bucket=bucket.bucket,
                files=bucket.files,
                merge=True,
                deletions=deletions_of(bucket.indexes, {file.file_name for file in bucket.files}),
            )
            splits[bucket.bucket % remainders].append(split)
    return tuple(
        Share(partition=buckets[0].partition, splits=tuple(parts), to_buckets=task.bucket_count)
        for parts in splits.values()
    )
