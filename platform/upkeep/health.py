"""Health: the state of a table's partitions, from metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewright.platform.tables.partition_keys import PartitionColumn, encode_partition
from lakewright.storage import PartitionStats, Snapshot, Table
from lakewright.storage.spec.partition_words import describe_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHealth:
    """One partition; its counts are those of its worst bucket.

    A keyed bucket counts sorted runs, because a reader merges them. An append bucket counts files
    below the target size. Readers do not see rows of waiting files before a compaction, which, of
    all buckets, takes the joined files, and leaves `left_files` in their place, and `left_runs`
    of the sorted runs; states that earlier versions recorded do not say what it leaves. Rows are
    counted in files; `merged_row_count` are those that readers see, where files alone tell.
    """

    key: str
    spec: Mapping[str, object]
    row_count: int
    file_count: int
    size_bytes: int
    small_files: int
    sorted_runs: int
    worst_bucket: int
    last_file_creation_ms: int | None
    waiting_files: int = 0
    waiting_rows: int = 0
    small_bytes: int = 0
    joined_files: int = 0
    joined_bytes: int = 0
    left_files: int = 0
    left_runs: int = 0
    buckets: int = 1
    merged_row_count: int | None = None

    @property
    def name(self) -> str:
        return f"partition {describe_partition(self.spec)}" if self.spec else "the table"

    @property
    def fingerprint(self) -> str:
        """A text that changes with every write to the partition."""
        return f"{self.file_count}/{self.size_bytes}/{self.last_file_creation_ms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """All partitions of a table, as of one snapshot."""

    table: str
    keyed: bool
    snapshot_id: int | None
    partitions: tuple[PartitionHealth, ...]

    @property
    def file_count(self) -> int:
        return sum(partition.file_count for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def row_count(self) -> int:
        return sum(partition.row_count for partition in self.partitions)

    @property
    def small_files(self) -> int:
        return sum(partition.small_files for partition in self.partitions)

    @property
    def waiting_files(self) -> int:
        return sum(partition.waiting_files for partition in self.partitions)

    @property
    def waiting_rows(self) -> int:
        return sum(partition.waiting_rows for partition in self.partitions)


def table_health(
    table: str,
    partitions: Sequence[PartitionStats],
    columns: Sequence[PartitionColumn],
    *,
    keyed: bool,
    snapshot_id: int | None,
) -> TableHealth:
    """The health that a table's metadata shows."""
    return TableHealth(
        table=table,
        keyed=keyed,
        snapshot_id=snapshot_id,
        partitions=tuple(partition_health(stats, columns, keyed=keyed) for stats in partitions),
    )


def read_health(table: Table, snapshot: Snapshot | None = None) -> TableHealth:
    """The health of a table at a snapshot, else at its latest; reads metadata only."""
    snapshot = snapshot or table.history.latest_snapshot()
    snapshot_id = None if snapshot is None else snapshot.id
    return table_health(
        table.name,
        () if snapshot is None else table.at(snapshot=snapshot_id).partitions(),
        partition_columns(table),
        keyed=table.schema.is_keyed,
        snapshot_id=snapshot_id,
    )


def partition_columns(table: Table) -> tuple[PartitionColumn, ...]:
    """The partition columns of a table, which its partition keys are made of."""
    return tuple(
        PartitionColumn(partition_field.name, partition_field.type)
        for partition_field in table.schema.partition_fields
    )


def partition_health(
    stats: PartitionStats, columns: Sequence[PartitionColumn], *, keyed: bool
) -> PartitionHealth:
    """The health of one partition: that of its worst bucket.

    During a change of the partition keys a partition may lack a value for some; its key lacks them
    then, too.
    """
    known = [column for column in columns if column.name in stats.spec]
    worst = max(
        stats.buckets,
        key=lambda each: each.sorted_run_count if keyed else each.small_file_count,
        default=None,
    )
    return PartitionHealth(
        key=encode_partition(stats.spec, known) if known else "",
        spec=stats.spec,
        row_count=stats.row_count,
        file_count=stats.file_count,
        size_bytes=stats.size_bytes,
        small_files=worst.small_file_count if worst else 0,
        sorted_runs=worst.sorted_run_count if worst else 0,
        worst_bucket=worst.bucket if worst else 0,
        last_file_creation_ms=stats.last_file_creation_ms,
        waiting_files=stats.waiting_file_count,
        waiting_rows=stats.waiting_row_count,
        joined_files=sum(bucket.joined_file_count for bucket in stats.buckets),
        joined_bytes=sum(bucket.joined_bytes for bucket in stats.buckets),
        left_files=sum(bucket.left_file_count for bucket in stats.buckets),
        left_runs=worst.left_run_count if worst else 0,
        buckets=max(len(stats.buckets), 1),
        merged_row_count=stats.merged_row_count,
        # A compaction of a keyed bucket may read all of its runs.
        small_bytes=stats.size_bytes
        if keyed
        else sum(bucket.small_bytes for bucket in stats.buckets),
    )
