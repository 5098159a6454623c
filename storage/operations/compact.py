"""Compaction: fewer, larger files with the same rows.

1. Plan from metadata: per bucket, which files are worth rewriting and why.
2. Re-check the plan against the latest snapshot; buckets that moved on are left out.
3. Rewrite each bucket's files: append rows as they are, in order; key-value rows
   merged to the last of each key, into the top level, where deletions end.
4. Prove that nothing was lost: rows written, as the files' own footers say, are
   those that were read or merged.
5. Commit as COMPACT; a bucket that lost a race is dropped, its files deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from lakewright.storage.errors import (
    CommitOutcomeUnknownError,
    CorruptionError,
    InvalidRequestError,
    StalePlan,
)
from lakewright.storage.files.data_files import count_rows
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.bin_packing import pack_neighbours, pack_small_files
from lakewright.storage.lsm.merge import retracting, without_deletions
from lakewright.storage.lsm.sections import sorted_run_count
from lakewright.storage.operations.bucket_writer import BucketTarget, RollingWriter
from lakewright.storage.operations.commit import commit_compaction
from lakewright.storage.operations.engine import Engine
from lakewright.storage.operations.file_rows import FileRows
from lakewright.storage.operations.merge_read import merged_windows
from lakewright.storage.operations.read import SplitReader
from lakewright.storage.operations.scan import (
    DataSplit,
    grouped_by_bucket,
    live_entries,
)
from lakewright.storage.operations.sweep import delete_unpublished, sweep
from lakewright.storage.operations.write import partition_spec_values
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.manifest import DataFileMeta, FileSource, ManifestEntry
from lakewright.storage.spec.options import BucketMode, Use, check_supported
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """One bucket's work: these files become new ones at `output_level`."""

    partition: dict[str, object]
    bucket: int
    files: tuple[str, ...]
    file_sizes: tuple[int, ...]
    rows: int
    output_level: int
    reason: str

    @property
    def bytes(self) -> int:
        return sum(self.file_sizes)


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
    """What a compaction did; `dropped_tasks` are buckets that others changed meanwhile."""

    snapshot: Snapshot | None
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows_before: int
    rows_after: int
    file_sizes_before: tuple[int, ...]
    file_sizes_after: tuple[int, ...]
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

    A partition may be named by some of its columns. `full` rewrites whatever is
    more than one file or run; otherwise append buckets need `min_file_num` small
    files (option `compaction.min.file-num`), and key-value buckets as many sorted
    runs (option `num-sorted-run.compaction-trigger`).

    Raises:
        UnsupportedError: the table has an option that is not implemented.
        InvalidRequestError: a partition names no partition column.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    wanted = [dict(partition_spec_values(files, spec)) for spec in partitions or ()]
    if min_file_num is not None and min_file_num < 2:
        raise InvalidRequestError(f"min_file_num is {min_file_num}; compaction needs at least 2")
    snapshot = files.snapshots.latest()
    tasks: list[CompactionTask] = []
    skipped: list[SkippedBucket] = []
    for (partition, bucket), group in grouped_by_bucket(live_entries(files, snapshot)).items():
        if partitions is not None and not _is_wanted(files, partition, wanted):
            continue
        if buckets is not None and bucket not in buckets:
            continue
        spec = files.partition_spec(partition)
        metas = [entry.file for entry in group]
        if files.schema.has_primary_key:
            chosen, reason = _pick_keyed(files, metas, full=full, trigger=min_file_num)
        else:
            chosen, reason = _pick_append(files, metas, full=full, min_files=min_file_num)
        if not chosen:
            skipped.append(
                SkippedBucket(partition=spec, bucket=bucket, files=len(metas), reason=reason)
            )
        tasks += [
            CompactionTask(
                partition=spec,
                bucket=bucket,
                files=tuple(file.file_name for file in unit),
                file_sizes=tuple(file.file_size for file in unit),
                rows=sum(file.row_count for file in unit),
                output_level=files.options.max_level if files.schema.has_primary_key else 0,
                reason=reason,
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


def _pick_append(
    files: TableFiles, metas: Sequence[DataFileMeta], *, full: bool, min_files: int | None
) -> tuple[list[tuple[DataFileMeta, ...]], str]:
    needed = 2 if full else min_files or files.options.compaction_min_file_num
    target = files.options.target_file_size
    pack = pack_neighbours if files.options.bucket_mode is BucketMode.FIXED else pack_small_files
    ordered = sorted(metas, key=lambda file: (file.creation_time or 0, file.file_name))
    groups = pack(ordered, target_bytes=target, min_files=needed)
    if groups:
        count = sum(len(group) for group in groups)
        return groups, f"{count} small files of {len(metas)} become {len(groups)}"
    return [], f"fewer than {needed} small files to join, of {len(metas)} in all"


def _pick_keyed(
    files: TableFiles, metas: Sequence[DataFileMeta], *, full: bool, trigger: int | None
) -> tuple[list[tuple[DataFileMeta, ...]], str]:
    runs = sorted_run_count(metas)
    top = files.options.max_level
    needed = trigger or files.options.num_sorted_run_compaction_trigger
    settled = all(file.level == top and file.delete_row_count == 0 for file in metas)
    if settled:
        return [], f"everything is at the top level, in {_counted(len(metas), 'file')}"
    if full:
        reason = f"{_counted(runs, 'sorted run')}, merged into level {top} as asked"
        return [tuple(metas)], reason
    if runs >= needed:
        reason = f"{_counted(runs, 'sorted run')}, at least {needed}, merged into level {top}"
        return [tuple(metas)], reason
    return [], f"{_counted(runs, 'sorted run')}, fewer than {needed}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# --- running ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Unit:
    """A task with the entries it speaks of."""

    task: CompactionTask
    entries: tuple[ManifestEntry, ...]


def run_compact(files: TableFiles, plan: CompactionPlan, engine: Engine) -> CompactionResult:
    """Carry a plan out.

    Raises:
        StalePlan: none of the planned files is as it was; plan again.
        CorruptionError: rows written differ in number from rows merged; nothing is committed.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    started = files.env.now_ms()
    snapshot = files.snapshots.latest()
    units = _live_units(files, plan, snapshot)
    if plan.tasks and not units:
        raise StalePlan(
            f"the plan for {files.name} was made at snapshot {plan.snapshot_id}, and none of its "
            f"{plan.files_before} files is live at snapshot {snapshot.id if snapshot else 'none'}; "
            "plan again",
            table=files.name,
        )
    dropped = len(plan.tasks) - len(units)
    if not units or snapshot is None:
        return _result(files, (), (), None, dropped, started)
    run_id = files.env.new_id()
    try:
        messages = engine.map(partial(rewrite_bucket, files, run_id), units)
        result, lost = commit_compaction(files, messages, user=run_id, base_snapshot_id=snapshot.id)
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        sweep(files, run_id, since_snapshot_id=snapshot.id)
        raise
    delete_unpublished(files, lost, since_snapshot_id=snapshot.id)
    published = [message for message in messages if message not in lost]
    before = [file for message in published for file in message.compact_before]
    after = [file for message in published for file in message.compact_after]
    return _result(files, before, after, result.snapshot, dropped + len(lost), started)


def _result(
    files: TableFiles,
    before: Sequence[DataFileMeta],
    after: Sequence[DataFileMeta],
    snapshot: Snapshot | None,
    dropped: int,
    started_ms: int,
) -> CompactionResult:
    sizes_before = tuple(file.file_size for file in before)
    sizes_after = tuple(file.file_size for file in after)
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
        dropped_tasks=dropped,
        duration_ms=files.env.now_ms() - started_ms,
    )


def _live_units(files: TableFiles, plan: CompactionPlan, snapshot: Snapshot | None) -> list[_Unit]:
    live = {
        (entry.partition, entry.bucket, entry.file.file_name): entry
        for entry in live_entries(files, snapshot)
    }
    units = []
    for task in plan.tasks:
        values = dict(partition_spec_values(files, task.partition))
        partition = files.partition_bytes([values[key] for key in files.schema.partition_keys])
        entries = [live.get((partition, task.bucket, name)) for name in task.files]
        if all(entry is not None for entry in entries):
            units.append(_Unit(task, tuple(entry for entry in entries if entry is not None)))
    return units


def rewrite_bucket(files: TableFiles, run_id: str, unit: _Unit) -> CommitMessage:
    """Write the files of one unit anew and prove that no row was lost on the way."""
    first = unit.entries[0]
    target = BucketTarget(
        partition=first.partition,
        bucket=first.bucket,
        next_sequence=min(entry.file.min_sequence_number for entry in unit.entries),
        level=unit.task.output_level,
        source=FileSource.COMPACT,
    )
    writer = RollingWriter(files, target, write_id=f"{run_id}-{files.env.new_id()[:8]}")
    metas = tuple(entry.file for entry in unit.entries)
    split = DataSplit(
        partition=first.partition,
        bucket=first.bucket,
        files=metas,
        merge=files.schema.has_primary_key,
    )
    reader = SplitReader(files, columns=None, predicate=None)
    try:
        if files.schema.has_primary_key:
            expected = _merge_into(FileRows(files, files.schema.fields), split, writer)
        else:
            expected = sum(file.row_count for file in metas)
            for rows in reader.read(split):
                writer.write(rows)
        written = writer.close()
        _check_written(files, target, written, expected)
    except BaseException:
        writer.abandon()
        raise
    return CommitMessage(
        partition=first.partition,
        bucket=first.bucket,
        total_buckets=first.total_buckets,
        compact_before=metas,
        compact_after=written,
    )


def _merge_into(source: FileRows, split: DataSplit, writer: RollingWriter) -> int:
    """Merge window by window; how many keys are left."""
    kept = 0
    for merged in merged_windows(source, split):
        # Counted apart from the filter below, which the check of what was written then covers too.
        kept += merged.num_rows - int(np.count_nonzero(retracting(merged)))
        writer.write(without_deletions(merged))
    return kept


def _check_written(
    files: TableFiles, target: BucketTarget, written: Sequence[DataFileMeta], expected: int
) -> None:
    """The footers on disk are asked, not the writer's own count."""
    found = 0
    for file in written:
        path = files.data_file_path(target.partition, target.bucket, file)
        found += count_rows(files.fs, path)
    if found != expected:
        raise CorruptionError(
            f"compaction of bucket {target.bucket}, partition "
            f"{files.partition_spec(target.partition)} of {files.name} wrote {found} rows where "
            f"{expected} were due; nothing was committed",
            table=files.name,
        )
