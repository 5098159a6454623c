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
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from lakewright.storage.errors import CommitOutcomeUnknownError, InvalidRequestError, StalePlan
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
from lakewright.storage.operations.commit import commit_compaction
from lakewright.storage.operations.compact_append import AppendTask, rewrite_append
from lakewright.storage.operations.compact_levels import LevelsTask, rewrite_levels, steps_of
from lakewright.storage.operations.compact_outputs import deletions_of
from lakewright.storage.operations.engine import Engine
from lakewright.storage.operations.scan import grouped_by_bucket, index_entries, live_entries
from lakewright.storage.operations.sweep import delete_unpublished, sweep
from lakewright.storage.operations.write import partition_spec_values
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import DELETION_VECTORS_INDEX, IndexFileMeta
from lakewright.storage.spec.lookup_strategy import lookup_strategy
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.options import BucketMode, Use, check_supported
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """One bucket's work: these files become new ones at `output_level`.

    `upgrades` are those of them that keep their bytes and only change their level;
    `file_by_file` says that each of the others is written anew by itself.
    """

    partition: dict[str, object]
    bucket: int
    files: tuple[str, ...]
    file_sizes: tuple[int, ...]
    rows: int
    output_level: int
    reason: str
    upgrades: tuple[str, ...] = ()
    file_by_file: bool = False

    @property
    def bytes(self) -> int:
        return sum(self.file_sizes)

    @property
    def rewritten_bytes(self) -> int:
        """Bytes of the files that are read and written again."""
        sized = zip(self.files, self.file_sizes, strict=True)
        return sum(size for name, size in sized if name not in self.upgrades)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedBucket:
    """A bucket that is left as it is."""

    partition: dict[str, object]
    bucket: int
    files: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """What a compaction would do, as of one snapshot."""

    table: str
    snapshot_id: int | None
    tasks: tuple[CompactionTask, ...]
    skipped: tuple[SkippedBucket, ...]

    @property
    def files_before(self) -> int:
        return sum(len(task.files) for task in self.tasks)

    @property
    def bytes_before(self) -> int:
        return sum(task.bytes for task in self.tasks)

    @property
    def rows(self) -> int:
        return sum(task.rows for task in self.tasks)

    def to_json(self) -> str:
        """The plan as JSON; partition values as text."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> CompactionPlan:
        """The inverse of `to_json`; values that are no JSON come back as text, which plans take."""
        data: dict[str, Any] = json.loads(text)
        tasks = [
            CompactionTask(
                **{
                    **task,
                    "files": tuple(task["files"]),
                    "file_sizes": tuple(task["file_sizes"]),
                    "upgrades": tuple(task.get("upgrades", ())),
                }
            )
            for task in data["tasks"]
        ]
        return cls(
            table=data["table"],
            snapshot_id=data["snapshot_id"],
            tasks=tuple(tasks),
            skipped=tuple(SkippedBucket(**each) for each in data["skipped"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """What a compaction did; `dropped_tasks` are buckets that others changed meanwhile.

    `files_upgraded` of the files, before and after alike, only changed their level.
    """

    snapshot: Snapshot | None
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows_before: int
    rows_after: int
    file_sizes_before: tuple[int, ...]
    file_sizes_after: tuple[int, ...]
    files_upgraded: int
    dropped_tasks: int
    duration_ms: int


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
    check_supported(files.schema, Use.WRITE, table=files.name)
    wanted = [dict(partition_spec_values(files, spec)) for spec in partitions or ()]
    if min_file_num is not None and min_file_num < 2:
        raise InvalidRequestError(f"min_file_num is {min_file_num}; compaction needs at least 2")
    snapshot = files.snapshots.latest()
    deletions = _deletion_indexes(files, snapshot)
    tasks: list[CompactionTask] = []
    skipped: list[SkippedBucket] = []
    for (partition, bucket), group in grouped_by_bucket(live_entries(files, snapshot)).items():
        if partitions is not None and not _is_wanted(files, partition, wanted):
            continue
        # Rows below bucket 0 have no bucket yet, and are not merged before they do.
        if bucket < 0 or (buckets is not None and bucket not in buckets):
            continue
        metas = [entry.file for entry in group]
        indexes = deletions.get((partition, bucket), ())
        if files.schema.has_primary_key:
            chosen, reason = _pick_keyed(files, metas, indexes, full=full, trigger=min_file_num)
        else:
            chosen, reason = _pick_append(files, metas, indexes, full=full, least=min_file_num)
        spec = files.partition_spec(partition)
        if not chosen:
            skipped.append(
                SkippedBucket(partition=spec, bucket=bucket, files=len(metas), reason=reason)
            )
        tasks += [
            CompactionTask(
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
            for unit in chosen
        ]
    return CompactionPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        tasks=tuple(tasks),
        skipped=tuple(skipped),
    )


def _is_wanted(files: TableFiles, partition: bytes, wanted: Sequence[Mapping[str, object]]) -> bool:
    values = dict(zip(files.schema.partition_keys, files.partition_values(partition), strict=True))
    return any(all(values[name] == value for name, value in spec.items()) for spec in wanted)


def _deletion_indexes(
    files: TableFiles, snapshot: Snapshot | None
) -> dict[tuple[bytes, int], tuple[IndexFileMeta, ...]]:
    found: dict[tuple[bytes, int], tuple[IndexFileMeta, ...]] = {}
    for entry in index_entries(files, snapshot):
        if entry.file.index_type == DELETION_VECTORS_INDEX:
            place = (entry.partition, entry.bucket)
            found[place] = (*found.get(place, ()), entry.file)
    return found


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
        # A bucket's deletion vectors are written anew as a whole, so one task does it.
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
    target = options.target_file_size
    if options.bucket_mode is BucketMode.FIXED:
        if full:
            return pack_small_stretches(metas, target_bytes=target)
        return pack_neighbours(metas, target_bytes=target, min_files=needed)
    groups = pack_small_files(
        metas,
        target_bytes=target,
        min_files=needed,
        open_cost_bytes=options.compaction_open_file_cost,
        small_ratio=options.compaction_small_file_ratio,
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
    if not files.schema.has_primary_key:
        return ()
    steps = steps_of(files, unit, levels_of(metas, files.options.num_levels))
    return tuple(step.file.file_name for step in steps if isinstance(step, Upgrade))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# --- running ----------------------------------------------------------------------------------


def run_compact(files: TableFiles, plan: CompactionPlan, engine: Engine) -> CompactionResult:
    """Carry a plan out.

    Raises:
        StalePlan: none of the planned files is as it was; plan again.
        CorruptionError: rows written differ in number from rows merged; nothing is committed.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    started = files.env.now_ms()
    snapshot = files.snapshots.latest()
    work = _live_work(files, plan, snapshot)
    if plan.tasks and not work:
        raise StalePlan(
            f"the plan for {files.name} was made at snapshot {plan.snapshot_id}, and none of its "
            f"{plan.files_before} files is live at snapshot {snapshot.id if snapshot else 'none'}; "
            "plan again",
            table=files.name,
        )
    dropped = len(plan.tasks) - len(work)
    if not work or snapshot is None:
        return _result(files, (), None, dropped, started)
    run_id = files.env.new_id()
    try:
        messages = engine.map(partial(rewrite_bucket, files, run_id), work)
        result, lost = commit_compaction(files, messages, user=run_id, base_snapshot_id=snapshot.id)
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        sweep(files, run_id, since_snapshot_id=snapshot.id)
        raise
    delete_unpublished(files, lost, since_snapshot_id=snapshot.id)
    published = [message for message in messages if message not in lost]
    return _result(files, published, result.snapshot, dropped + len(lost), started)


