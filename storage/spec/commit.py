"""Values between writers and the committer: staged writes, changes, results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from lakewright.storage.spec.arguments import text_argument, whole_number, whole_or_none
from lakewright.storage.spec.index import DELETION_VECTORS_INDEX, IndexEntry, IndexFileMeta
from lakewright.storage.spec.manifest import (
    DataFileMeta,
    FileKind,
    ManifestContents,
    ManifestEntry,
    ManifestFileMeta,
)
from lakewright.storage.spec.partition import PartitionKeys, Place
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakewright.storage.spec.values import Value


class WriteMode(Enum):
    """Whether a write keeps or replaces the existing rows."""

    APPEND = "append"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """Changes of one bucket: new files, and files that a compaction replaces by others.

    A file in both `compact_before` and `compact_after` only changed its level.
    The publishing snapshot names changelog files, which belong to no state. A removed index file
    must still be the bucket's own at the commit. `nulled_values` counts values that a rewrite made
    null for good, because they do not fit their columns' types.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    new_indexes: tuple[IndexFileMeta, ...] = ()
    removed_indexes: tuple[IndexFileMeta, ...] = ()
    nulled_values: int = 0

    @property
    def place(self) -> Place:
        """Partition and bucket."""
        return Place(self.partition, self.bucket)

    def entries(self, metas: Iterable[DataFileMeta]) -> list[ManifestEntry]:
        """ADD entries of files in the bucket."""
        return [
            ManifestEntry(
                kind=FileKind.ADD,
                partition=self.partition,
                bucket=self.bucket,
                total_buckets=self.total_buckets,
                file=file,
            )
            for file in metas
        ]

    @property
    def compacted_entries(self) -> list[ManifestEntry]:
        """DELETE entries of the compacted files, then ADD entries of their replacements."""
        removed = [entry.removed() for entry in self.entries(self.compact_before)]
        return [*removed, *self.entries(self.compact_after)]

    @property
    def changes_files(self) -> bool:
        """Whether the message replaces data files, or marks rows of them as deleted."""
        indexes = (*self.new_indexes, *self.removed_indexes)
        return bool(self.compact_before) or any(
            index.index_type == DELETION_VECTORS_INDEX for index in indexes
        )

    @property
    def new_index_entries(self) -> list[IndexEntry]:
        return self._index_entries(self.new_indexes)

    @property
    def removed_index_entries(self) -> list[IndexEntry]:
        return self._index_entries(self.removed_indexes)

    def _index_entries(self, metas: Iterable[IndexFileMeta]) -> list[IndexEntry]:
        return [
            IndexEntry(partition=self.partition, bucket=self.bucket, file=file) for file in metas
        ]

    @property
    def written_files(self) -> tuple[DataFileMeta, ...]:
        """Data and changelog files that did not exist before the message."""
        before = {file.file_name for file in self.compact_before}
        moved_or_new = (*self.new_files, *self.compact_after)
        new = (file for file in moved_or_new if file.file_name not in before)
        return (*new, *self.changelog_files, *self.compact_changelog)


@dataclass(frozen=True, slots=True)
class OverwriteScope:
    """The partitions that an overwrite replaces.

    `spec` holds the fixed partition columns; with `dynamic` only those of
    their partitions that the new rows touch are replaced.
    """

    spec: tuple[tuple[str, Value], ...] = ()
    dynamic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWrite:
    """The rows and files of a staged write in one partition."""

    spec: dict[str, object]
    row_count: int
    file_count: int
    size_bytes: int


class OnDuplicate(Enum):
    """What a write does with several rows of one primary key.

    Merged, the one with the greatest `sequence.field` wins; without that option it is undefined
    which of the rows of one DataFrame does.
    """

    MERGE = "merge"
    REFUSE = "refuse"


class WriterKind(Enum):
    """The writer that the tasks of a write have, chosen before the first row."""

    SINGLE_PARTITION = "single-partition"
    GROUPED = "grouped"
    UNGROUPED = "ungrouped"


