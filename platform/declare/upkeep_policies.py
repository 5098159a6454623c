"""Policies of upkeep: what is done to a table, when, and how much at most.

The same sections stand under `maintenance:` of a declared table and in policy files, where they
hold for a warehouse, a database, a pattern of names or a table.
"""

from __future__ import annotations

from enum import Enum

from pydantic import Field

from lakewright.platform.declare.declared_values import Declared, DurationMs, SizeBytes, Text
from lakewright.storage import VerifyLevel
from lakewright.storage.spec.partition_expiry import ExpiryStrategy

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


class EngineChoice(Enum):
    """Where the work is done; `auto` uses Spark for large work."""

    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


class UpkeepMode(Enum):
    """What becomes of a decision: `live` carries it out, `shadow` only records it."""

    LIVE = "live"
    SHADOW = "shadow"


class CompactionPolicy(Declared):
    """When buckets are compacted, and how much at once.

    A partition with `small_files` in a bucket is due. It waits while its small files have less than
    `min_bytes` and the last write is younger than `at_latest`. `hours` are those of the day in
    which rewrites may start, such as 22:00-06:00.
    """

    enabled: bool = True
    small_files: int = Field(default=5, ge=2)
    full: bool = False
    engine: EngineChoice = EngineChoice.AUTO
    verify: VerifyLevel = VerifyLevel.CHECKSUMS
    quiet_for: DurationMs = 0
    min_bytes: SizeBytes = 0
    at_latest: DurationMs = _HOUR_MS
    hours: Text | None = None
    timezone: str = "UTC"
    max_partitions: int = Field(default=200, ge=1)
    interval: DurationMs = 30_000


class SortPolicy(Declared):
    """By which columns an append table is sorted, and how often."""

    enabled: bool = False
    columns: tuple[Text, ...] = ()
    order: Text = "zorder"
    schedule: str = "17 1 * * 0"
    timezone: str = "UTC"


class SnapshotPolicy(Declared):
    """How much history is kept, and when expiry runs; the table's options give the defaults.

    Tags with a time to live and changelogs expire in the same run.
    """

    enabled: bool = True
    retain_min: int | None = Field(default=None, ge=1)
    retain_max: int | None = Field(default=None, ge=1)
    time_retained: DurationMs | None = None
    max_deletes: int | None = Field(default=None, ge=1)
    schedule: str = "17 3 * * *"
    timezone: str = "UTC"


class PartitionPolicy(Declared):
    """When partitions expire; the table's options give the defaults."""

    enabled: bool = True
    older_than: DurationMs | None = None
    strategy: ExpiryStrategy | None = None
    pattern: Text | None = None
    formatter: Text | None = None
    max_partitions: int | None = Field(default=None, ge=1)
    spare_tagged: bool = False
    schedule: str = "37 2 * * *"
    timezone: str = "UTC"


class OrphanPolicy(Declared):
    """When files that nothing refers to are set aside, in quarantine."""

    enabled: bool = True
    older_than: DurationMs = _DAY_MS
    schedule: str = "7 4 * * 0"
    timezone: str = "UTC"


class QuarantinePolicy(Declared):
    """When files in quarantine are deleted for good."""

    enabled: bool = True
    keep: DurationMs = 7 * _DAY_MS
    schedule: str = "27 4 * * *"
    timezone: str = "UTC"


class ManifestPolicy(Declared):
    """When the manifests of the latest snapshot are rewritten.

    They are due if at least `min_count` of them are smaller than the table's target size.
    """

    enabled: bool = True
    min_count: int = Field(default=100, ge=2)


class StatisticsPolicy(Declared):
    """When statistics of the rows are computed."""

    enabled: bool = False
    columns: tuple[Text, ...] | None = None
    schedule: str = "57 4 * * 0"
    timezone: str = "UTC"


class UpkeepPolicy(Declared):
    """The upkeep of a table: a section for each verb.

    A table under `freeze` is left alone by every verb.
    """

    mode: UpkeepMode = UpkeepMode.LIVE
    freeze: bool = False
    compaction: CompactionPolicy = CompactionPolicy()
    sort: SortPolicy = SortPolicy()
    snapshots: SnapshotPolicy = SnapshotPolicy()
    partitions: PartitionPolicy = PartitionPolicy()
    orphans: OrphanPolicy = OrphanPolicy()
    quarantine: QuarantinePolicy = QuarantinePolicy()
    manifests: ManifestPolicy = ManifestPolicy()
    statistics: StatisticsPolicy = StatisticsPolicy()


class Budget(Declared):
    """What the upkeep of a warehouse may rewrite in a day; None means no limit.

    `bytes` are those of files that rewrites read, `time` is the sum of the runs' durations. A day
    begins at midnight in `timezone`.
    """

    bytes: SizeBytes | None = None
    time: DurationMs | None = None
    timezone: str = "UTC"


class WarehousePolicy(UpkeepPolicy):
    """The policy of a whole warehouse, with what only a warehouse has."""

    budget: Budget = Budget()
    interval: DurationMs = 30_000
