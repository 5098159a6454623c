"""Manifests: which data files a snapshot added and removed, with their statistics.

Source: Paimon specification, chapter Manifest. Keys, partitions and bounds stay encoded;
`codec.binary_row` decodes them on use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Self

from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.partition import Place

MANIFEST_VERSION = 2

# A row without columns: the partition of unpartitioned tables, the key of append tables.
EMPTY_ROW = bytes(12)


class FileKind(IntEnum):
    """Whether an entry adds or removes a file; manifests hold the numbers."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """The origin of a data file; manifests hold the numbers."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Bounds of some columns, as two encoded rows, and null counts; None is unknown."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] = ()


EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """One data file."""

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    delete_row_count: int | None = None
    embedded_file_index: bytes | None = None
    file_source: FileSource | None = None
    # None: value_stats covers all columns of the schema; otherwise exactly these.
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    # A plan's, and in no manifest: files that hold newer values of some columns of these rows, the
    # newest first, of a table whose columns are updated alone.
    newer: tuple[DataFileMeta, ...] | None = None


@dataclass(frozen=True, slots=True)
class EntryIdentity:
    """The fields that identify an entry's file; the level is one of them."""

    partition: bytes
    bucket: int
    level: int
    file_name: str
    extra_files: tuple[str, ...]
    embedded_file_index: bytes | None
    external_path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A data file added to or removed from a bucket."""

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def place(self) -> Place:
        """Partition and bucket."""
        return Place(self.partition, self.bucket)

    @property
    def identity(self) -> EntryIdentity:
        file = self.file
        return EntryIdentity(
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_file_index,
            file.external_path,
        )

    def removed(self) -> ManifestEntry:
        """The DELETE entry of this file."""
        return replace(self, kind=FileKind.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """One manifest, as a manifest list describes it.

    Partition bounds must be correct: readers never open a manifest that the bounds rule out.
    """

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestContents:
    """What a manifest list says of a manifest's entries, of which there is at least one.

    `partitions` counts the entries of each; buckets and levels are the least and the greatest.
    """

    added: int
    deleted: int
    partitions: Mapping[bytes, int]
    buckets: tuple[int, int]
    levels: tuple[int, int]

    @classmethod
    def of(cls, entries: Sequence[ManifestEntry]) -> Self:
        added = sum(entry.kind is FileKind.ADD for entry in entries)
        buckets = [entry.bucket for entry in entries]
        levels = [entry.file.level for entry in entries]
        return cls(
            added=added,
            deleted=len(entries) - added,
            partitions=Counter(entry.partition for entry in entries),
            buckets=(min(buckets), max(buckets)),
            levels=(min(levels), max(levels)),
        )


def fold_entries(entries: Iterable[ManifestEntry]) -> dict[EntryIdentity, ManifestEntry]:
    """Merge entries in order: a DELETE removes the ADD before it, or stays without one.

    Raises:
        CorruptionError: a file is added twice.
    """
    merged: dict[EntryIdentity, ManifestEntry] = {}
    for entry in entries:
        identity = entry.identity
        present = merged.get(identity)
        if entry.kind is FileKind.ADD:
            if present is not None and present.kind is FileKind.ADD:
                raise CorruptionError(
                    f"manifests add data file {entry.file.file_name} twice "
                    f"(bucket {entry.bucket}, level {entry.file.level})"
                )
            merged[identity] = entry
        elif present is not None and present.kind is FileKind.ADD:
            del merged[identity]
        else:
            merged[identity] = entry
    return merged


def names_one_column(name: str) -> bool:
    """Whether a data file of that name holds a column of blobs or of vectors alone."""
    return name.endswith(".blob") or ".vector." in name