def _result(
    files: TableFiles,
    published: Sequence[CommitMessage],
    snapshot: Snapshot | None,
    dropped: int,
    started_ms: int,
) -> CompactionResult:
    before = [file for message in published for file in message.compact_before]
    after = [file for message in published for file in message.compact_after]
    sizes_before = tuple(file.file_size for file in before)
    sizes_after = tuple(file.file_size for file in after)
    upgraded = {file.file_name for file in before} & {file.file_name for file in after}
    return CompactionResult(
        snapshot=snapshot,
        files_before=len(before),
        files_after=len(after),
        bytes_before=sum(sizes_before),
        bytes_after=sum(sizes_after),
        rows_before=sum(file.row_count for file in before),
        rows_after=sum(file.row_count for file in after),
        file_sizes_before=sizes_before,
        file_sizes_after=sizes_after,
        files_upgraded=len(upgraded),
        dropped_tasks=dropped,
        duration_ms=files.env.now_ms() - started_ms,
    )


def _live_work(
    files: TableFiles, plan: CompactionPlan, snapshot: Snapshot | None
) -> list[AppendTask | LevelsTask]:
    """What is left to do of a plan, with all that tasks need to know of their buckets."""
    live = grouped_by_bucket(live_entries(files, snapshot))
    indexes = _deletion_indexes(files, snapshot)
    work: list[AppendTask | LevelsTask] = []
    for task in plan.tasks:
        values = dict(partition_spec_values(files, task.partition))
        partition = files.partition_bytes([values[key] for key in files.schema.partition_keys])
        place = (partition, task.bucket)
        held = {entry.file.file_name: entry for entry in live.get(place, ())}
        if held.keys() >= set(task.files):
            entries = [held.pop(name) for name in task.files]
            found = _with_bucket(files, task, entries, list(held.values()), indexes.get(place, ()))
            work += [] if found is None else [found]
    return work


def _with_bucket(
    files: TableFiles,
    task: CompactionTask,
    entries: Sequence[ManifestEntry],
    others: Sequence[ManifestEntry],
    indexes: tuple[IndexFileMeta, ...],
) -> AppendTask | LevelsTask | None:
    first = entries[0]
    metas = tuple(entry.file for entry in entries)
    rest = [entry.file for entry in others]
    if not files.schema.has_primary_key:
        return AppendTask(
            partition=first.partition,
            bucket=first.bucket,
            total_buckets=first.total_buckets,
            files=metas,
            others=frozenset(file.file_name for file in rest),
            indexes=indexes,
        )
    if not task.file_by_file and any(0 < file.level <= task.output_level for file in rest):
        # Somebody put files where the merged ones would go, or above them.
        return None
    return LevelsTask(
        partition=first.partition,
        bucket=first.bucket,
        total_buckets=first.total_buckets,
        unit=CompactionUnit(
            files=metas,
            output_level=task.output_level,
            reason=task.reason,
            file_by_file=task.file_by_file,
        ),
        levels=levels_of([*metas, *rest], files.options.num_levels),
        indexes=indexes,
    )


def rewrite_bucket(files: TableFiles, run_id: str, task: AppendTask | LevelsTask) -> CommitMessage:
    """Write the files of one task anew, under names that begin with the run's id."""
    write_id = f"{run_id}-{files.env.new_id()[:8]}"
    if isinstance(task, AppendTask):
        return rewrite_append(files, write_id, task)
    return rewrite_levels(files, write_id, task)
