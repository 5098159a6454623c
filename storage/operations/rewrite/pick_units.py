"""Which files of a bucket are worth compacting, and why: appended files, and runs of levels."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.bin_packing import (
    TARGETS_PER_GROUP,
    bytes_once_joined,
    pack_all,
    pack_neighbours,
    pack_small_files,
    pack_small_stretches,
    units_of_ranges,
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
from lakewright.storage.operations.read.column_files import files_of_rows, with_newer_files
from lakewright.storage.operations.rewrite.compact_levels import steps_of
from lakewright.storage.operations.rewrite.compact_outputs import deletions_of
from lakewright.storage.operations.rewrite.expiring_records import (
    told_past_rows,
    with_past_rows,
)
from lakewright.storage.spec.file_format import empty_file_bytes
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.lookup_strategy import lookup_strategy
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.options import BucketMode

# Takes a bucket's files and deletion vectors; returns the work for them, and the reason.
PickUnits = Callable[
    [Sequence[DataFileMeta], Sequence[IndexFileMeta]], tuple[list[CompactionUnit], str]
]

# As many small files as this one task opens in any case, whatever a table says that one costs.
_FILES_OF_A_TASK = 1_000


def pick_append(
    files: TableFiles,
    metas: Sequence[DataFileMeta],
    indexes: Sequence[IndexFileMeta],
    *,
    full: bool,
    least: int | None,
) -> tuple[list[CompactionUnit], str]:
    """The files of an append bucket to join, with the reason; or the reason for none."""
    options = files.options
    needed = 2 if full else least or options.compaction_min_file_num
    if options.data_evolution_enabled:
        return _pick_columns(files, metas, needed)
    takes_all = full and options.compaction_force_rewrite_all_files
    groups = (
        pack_all(metas, target_bytes=options.target_file_size)
        if takes_all
        else _pack_append(files, metas, needed, full=full)
    )
    stale = _mostly_deleted(metas, indexes, 0.0 if full else options.compaction_delete_ratio)
    if indexes and (stale or groups):
        # A bucket's deletion vectors are rewritten as a whole, so one task takes all files. Files
        # that are not neighbours are not joined: the task goes stretch by stretch.
        names = {file.file_name for group in (*groups, stale) for file in group}
        together = [file for file in metas if file.file_name in names]
        groups = [tuple(sorted(together, key=lambda file: file.min_sequence_number))]
    if not groups:
        return [], f"fewer than {needed} small files to join, of {len(metas)} in all"
    count = sum(len(group) for group in groups)
    told = f"{count} small files of {len(metas)} become {len(groups)}"
    if takes_all:
        told = f"all {len(metas)} files, as compaction.force-rewrite-all-files asks"
    elif stale:
        told = f"{count} files of {len(metas)}, {len(stale)} of them for their deleted rows"
    return [CompactionUnit(files=group, output_level=0, reason=told) for group in groups], told


def _pick_columns(
    files: TableFiles, metas: Sequence[DataFileMeta], needed: int
) -> tuple[list[CompactionUnit], str]:
    """Files of columns to join with those of their rows, and files of rows that follow each other.

    Rows keep their ids, which a file has from its first on.
    """
    joined = with_newer_files(metas, table=files.name)
    every = [files_of_rows(file) for file in joined]
    ranges = (
        (file.first_row_id or 0, file.row_count, sum(each.file_size for each in own))
        for file, own in zip(joined, every, strict=True)
    )
    units: dict[int, list[DataFileMeta]] = {}
    numbers = units_of_ranges(ranges, target_bytes=files.options.target_file_size)
    for unit, own in zip(numbers, every, strict=True):
        units.setdefault(unit, []).extend(own)
    chosen = [tuple(unit) for unit in units.values() if len(unit) >= needed]
    if not chosen:
        return [], f"fewer than {needed} files of the same or the next rows, of {len(metas)}"
    count = sum(map(len, chosen))
    told = f"{count} files of {len(metas)}, of the same or the next rows, become {len(chosen)}"
    return [CompactionUnit(files=unit, output_level=0, reason=told) for unit in chosen], told


def _pack_append(
    files: TableFiles, metas: Sequence[DataFileMeta], needed: int, *, full: bool
) -> list[tuple[DataFileMeta, ...]]:
    options = files.options
    target, ratio = options.target_file_size, options.compaction_small_file_ratio
    if options.bucket_mode is BucketMode.FIXED:
        if full:
            return pack_small_stretches(metas, target_bytes=target, small_ratio=ratio)
        return pack_neighbours(metas, target_bytes=target, min_files=needed, small_ratio=ratio)
    # A full compaction opens as many files as there are.
    cost = min(options.compaction_open_file_cost, TARGETS_PER_GROUP * target // _FILES_OF_A_TASK)
    joined = bytes_once_joined(
        metas, empty_file_bytes(options.file_format, len(files.schema.fields))
    )
    groups = pack_small_files(
        metas,
        target_bytes=target,
        min_files=needed,
        weight_of=joined if full else lambda file: joined(file) + cost,
        small_ratio=ratio,
    )
    return [tuple(sorted(group, key=_by_age)) for group in groups]


def _by_age(file: DataFileMeta) -> tuple[int, str]:
    return file.creation_time or 0, file.file_name


def _mostly_deleted(
    metas: Sequence[DataFileMeta], indexes: Sequence[IndexFileMeta], above: float
) -> tuple[DataFileMeta, ...]:
    """Files with more than a share of deleted rows; files without a count are included."""
    vectors = deletions_of(indexes, {file.file_name for file in metas})
    gone = {vector.data_file: vector.cardinality for _, vector in vectors}
    return tuple(
        file
        for file in metas
        if file.file_name in gone
        and (gone[file.file_name] or file.row_count) > above * file.row_count
    )


def pick_keyed(
    files: TableFiles,
    metas: Sequence[DataFileMeta],
    indexes: Sequence[IndexFileMeta],
    *,
    full: bool,
    trigger: int | None,
) -> tuple[list[CompactionUnit], str]:
    """The sorted runs of a primary-key bucket to merge, with the reason; or the reason for none."""
    levels = levels_of(metas, files.options.num_levels)
    policy = universal_policy(files, trigger)
    if full:
        past = {file.file_name for file in with_past_rows(files, metas)}
        stale = _stale_at_top(files, indexes)
        unit = pick_full(levels, lambda file: stale(file) or file.file_name in past)
    else:
        now_ms = files.env.now_ms()
        unit = pick_unit(levels, policy, now_ms=now_ms, hour=_hour(now_ms))
    if unit is not None:
        unit = told_past_rows(files, unit)
        return [unit], unit.reason
    count = len(levels.runs)
    if all(file.level == levels.max_level for file in metas):
        return [], f"everything is at the top level, in {_counted(len(metas), 'file')}"
    if count < policy.run_trigger:
        return [], f"{_counted(count, 'sorted run')}, fewer than {policy.run_trigger}"
    return [], f"{_counted(count, 'sorted run')}, each much smaller than the next"


def universal_policy(files: TableFiles, run_trigger: int | None = None) -> UniversalPolicy:
    """The table's policy for merging runs, from its options."""
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
        # What a caller names is the number from which work is due.
        merges_at_trigger=run_trigger is not None,
    )


def _hour(now_ms: int) -> int:
    """The hour of the day in this machine's time zone."""
    return dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC).astimezone().hour


def _stale_at_top(
    files: TableFiles, indexes: Sequence[IndexFileMeta]
) -> Callable[[DataFileMeta], bool]:
    """Files of the top level that still hold deleted rows."""
    if files.options.compaction_force_rewrite_all_files:
        return lambda file: True
    if files.options.deletion_vectors_enabled:
        marked = {v.data_file for index in indexes for v in index.deletion_vectors or ()}
        return lambda file: file.file_name in marked
    return lambda file: file.delete_row_count != 0


def upgrades_of(
    files: TableFiles, unit: CompactionUnit, metas: Sequence[DataFileMeta]
) -> tuple[str, ...]:
    """Files of a unit that keep their bytes and only change their level."""
    if not files.schema.is_keyed:
        return ()
    steps = steps_of(files, unit, levels_of(metas, files.options.num_levels))
    return tuple(step.file.file_name for step in steps if isinstance(step, Upgrade))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
