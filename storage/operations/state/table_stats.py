"""Statistics of a table's partitions and buckets, from metadata alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.bin_packing import is_small
from lakewright.storage.lsm.sections import sorted_run_count
from lakewright.storage.operations.state.live_files import grouped_by_bucket, readable_entries
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketStats:
    """One bucket; `sorted_run_count` is the number of runs that a reader merges.

    Waiting files are invisible to readers until a compaction takes them up.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStats:
    """One partition; rows are counted in files, before versions of a key are merged.

    `last_update` is the last retained commit that changed its rows, where a caller asked for it.
    """

    partition: Partition
    row_count: int
    file_count: int
    size_bytes: int
    last_file_creation_ms: int | None
    buckets: tuple[BucketStats, ...]
    last_update: Snapshot | None = None

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
    files: TableFiles, entries: Iterable[ManifestEntry]
) -> tuple[PartitionStats, ...]:
    """The partitions of live entries, sorted by their values."""
    by_partition: dict[Partition, list[tuple[int, list[ManifestEntry]]]] = {}
    for place, group in grouped_by_bucket(entries).items():
        partition = files.partitions.of_entry(group[0])
        by_partition.setdefault(partition, []).append((place.bucket, group))
    return tuple(
        _partition(files, partition, by_partition[partition])
        for partition in sorted(by_partition, key=lambda each: each.order)
    )


def _partition(
    files: TableFiles, partition: Partition, groups: list[tuple[int, list[ManifestEntry]]]
) -> PartitionStats:
    metas = [entry.file for _, group in groups for entry in group]
    created = [file.creation_time for file in metas if file.creation_time is not None]
    return PartitionStats(
        partition=partition,
        row_count=sum(file.row_count for file in metas),
        file_count=len(metas),
        size_bytes=sum(file.file_size for file in metas),
        last_file_creation_ms=max(created, default=None),
        buckets=tuple(_bucket(files, bucket, group) for bucket, group in groups),
    )


def _bucket(files: TableFiles, bucket: int, group: list[ManifestEntry]) -> BucketStats:
    metas = [entry.file for entry in group]
    row_count = sum(file.row_count for file in metas)
    readable = readable_entries(files, group)
    target, ratio = files.options.target_file_size, files.options.compaction_small_file_ratio
    return BucketStats(
        bucket=bucket,
        file_count=len(metas),
        small_file_count=sum(is_small(file, target, ratio) for file in metas),
        level0_count=sum(file.level == 0 for file in metas),
        sorted_run_count=sorted_run_count(metas) if files.schema.is_keyed else len(metas),
        size_bytes=sum(file.file_size for file in metas),
        row_count=row_count,
        waiting_file_count=len(metas) - len(readable),
        waiting_row_count=row_count - sum(entry.file.row_count for entry in readable),
    )
