"""Statistics of a table's partitions and buckets, from metadata alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakewright.storage.codec.manifest_columns import NO_NUMBER
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.bucket_columns import BucketColumns
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketStats:
    """One bucket; `sorted_run_count` is the number of runs that a reader merges.

    Waiting files are invisible to readers until a compaction takes them up. Joined files are those
    that a compaction takes, if one is due, and left files those that it makes of them;
    `left_run_count` are the runs after it.
    """

    bucket: int
    file_count: int
    small_file_count: int
    level0_count: int
    sorted_run_count: int
    size_bytes: int
    row_count: int
    waiting_file_count: int = 0
    waiting_row_count: int = 0
    small_bytes: int = 0
    joined_file_count: int = 0
    joined_bytes: int = 0
    left_file_count: int = 0
    left_run_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStats:
    """One partition; rows are counted in files, before versions of a key are merged.

    `merged_row_count` are the rows that readers see, where files alone tell; else None.
    `last_update` is the last retained commit that changed its rows, where a caller asked for it;
    `last_update_unknown` says that such commits are retained, and do not tell, since the partition
    keys changed after them.
    """

    partition: Partition
    row_count: int
    file_count: int
    size_bytes: int
    first_file_creation_ms: int | None
    last_file_creation_ms: int | None
    buckets: tuple[BucketStats, ...]
    merged_row_count: int | None = None
    last_update: Snapshot | None = None
    last_update_unknown: bool = False

    @property
    def spec(self) -> dict[str, object]:
        return self.partition.spec

    @property
    def small_file_count(self) -> int:
        return sum(bucket.small_file_count for bucket in self.buckets)

    @property
    def waiting_file_count(self) -> int:
        return sum(bucket.waiting_file_count for bucket in self.buckets)

    @property
    def waiting_row_count(self) -> int:
        return sum(bucket.waiting_row_count for bucket in self.buckets)


def partition_stats(
    files: TableFiles, columns: BucketColumns, chosen: Sequence[int] | None = None
) -> tuple[PartitionStats, ...]:
    """All partitions, or those of some numbers, sorted by their values."""
    wanted = None if chosen is None else frozenset(chosen)
    found: dict[Partition, list[np.ndarray]] = {}
    for number, buckets in enumerate(columns.of_partitions()):
        if len(buckets) and (wanted is None or number in wanted):
            row, schema_id = columns.partition_rows[number], columns.partition_schemas[number]
            found.setdefault(files.partitions.as_named(row, schema_id), []).append(buckets)
    return tuple(
        _partition(files, columns, partition, np.concatenate(found[partition]))
        for partition in sorted(found, key=lambda each: each.order)
    )


def _partition(
    files: TableFiles, columns: BucketColumns, partition: Partition, buckets: np.ndarray
) -> PartitionStats:
    target_bytes = max(files.options.target_file_size, 1)
    row_count = int(columns.row_count[buckets].sum())
    options = files.options
    holds_more = options.deletion_vectors_enabled or options.data_evolution_enabled
    is_merged = columns.is_merged[buckets].all() and not holds_more
    created = int(columns.last_creation_ms[buckets].max())
    return PartitionStats(
        partition=partition,
        row_count=row_count,
        merged_row_count=row_count if is_merged else None,
        file_count=int(columns.file_count[buckets].sum()),
        size_bytes=int(columns.size_bytes[buckets].sum()),
        first_file_creation_ms=(
            None if created == NO_NUMBER else int(columns.first_creation_ms[buckets].min())
        ),
        last_file_creation_ms=None if created == NO_NUMBER else created,
        buckets=tuple(_bucket(columns, each, target_bytes) for each in buckets.tolist()),
    )


def _bucket(columns: BucketColumns, index: int, target_bytes: int) -> BucketStats:
    joined, joined_bytes = int(columns.joined_count[index]), int(columns.joined_bytes[index])
    return BucketStats(
        bucket=int(columns.bucket[index]),
        file_count=int(columns.file_count[index]),
        small_file_count=int(columns.small_file_count[index]),
        level0_count=int(columns.level0_count[index]),
        sorted_run_count=int(columns.sorted_run_count[index]),
        size_bytes=int(columns.size_bytes[index]),
        row_count=int(columns.row_count[index]),
        waiting_file_count=int(columns.waiting_file_count[index]),
        waiting_row_count=int(columns.waiting_row_count[index]),
        small_bytes=int(columns.small_bytes[index]),
        joined_file_count=joined,
        joined_bytes=joined_bytes,
        left_file_count=min(joined, max(-(-joined_bytes // target_bytes), 1)),
        left_run_count=int(columns.left_run_count[index]),
    )
