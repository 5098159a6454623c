"""Compaction: fewer, larger files with the same rows.

1. Plan from metadata: per bucket, which files are worth rewriting and why. Append
   buckets are packed; of a primary-key bucket the tree says which runs are merged, at
   which level they go on, and which files only change their level.
2. Re-check the plan against the latest snapshot; buckets that moved on are left out.
3. Rewrite each bucket's files, in tasks of an engine.
4. Prove that nothing was lost: rows written, as the files' own footers say, are
   those that were read or merged.
5. Commit as COMPACT; a bucket that lost a race is dropped, its files deleted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.bin_packing import (
    pack_neighbours,
    pack_small_files,
    pack_small_stretches,
)
from lakewright.storage.lsm.levels import levels_of
from lakewright.storage.lsm.universal_compaction import (
    CompactionUnit,
    OffPeakHours,
    UniversalPolicy,
    Upgrade,
    pick_full,
    pick_unit,
)
from lakewright.storage.operations.rewrite.compact_append import AppendTask, rewrite_append
from lakewright.storage.operations.rewrite.compact_levels import rewrite_levels, steps_of
from lakewright.storage.operations.rewrite.compact_outputs import deletions_of
from lakewright.storage.operations.rewrite.compact_run import (
    BucketWork,
    carry_out,
    deletion_indexes,
)
from lakewright.storage.operations.rewrite.compaction_plan import (
    CompactionPlan,
    CompactionResult,
    CompactionTask,
    SkippedBucket,
)
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.keys import check_key_types
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_files import grouped_by_bucket, live_entries
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.lookup_strategy import lookup_strategy
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.supported_options import Use, check_supported

# --- planning ---------------------------------------------------------------------------------


def plan_compact(
    files: TableFiles,
    *,
    partitions: Sequence[Mapping[str, object]] | None = None,
    buckets: Sequence[int] | None = None,
    full: bool = False,
    min_file_num: int | None = None,
) -> CompactionPlan:
    """What is worth compacting, from metadata alone.

    A partition may be named by some of its columns. `full` takes everything that is
    not yet as a full compaction leaves it; otherwise append buckets need `min_file_num`
    small files (option `compaction.min.file-num`), and of primary-key buckets
    universal compaction picks the runs, `min_file_num` standing for the option
    `num-sorted-run.compaction-trigger`.

    Raises:
        UnsupportedError: the table has an option that is not implemented.
        InvalidRequestError: a partition names no partition column.
    """
    check_supported(files.schema, Use.COMPACT, table=files.name)
    if min_file_num is not None and min_file_num < 2:
        raise InvalidRequestError(f"min_file_num is {min_file_num}; compaction needs at least 2")

    def pick(
        metas: Sequence[DataFileMeta], indexes: Sequence[IndexFileMeta]
    ) -> tuple[list[CompactionUnit], str]:
        if files.schema.is_keyed:
            return _pick_keyed(files, metas, indexes, full=full, trigger=min_file_num)
        return _pick_append(files, metas, indexes, full=full, least=min_file_num)

    return planned_buckets(files, pick, partitions=partitions, buckets=buckets)


# From a bucket's files and its deletion vectors to what is to be done with them, and why.
PickUnits = Callable[
    [Sequence[DataFileMeta], Sequence[IndexFileMeta]], tuple[list[CompactionUnit], str]
]


def planned_buckets(
    files: TableFiles,
    pick: PickUnits,
    *,
    partitions: Sequence[Mapping[str, object]] | None,
    buckets: Sequence[int] | None = None,
) -> CompactionPlan:
    """A plan of what `pick` finds in each bucket asked for."""
    wanted = PartitionFilter.of_specs(files, partitions)
    snapshot, (deletions, live) = read_latest(
        files,
        lambda latest: (
            deletion_indexes(files, latest),
            grouped_by_bucket(live_entries(files, latest)),
        ),
    )
    check_key_types(files, {entry.file.schema_id for group in live.values() for entry in group})
    tasks: list[CompactionTask] = []
    skipped: list[SkippedBucket] = []
    for place, group in live.items():
        bucket = place.bucket
        if not wanted.takes(group[0]):
            continue
        # Rows below bucket 0 have no bucket yet, and are not merged before they do.
        if bucket < 0 or (buckets is not None and bucket not in buckets):
            continue
        metas = [entry.file for entry in group]
        spec = files.partitions.of_entry(group[0]).spec
        units, reason = pick(metas, deletions.get(place, ()))
        if not units:
            skipped.append(
                SkippedBucket(partition=spec, bucket=bucket, files=len(metas), reason=reason)
            )
        tasks += [_task(files, spec, bucket, unit, metas) for unit in units]
    return CompactionPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        tasks=tuple(tasks),
        skipped=tuple(skipped),
    )


def _task(
    files: TableFiles,
    spec: dict[str, object],
    bucket: int,
    unit: CompactionUnit,
    metas: Sequence[DataFileMeta],
) -> CompactionTask:
    return CompactionTask(
        partition=spec,
        bucket=bucket,
        files=tuple(file.file_name for file in unit.files),
        file_sizes=tuple(file.file_size for file in unit.files),
        rows=sum(file.row_count for file in unit.files),
        output_level=unit.output_level,
        reason=unit.reason,
        upgrades=_upgrades(files, unit, metas),
        file_by_file=unit.file_by_file,
    )


# --- append buckets ---------------------------------------------------------------------------


def _pick_append(
    files: TableFiles,
    metas: Sequence[DataFileMeta],
    indexes: Sequence[IndexFileMeta],
    *,
    full: bool,
    least: int | None,
) -> tuple[list[CompactionUnit], str]:
    options = files.options
    needed = 2 if full else least or options.compaction_min_file_num
    groups = _pack_append(files, metas, needed, full=full)
    stale = _mostly_deleted(metas, indexes, 0.0 if full else options.compaction_delete_ratio)
    if indexes and (stale or groups):
        # A bucket's deletion vectors are written anew as a whole, so one task does it. Files that
        # are no neighbours do not become one: the task goes stretch by stretch.
        names = {file.file_name for group in (*groups, stale) for file in group}
        together = [file for file in metas if file.file_name in names]
        groups = [tuple(sorted(together, key=lambda file: file.min_sequence_number))]
    if not groups:
        return [], f"fewer than {needed} small files to join, of {len(metas)} in all"
    count = sum(len(group) for group in groups)
    told = f"{count} small files of {len(metas)} become {len(groups)}"
    if stale:
        told = f"{count} files of {len(metas)}, {len(stale)} of them for their deleted rows"
    return [CompactionUnit(files=group, output_level=0, reason=told) for group in groups], told


def _pack_append(
    files: TableFiles, metas: Sequence[DataFileMeta], needed: int, *, full: bool
) -> list[tuple[DataFileMeta, ...]]:
    options = files.options
    target, ratio = options.target_file_size, options.compaction_small_file_ratio
    if options.bucket_mode is BucketMode.FIXED:
        if full:
            return pack_small_stretches(metas, target_bytes=target, small_ratio=ratio)
        return pack_neighbours(metas, target_bytes=target, min_files=needed, small_ratio=ratio)
    groups = pack_small_files(
        metas,
        target_bytes=target,
        min_files=needed,
        # Tasks of a limited number of files are for when there is no end to them.
        open_cost_bytes=0 if full else options.compaction_open_file_cost,
        small_ratio=ratio,
    )
    return [tuple(sorted(group, key=_by_age)) for group in groups]


def _by_age(file: DataFileMeta) -> tuple[int, str]:
    return file.creation_time or 0, file.file_name


def _mostly_deleted(
    metas: Sequence[DataFileMeta], indexes: Sequence[IndexFileMeta], above: float
) -> tuple[DataFileMeta, ...]:
    """Files of whose rows more than a share is gone; where nobody counted, it is."""
    vectors = deletions_of(indexes, {file.file_name for file in metas})
    gone = {vector.data_file: vector.cardinality for _, vector in vectors}
    return tuple(
        file
        for file in metas
        if file.file_name in gone
        and (gone[file.file_name] or file.row_count) > above * file.row_count
    )


# --- primary-key buckets ----------------------------------------------------------------------


def _pick_keyed(
    files: TableFiles,
    metas: Sequence[DataFileMeta],
    indexes: Sequence[IndexFileMeta],
    *,
    full: bool,
    trigger: int | None,
) -> tuple[list[CompactionUnit], str]:
    levels = levels_of(metas, files.options.num_levels)
    policy = universal_policy(files, trigger)
    if full:
        unit = pick_full(levels, _stale_at_top(files, indexes))
    else:
        now_ms = files.env.now_ms()
        unit = pick_unit(levels, policy, now_ms=now_ms, hour=_hour(now_ms))
    if unit is not None:
        return [unit], unit.reason
    count = len(levels.runs)
    if all(file.level == levels.max_level for file in metas):
        return [], f"everything is at the top level, in {_counted(len(metas), 'file')}"
    if count < policy.run_trigger:
        return [], f"{_counted(count, 'sorted run')}, fewer than {policy.run_trigger}"
    return [], f"{_counted(count, 'sorted run')}, each much smaller than the next"


def universal_policy(files: TableFiles, run_trigger: int | None = None) -> UniversalPolicy:
    """When runs of a table's buckets are merged, by its options."""
    options = files.options
    start, end = options.compaction_off_peak_start_hour, options.compaction_off_peak_end_hour
    off_peak = None
    if -1 not in (start, end) and start != end:
        off_peak = OffPeakHours(start, end, options.compaction_off_peak_ratio)
    lookups = lookup_strategy(options, files.merge_spec)
    return UniversalPolicy(
        max_size_amplification_percent=options.compaction_max_size_amplification_percent,
        size_ratio_percent=options.compaction_size_ratio,
        run_trigger=run_trigger or options.num_sorted_run_compaction_trigger,
        optimization_interval_ms=options.compaction_optimization_interval_ms,
        total_size_threshold=options.compaction_total_size_threshold,
        incremental_size_threshold=options.compaction_incremental_size_threshold,
        force_up_level0=options.compaction_force_up_level0 or lookups.needed,
        off_peak=off_peak,
    )


