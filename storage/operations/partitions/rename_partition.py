"""Renames a partition: its rows get other values of the partition columns, in one commit.

Data files hold the partition columns, so the rows are written again.

1. Plan from metadata alone: the partition exists, and the other one holds no file.
2. Write each bucket again, in tasks of an engine, and prove the new files.
3. Commit: the old files go and the new ones come in one OVERWRITE snapshot. It is refused if
   another commit has changed either partition since the plan.
4. On failure the new files are deleted, and the table is as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from lakewright.storage.errors import InvalidRequestError, PartitionExists, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.replace_partitions import commit_partitions
from lakewright.storage.operations.leases.leases import require_lease
from lakewright.storage.operations.partitions.held_partitions import (
    HeldFiles,
    HeldNow,
    check_as_planned,
    check_partitioned,
    held_files,
    held_now,
    planned_rows,
)
from lakewright.storage.operations.partitions.select_partitions import (
    check_all_found,
    selected_entries,
    selection,
)
from lakewright.storage.operations.partitions.write_renamed import RenameTask, write_renamed
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.references.sweep import sweep_repeated, swept_after_failure
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import (
    PARTITION,
    PartitionValues,
    needed,
    option,
)
from lakewright.storage.operations.state.keys import check_key_types
from lakewright.storage.operations.state.latest import read_latest, stale_if_replaced
from lakewright.storage.operations.state.live_files import deletions_by_bucket, grouped_by_bucket
from lakewright.storage.operations.state.rewrite_schema import check_rewritable
from lakewright.storage.operations.state.row_ids import refuse_columns_apart
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import HASH_INDEX
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamePartitionPlan(Plan["RenamePartitionResult"]):
    """The partition to write again under other values, as of one snapshot."""

    table: str
    snapshot_id: int | None
    renamed: HeldFiles
    to: dict[str, object]

    @property
    def work_bytes(self) -> int | None:
        return self.renamed.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamePartitionResult(Shown):
    """What a rename did; rows are those after merging."""

    snapshot: Snapshot
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    nulled_values: int
    duration_ms: int


@dataclass(frozen=True)
class RenamePartitionOptions:
    """The partition, and its new values."""

    partition: PartitionValues | None = option(
        PARTITION, None, "The partition, by all of its columns."
    )
    to: PartitionValues | None = option(
        PARTITION, None, "Its new values; columns that stay may be left out."
    )


def plan_rename_partition(
    files: TableFiles, options: RenamePartitionOptions
) -> RenamePartitionPlan:
    """Plan to give the rows of a partition other values; `to` may leave out keys that stay.

    Raises:
        InvalidRequestError: a key is missing, unknown, or gets a value that it cannot have; or the
            values are those that the partition has; or rows would belong to other buckets.
        PartitionNotFound: there is no such partition.
        PartitionExists: a partition has the new values.
        UnsupportedError: the table has an option that is not implemented.
    """
    check_partitioned(files)
    check_supported(files.schema, Use.COMPACT, table=files.name)
    refuse_columns_apart(files, "another name of a partition")
    named = needed(
        options.partition,
        f"name a partition of {files.name}: partition is not given (--partition K=V,… on the "
        "command line)",
    )
    whole = _whole(files, named)
    to = needed(
        options.to,
        f"say what {whole.named} of {files.name} becomes: to is not given (--to K=V,… on the "
        "command line)",
    )
    target = _whole(files, {**whole.spec, **to})
    if target == whole:
        raise InvalidRequestError(f"{whole.named} of {files.name} has these values already")
    _check_writable(files, target)
    _check_buckets_stay(files, whole, target)
    asked = selection(files, partitions=[whole.spec, target.spec])
    snapshot, found = read_latest(files, lambda latest: selected_entries(files, latest, asked))
    if whole not in found:
        only = selection(files, partitions=[whole.spec])
        check_all_found(files, snapshot, only, [])
    if target in found:
        raise PartitionExists(
            f"{files.name} has {target.named} with {len(found[target])} files; choose other "
            f"values, or INSERT the rows there and drop {whole.named}, or drop {target.named} "
            "first, which deletes its rows"
        )
    _check_settled(files, whole, {entry.bucket for entry in found[whole]})
    return RenamePartitionPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        renamed=held_files(whole, found[whole]),
        to=target.spec,
    )


def _whole(files: TableFiles, spec: Mapping[str, object]) -> Partition:
    """The partition that a caller names by all of its keys."""
    stored = files.partitions.stored(spec)
    missing = [key for key in files.schema.partition_keys if key not in stored]
    if missing:
        raise InvalidRequestError(
            f"{describe_partition(spec)} names no single partition of {files.name}: give a "
            f"value of {', '.join(missing)} too"
        )
    return files.partitions.of_values(tuple(stored.values()))


def _check_writable(files: TableFiles, target: Partition) -> None:
    """Check that rows may have the values."""
    for field, value in zip(target.keys.fields, target.values, strict=True):
        if value is None and not field.type.nullable:
            raise InvalidRequestError(
                f"partition key {field.name} of {files.name} is NOT NULL, so no partition can be "
                "renamed to null there"
            )


def _check_buckets_stay(files: TableFiles, partition: Partition, target: Partition) -> None:
    """Check that no row changes its bucket: readers look for a row where its values hash to."""
    changed = {key for key, value in target.spec.items() if value != partition.spec[key]}
    hashed = [key for key in files.options.bucket_keys if key in changed]
    if hashed:
        raise InvalidRequestError(
            f"partition key {hashed[0]} of {files.name} is in its bucket-key, so rows with another "
            f"value belong to other buckets; write the rows of {partition.named} with the new "
            "values, and drop it then"
        )


def _check_settled(files: TableFiles, partition: Partition, buckets: set[int]) -> None:
    """Check that no row of the partition waits for a bucket."""
    if any(bucket < 0 for bucket in buckets):
        raise InvalidRequestError(
            f"{partition.named} of {files.name} has rows that wait for a bucket; assign "
            "them first (lakewright postpone-compact)"
        )


# --- running ----------------------------------------------------------------------------------


def run_rename_partition(
    files: TableFiles,
    plan: RenamePartitionPlan,
    engine: Engine,
    *,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
    lease: Lease | None = None,
) -> RenamePartitionResult:
    """Carry a plan out, in one commit.

    Raises:
        StalePlan: another commit changed the partition, or made one with the new values.
        LeaseLost: the lease was lost while the rows were written.
        SchemaMoved: the table's schema changed since it was opened.
        VerificationFailed: rows written differ from rows read; nothing is published.
        CommitOutcomeUnknownError: the store failed while the snapshot was created.
    """
    started = files.env.now_ms()
    check_partitioned(files)
    check_supported(files.schema, Use.COMPACT, table=files.name)
    refuse_columns_apart(files, "another name of a partition")
    planned = planned_rows(files, [plan.renamed])
    (row,) = planned
    target = files.partitions.planned(plan.to)
    _check_buckets_stay(files, files.partitions.of_row(row), target)
    now = held_now(files, {row, target.row})
    check_as_planned(files, planned, now, plan.snapshot_id)
    _check_free(files, now, target)
    _check_writable(files, target)
    held = now.names({row, target.row})
    run_id = files.env.new_id()
    base_id = None if now.snapshot is None else now.snapshot.id
    with (
        stale_if_replaced(files, lambda: now.snapshot, "a rename"),
        swept_after_failure(files, [run_id], base_id),
    ):
        write = partial(_write_one, files, run_id, verify)
        messages = list(engine.map(write, _tasks(files, now, row, target)))
        require_lease(files, lease)
        snapshot, _ = commit_partitions(files, held, messages, user=run_id, base=now.snapshot)
    assert snapshot is not None
    if engine.may_repeat:
        sweep_repeated(files, run_id, messages, since_snapshot_id=base_id)
    written = [file for message in messages for file in message.new_files]
    return RenamePartitionResult(
        snapshot=snapshot,
        files_before=len(plan.renamed.files),
        files_after=len(written),
        bytes_before=plan.renamed.bytes,
        bytes_after=sum(file.file_size for file in written),
        rows=sum(file.row_count for file in written),
        nulled_values=sum(message.nulled_values for message in messages),
        duration_ms=files.env.now_ms() - started,
    )


def _check_free(files: TableFiles, now: HeldNow, target: Partition) -> None:
    if any(entry.partition == target.row for entry in now.entries):
        raise StalePlan(f"{files.name} has {target.named} by now; drop it, or choose other values")


def _tasks(files: TableFiles, now: HeldNow, row: bytes, target: Partition) -> list[RenameTask]:
    entries = [entry for entry in now.entries if entry.partition == row]
    check_rewritable(files, (entry.file for entry in entries))
    check_key_types(files, {entry.file.schema_id for entry in entries})
    _check_settled(files, files.partitions.of_row(row), {entry.bucket for entry in entries})
    deletions = deletions_by_bucket(now.indexes)
    return [
        RenameTask(
            split=DataSplit(
                partition=row,
                bucket=place.bucket,
                files=tuple(entry.file for entry in group),
                merge=True,
                deletions=deletions.get(place, ()),
            ),
            total_buckets=group[0].total_buckets,
            to=target,
            hashes=tuple(
                index.file
                for index in now.indexes
                if index.place == place and index.file.index_type == HASH_INDEX
            ),
        )
        for place, group in grouped_by_bucket(entries).items()
    ]


def _write_one(
    files: TableFiles, run_id: str, verify: VerifyLevel, task: RenameTask
) -> CommitMessage:
    files = files.with_row_ids()
    return write_renamed(files, f"{run_id}-{files.env.new_id()[:8]}", task, verify)
