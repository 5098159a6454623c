"""The files and deletion vectors of a table, by bucket, for rewrites."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.keys import check_key_types
from lakewright.storage.operations.state.live_files import grouped_by_bucket
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.state.table_state import SETTLED, Keys, TableState, latest_state
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import DELETION_VECTORS_INDEX, IndexFileMeta
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.partition import Place


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


def held_partitions(state: TableState) -> dict[bytes, HeldPartition]:
    """The files and deletion vectors of a table, by partition.

    Raises:
        UnsupportedError: a primary key had another type when one of the files was written.
    """
    live = grouped_by_bucket(state.entries)
    check_key_types(state.files, {entry.file.schema_id for entry in state.entries})
    indexes: dict[Place, list[IndexFileMeta]] = defaultdict(list)
    for index in state.indexes:
        if index.file.index_type == DELETION_VECTORS_INDEX:
            indexes[index.place].append(index.file)
    found: dict[bytes, dict[int, HeldBucket]] = defaultdict(dict)
    for place in sorted({*live, *indexes}):
        entries, own = tuple(live.get(place, ())), tuple(indexes.get(place, ()))
        found[place.partition][place.bucket] = HeldBucket(*place, entries, own)
    return dict(found)


def read_held(
    files: TableFiles,
    partitions: Sequence[Mapping[str, object]] | None,
    *,
    takes: Collection[Keys] = SETTLED,
) -> tuple[int | None, dict[bytes, HeldPartition]]:
    """The latest snapshot's id and its files, of all or the requested partitions.

    A partition may be named by some of its columns.

    Raises:
        InvalidRequestError: a partition names no partition column.
        SchemaMoved: files have keys that the caller does not take; names the way on.
        UnsupportedError: a primary key had another type when one of the files was written.
    """
    wanted = PartitionFilter.of_specs(files, partitions)
    state = latest_state(files, lambda state: (state.entries, state.indexes), takes=takes)
    held = {
        row: buckets
        for row, buckets in held_partitions(state).items()
        if wanted.takes_row(row, _schema_id(files, buckets))
    }
    return None if state.snapshot is None else state.snapshot.id, held


def _schema_id(files: TableFiles, partition: HeldPartition) -> int:
    """The schema of a partition's keys; the table's schema if the partition has only indexes."""
    entries = (entry for bucket in partition.values() for entry in bucket.entries)
    return next((entry.file.schema_id for entry in entries), files.schema.id)