@dataclass(frozen=True, slots=True)
class WriterUse:
    """How the rows of a write became files.

    `most_open` is how many buckets of partitions a task had open at once at most, and
    `spilled_bytes` what waited on local disks to be sorted. Rows that were announced as grouped and
    were not are those of an ungrouped writer.
    """

    kind: WriterKind
    most_open: int = 0
    spilled_bytes: int = 0

    def __str__(self) -> str:
        spilled = f", {self.spilled_bytes:,} bytes spilled" if self.spilled_bytes else ""
        return f"{self.kind.value}, {self.most_open} open at once{spilled}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWrite(Shown):
    """Rows on disk that no reader sees before their commit.

    `base_snapshot_id` is the latest snapshot at the start of the write, None for an empty table:
    the committer looks for an earlier commit of the same value after it. A rollback reuses ids, so
    `base_commit`, that snapshot's delta manifest list, identifies it.
    `watermark` is an event time in epoch milliseconds; the watermark of a table never falls.
    `writer` says how the rows were written, and is None in a batch that was kept.
    """

    table: str
    write_id: str
    mode: WriteMode
    schema_id: int
    messages: tuple[CommitMessage, ...]
    partitions: tuple[PartitionWrite, ...]
    base_snapshot_id: int | None
    commit_user: str
    commit_identifier: int = BATCH_COMMIT_IDENTIFIER
    overwrite: OverwriteScope | None = None
    watermark: int | None = None
    base_commit: str | None = None
    writer: WriterUse | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        # A snapshot or a kept batch with another value would be unreadable.
        text_argument(self.commit_user, "commit_user")
        whole_number(self.commit_identifier, "commit_identifier")
        whole_or_none(self.watermark, "watermark")

    @property
    def row_count(self) -> int:
        return sum(partition.row_count for partition in self.partitions)

    @property
    def file_count(self) -> int:
        return sum(partition.file_count for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult(Shown):
    """The result of a commit.

    `snapshot` is None if there was nothing to commit; `already_committed` tells that an earlier
    attempt made it.
    """

    snapshot: Snapshot | None
    attempts: int
    already_committed: bool = False


@dataclass(frozen=True, kw_only=True)
class Committable:
    """The identity and kind of a commit.

    The committer looks for an earlier attempt down to the snapshot with delta manifest list
    `base_commit`, or with id `base_id` if that is unknown.

    Commits outside of a series may share a user, so the files that they add tell them apart:
    `added_files` holds the prefixes of their names. A commit that `restates` the base may find rows
    of other partition keys in it; other commits wait until the keys are one.
    """

    user: str
    kind: CommitKind
    base_id: int | None
    identifier: int = BATCH_COMMIT_IDENTIFIER
    base_commit: str | None = None
    added_files: frozenset[str] = frozenset()
    restates: bool = False

    @property
    def in_series(self) -> bool:
        """Whether the identifier names one commit among others of its user."""
        return self.identifier != BATCH_COMMIT_IDENTIFIER


@dataclass(frozen=True, slots=True, kw_only=True)
class RestatedBase:
    """Every live entry and index of the latest state, restated with rows of these partition keys.

    Without keys the rows are those of the entries' own schemas. The data files stay as they are,
    unless `rows` says how many rows the entries have instead.
    """

    keys: PartitionKeys | None
    entries: Sequence[ManifestEntry]
    indexes: Sequence[IndexEntry] = ()
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBase:
    """A manifest list that was written before the commit, and how many rows its files have."""

    list_name: str
    list_size: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDelta:
    """Manifests of a commit that were written before it, the rows and the files that they add."""

    manifests: Sequence[ManifestFileMeta]
    rows: int
    added: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedManifest:
    """A manifest to write, whose entries have these partition keys.

    `holds` proves that the bytes that a store returns are of these entries, and of no others.
    """

    keys: PartitionKeys
    contents: ManifestContents
    data: bytes
    holds: Callable[[bytes], bool]

    @property
    def count(self) -> int:
        """How many entries it has."""
        return self.contents.added + self.contents.deleted


@dataclass(frozen=True, kw_only=True)
class Change:
    """The changes of a commit to the latest state.

    A `base` replaces the manifests of that state by manifests of the same files, a `prepared` one
    by those of a list that is written already, and `manifests` by these, which are written, too.
    A `delta` is written already, too. It is not checked for conflicts. `streams` says where the
    streams into the table stand from now on.
    """

    base: RestatedBase | None = None
    prepared: PreparedBase | None = None
    delta: PreparedDelta | None = None
    manifests: Sequence[ManifestFileMeta] | None = None
    entries: Sequence[ManifestEntry] = ()
    changelog: Sequence[ManifestEntry] = ()
    new_indexes: Sequence[IndexEntry] = ()
    removed_indexes: Sequence[IndexEntry] = ()
    statistics: str | None = None
    watermark: int | None = None
    properties: Mapping[str, str] | None = None
    streams: str | None = None

    @property
    def is_empty(self) -> bool:
        parts = (self.entries, self.changelog, self.new_indexes, self.removed_indexes)
        metadata = (
            self.base,
            self.prepared,
            self.delta,
            self.manifests,
            self.statistics,
            self.streams,
        )
        return not any(parts) and all(each is None for each in metadata)