def _hour(now_ms: int) -> int:
    """The hour of the day where this machine is."""
    return dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC).astimezone().hour


def _stale_at_top(
    files: TableFiles, indexes: Sequence[IndexFileMeta]
) -> Callable[[DataFileMeta], bool]:
    """Which files of the top level still hold rows that are gone."""
    if files.options.compaction_force_rewrite_all_files:
        return lambda file: True
    if files.options.deletion_vectors_enabled:
        marked = {v.data_file for index in indexes for v in index.deletion_vectors or ()}
        return lambda file: file.file_name in marked
    return lambda file: file.delete_row_count != 0


def _upgrades(
    files: TableFiles, unit: CompactionUnit, metas: Sequence[DataFileMeta]
) -> tuple[str, ...]:
    if not files.schema.is_keyed:
        return ()
    steps = steps_of(files, unit, levels_of(metas, files.options.num_levels))
    return tuple(step.file.file_name for step in steps if isinstance(step, Upgrade))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# --- running ----------------------------------------------------------------------------------


def run_compact(
    files: TableFiles,
    plan: CompactionPlan,
    engine: Engine,
    *,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
    lease: Lease | None = None,
) -> CompactionResult:
    """Carry a plan out; with a lease as much of it as that is for, and stays for.

    Raises:
        StalePlan: none of the planned files is as it was; plan again.
        LeaseLost: the lease was, or all of it was taken away; nothing is published.
        SchemaMoved: the table's schema changed since it was opened.
        VerificationFailed: rows written differ from rows merged; nothing is committed.
    """
    return carry_out(files, plan, engine, partial(rewrite_bucket, verify=verify), lease)


def rewrite_bucket(
    files: TableFiles,
    write_id: str,
    work: BucketWork,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
) -> CommitMessage:
    """Write the files of one bucket anew."""
    if isinstance(work, AppendTask):
        return rewrite_append(files, write_id, work, verify)
    return rewrite_levels(files, write_id, work, verify)
