"""The files and deletion vectors of a table, by bucket, for rewrites."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.keys import check_key_types
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_files import (
    grouped_by_bucket,
    index_entries,
    live_entries,
)
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import DELETION_VECTORS_INDEX, IndexFileMeta
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class HeldBucket:
    """Data files of a bucket in manifest order, and index files with its deletion vectors.

    A bucket may have an index without files.
    """

    partition: bytes
    bucket: int
    entries: tuple[ManifestEntry, ...] = ()
    indexes: tuple[IndexFileMeta, ...] = ()

    @property
    def place(self) -> Place:
        return Place(self.partition, self.bucket)

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(entry.file for entry in self.entries)

    def removal(
        self,
        total_buckets: int,
        files: Iterable[DataFileMeta],
        indexes: tuple[IndexFileMeta, ...] = (),
    ) -> CommitMessage:
        """A commit message that removes files whose rows move to other buckets."""
        return CommitMessage(
            partition=self.partition,
            bucket=self.bucket,
            total_buckets=total_buckets,
            compact_before=tuple(files),
            removed_indexes=indexes,
        )


# Buckets of a partition by number; rows of negative buckets wait for a bucket.
HeldPartition: TypeAlias = Mapping[int, HeldBucket]


def settled(partition: HeldPartition) -> list[HeldBucket]:
    """Buckets of a partition without postponed rows."""
    return [each for number, each in partition.items() if number >= 0]


def held_partitions(files: TableFiles, snapshot: Snapshot | None) -> dict[bytes, HeldPartition]:
    """The files and deletion vectors of a snapshot, by partition.

    Raises:
        UnsupportedError: a primary key had another type when one of the files was written.
    """
    live = grouped_by_bucket(live_entries(files, snapshot))
    check_key_types(files, {entry.file.schema_id for group in live.values() for entry in group})
    indexes: dict[Place, list[IndexFileMeta]] = defaultdict(list)
    for index in index_entries(files, snapshot):
        if index.file.index_type == DELETION_VECTORS_INDEX:
            indexes[index.place].append(index.file)
    found: dict[bytes, dict[int, HeldBucket]] = defaultdict(dict)
    for place in sorted({*live, *indexes}):
        entries, own = tuple(live.get(place, ())), tuple(indexes.get(place, ()))
        found[place.partition][place.bucket] = HeldBucket(*place, entries, own)
    return dict(found)


def read_held(
    files: TableFiles, partitions: Sequence[Mapping[str, object]] | None
) -> tuple[int | None, dict[bytes, HeldPartition]]:
    """The latest snapshot's id and its files, of all or the requested partitions.

    A partition may be named by some of its columns.

    Raises:
        InvalidRequestError: a partition names no partition column.
        UnsupportedError: a primary key had another type when one of the files was written.
    """
    wanted = PartitionFilter.of_specs(files, partitions)
    snapshot, held = read_latest(files, partial(held_partitions, files))
    held = {
        row: buckets
        for row, buckets in held.items()
        if wanted.takes_row(row, _schema_id(files, buckets))
    }
    return None if snapshot is None else snapshot.id, held


def _schema_id(files: TableFiles, partition: HeldPartition) -> int:
    """The schema of a partition's keys; the table's schema if the partition has only indexes."""
    entries = (entry for bucket in partition.values() for entry in bucket.entries)
    return next((entry.file.schema_id for entry in entries), files.schema.id)
