"""A survey: what metadata alone shows of a table's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.storage.operations.inspection.late_writers import LateWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShape:
    """The live files of one level that have `least_bytes` or more, up to the next such bound."""

    level: int
    least_bytes: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFigures:
    """The live files of a table.

    `merged_rows` are the rows that readers see, where files alone tell, and `rows` those in files.
    `small_files` are below the target size. `sorted_runs` is that of the worst bucket, which a
    reader merges; append tables have none, and no levels. Files of level 0 were never compacted.
    Readers do not see rows of `waiting_files` before a compaction. `mergeable_files` are those
    that a compaction could join with others: small files of an append bucket that has several, and
    files above the deepest level of a keyed bucket. `most_in_bucket` of them are in one bucket.
    `away_files` are named by their places, since the partition keys changed.
    """

    files: int = 0
    rows: int = 0
    merged_rows: int | None = None
    bytes: int = 0
    deletion_vectors: int = 0
    small_files: int = 0
    small_bytes: int = 0
    sorted_runs: int = 0
    level0_files: int = 0
    level0_bytes: int = 0
    waiting_files: int = 0
    waiting_rows: int = 0
    mergeable_files: int = 0
    mergeable_bytes: int = 0
    most_in_bucket: int = 0
    away_files: int = 0
    away_bytes: int = 0
    shapes: tuple[FileShape, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutFigures:
    """How files lie. `skew` is the size of the largest bucket over that of a mean bucket.

    `left_behind` are partitions with another number of buckets than the option, which changed.
    """

    partitions: int = 0
    buckets: int = 0
    largest_bucket_bytes: int = 0
    skew: float = 1.0
    left_behind: int = 0
    oldest_write_ms: int | None = None
    last_write_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFigures:
    """What the table keeps of its past, and what keeps it."""

    snapshots: int = 0
    earliest_snapshot: int | None = None
    latest_snapshot: int | None = None
    earliest_ms: int | None = None
    latest_ms: int | None = None
    latest_kind: str = ""
    tags: int = 0
    oldest_tag_ms: int | None = None
    branches: int = 0
    changelogs: int = 0
    consumers: int = 0
    oldest_consumer_snapshot: int | None = None
    schemas: int = 0
    schemas_in_use: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFigures:
    """The manifests of the latest snapshot; `small` are below the table's target size."""

    manifests: int = 0
    bytes: int = 0
    small: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanFigures:
    """Files in some of the bucket folders that the latest snapshot does not name.

    `folders` of `of_folders` were listed. `unnamed_files` may still belong to older snapshots, so
    the estimate, scaled to all folders, is an upper bound.
    """

    folders: int = 0
    of_folders: int = 0
    unnamed_files: int = 0
    unnamed_bytes: int = 0
    estimated_files: int = 0
    estimated_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSurvey:
    """The state of one table at one moment.

    `problem` says why nothing is known of a table, with all figures zero. `read_only` says why this
    platform must not write it; `refused` says by use (read, compact, expire, orphans, …) what
    cannot be done although others can. `options` are those that concern upkeep. `worst` are the
    partitions with the most files to join, worst first, as many as were asked for. `empty_bytes`
    are about those of a data file without rows. `has_other_keys` says that live files have other
    partition keys than the table: a change of the keys is under way or was stopped, or a client
    that opened the table before wrote them; `late_writers` are those clients. `sorts` says that
    rows may be sorted although files may not be joined.
    """

    table: str
    uuid: str
    taken_ms: int
    keyed: bool = False
    kind: str = ""
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    bucket: int = -1
    target_bytes: int = 0
    problem: str | None = None
    read_only: str | None = None
    files: FileFigures = FileFigures()
    layout: LayoutFigures = LayoutFigures()
    history: HistoryFigures = HistoryFigures()
    manifests: ManifestFigures = ManifestFigures()
    orphans: OrphanFigures = OrphanFigures()
    location: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    worst: tuple[PartitionHealth, ...] = ()
    empty_bytes: int = 0
    has_other_keys: bool = False
    late_writers: tuple[LateWriter, ...] = ()
    sorts: bool = False
