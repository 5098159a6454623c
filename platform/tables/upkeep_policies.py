"""Policies of upkeep: what is done to a table, when, and how much at most.

The same sections stand under `maintenance:` of a declared table and in policy files, where they
hold for a warehouse, a database, a pattern of names or a table.
"""

from __future__ import annotations

import re
from enum import Enum, StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from lakewright.platform.documents.declared_values import (
    Declared,
    DurationMs,
    HoursOfDay,
    SizeBytes,
    Text,
)
from lakewright.storage import VerifyLevel
from lakewright.storage.lsm.sort_layout import SortOrder
from lakewright.storage.operations.respec.respec_plan import MOST_FILES, MOST_PARTITIONS
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


class AlertEvent(StrEnum):
    """What an alert is about: rejected rows, a poor state, failing upkeep, or a spent budget."""

    REJECTED = "rejected"
    POOR = "poor"
    FAILED = "failed"
    BUDGET = "budget"


def _as_variable(value: object) -> object:
    if isinstance(value, str) and _VARIABLE.fullmatch(value):
        return value
    # The value may be a secret, so it is not repeated.
    raise ValueError(
        "write ${NAME}, the environment variable that has the address, so that it is in no file"
    )


_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
Variable = Annotated[
    str,
    BeforeValidator(_as_variable),
    WithJsonSchema({"type": "string", "pattern": f"^{_VARIABLE.pattern}$"}),
]


def _enabled(what: str, *, default: bool = True) -> Any:
    return Field(default=default, description=f"whether {what}")


def _schedule(cron: str) -> Any:
    return Field(default=cron, description="when it runs: cron with five fields")


def _timezone(what: str) -> Any:
    return Field(default="UTC", description=f"the time zone of `{what}`")


class CompactionPolicy(Declared):
    """When buckets are compacted, and how much at once.

    A partition with `small_files` in a bucket is due. It waits while its small files have less than
    `min_bytes` and the last write is younger than `at_latest`, unless readers wait: for rows that
    they do not see yet, for twice as many sorted runs to merge, or for 20 times as many files.
    """

    enabled: bool = _enabled("due partitions are compacted")
    small_files: int = Field(
        default=5, ge=2, description="a bucket with this many small files or sorted runs is due"
    )
    full: bool = Field(
        default=False, description="merge all files of a due bucket into one sorted run"
    )
    engine: EngineChoice = Field(
        default=EngineChoice.AUTO,
        description="where the rewrite runs; auto uses Spark for large work",
    )
    verify: VerifyLevel = Field(
        default=VerifyLevel.CHECKSUMS,
        description="how new files are verified before they are published",
    )
    quiet_for: DurationMs = Field(
        default=0, description="minimum age of the last write to the partition"
    )
    min_bytes: SizeBytes = Field(
        default=32 << 20,
        description="minimum size of the small files of a partition; ignored if a bucket has 20 "
        "times `small_files` files, or twice as many sorted runs",
    )
    at_latest: DurationMs = Field(
        default=_HOUR_MS,
        description="the longest time that `min_bytes` delays a compaction after a write",
    )
    hours: HoursOfDay | None = Field(
        default=None, description="rewrites start only within these hours, such as 22:00-06:00"
    )
    timezone: str = _timezone("hours")
    max_partitions: int = Field(
        default=200, ge=1, description="maximum number of partitions of a run"
    )
    interval: DurationMs = Field(
        default=30_000,
        description=(
            "how often the sensor checks the table; the shortest interval of all declarations and "
            "of the warehouse counts; of a declaration only"
        ),
    )


class SortPolicy(Declared):
    """By which columns an append table is sorted, and how often."""

    enabled: bool = _enabled(
        "partitions with files since their last sorting are sorted", default=False
    )
    columns: tuple[Text, ...] = Field(
        default=(), description="the columns to sort by, in this order"
    )
    order: SortOrder = Field(
        default=SortOrder.ZORDER, description="sort by one column after another, or along a curve"
    )
    schedule: str = _schedule("17 1 * * 0")
    timezone: str = _timezone("schedule")


class SnapshotPolicy(Declared):
    """How much history is kept, and when expiry runs; the table's options give the defaults."""

    enabled: bool = _enabled("snapshots expire")
    retain_min: int | None = Field(
        default=None,
        ge=1,
        description="minimum number of snapshots to keep; without it the table's option",
    )
    retain_max: int | None = Field(
        default=None,
        ge=1,
        description="maximum number of snapshots to keep; without it the table's option",
    )
    time_retained: DurationMs | None = Field(
        default=None, description="retention time; without it the table's option"
    )
    max_deletes: int | None = Field(
        default=None, ge=1, description="maximum of one run; without it the table's option"
    )
    schedule: str = _schedule("17 3 * * *")
    timezone: str = _timezone("schedule")


class TagPolicy(Declared):
    """How long tags stay.

    In any case a tag goes when its own time to live ends, and an automatic one beyond the number
    that the table's options retain.
    """

    enabled: bool = _enabled("tags expire")
    older_than: DurationMs | None = Field(
        default=None,
        description="maximum age of a tag, also of one with a longer time to live",
    )
    spare: tuple[Text, ...] = Field(
        default=(),
        description="patterns of tags that `older_than` does not delete, such as release-*",
    )
    schedule: str = _schedule("47 3 * * *")
    timezone: str = _timezone("schedule")


class ChangelogPolicy(Declared):
    """The retention of changelogs that outlive their snapshots; defaults are the table's options.

    The table's options alone decide whether changelogs outlive their snapshots.
    """

    enabled: bool = _enabled("changelogs expire")
    retain_min: int | None = Field(
        default=None,
        ge=1,
        description="minimum number of commits whose changes stay; without it the table's option",
    )
    retain_max: int | None = Field(
        default=None,
        ge=1,
        description="maximum number of commits whose changes stay; without it the table's option",
    )
    time_retained: DurationMs | None = Field(
        default=None, description="retention time; without it the table's option"
    )
    schedule: str = _schedule("57 3 * * *")
    timezone: str = _timezone("schedule")


class PartitionPolicy(Declared):
    """When partitions expire; the table's options give the defaults."""

    enabled: bool = _enabled("partitions expire")
    older_than: DurationMs | None = Field(
        default=None,
        description="age from which partitions are dropped; without it the table's option",
    )
    strategy: ExpiryStrategy | None = Field(
        default=None, description="whether the age counts from the values or from the last write"
    )
    pattern: Text | None = Field(
        default=None, description="how partition columns make up a time, such as $dt $hour"
    )
    formatter: Text | None = Field(
        default=None, description="the form of that time, such as yyyy-MM-dd"
    )
    max_partitions: int | None = Field(
        default=None, ge=1, description="maximum of one run; without it the table's option"
    )
    spare_tagged: bool = Field(default=False, description="do not drop partitions that a tag needs")
    schedule: str = _schedule("37 2 * * *")
    timezone: str = _timezone("schedule")


class OrphanPolicy(Declared):
    """When unreferenced files are marked for deletion."""

    enabled: bool = _enabled("orphans are marked for deletion")
    older_than: DurationMs = Field(default=_DAY_MS, description="minimum age of an orphan")
    schedule: str = _schedule("7 4 * * 0")
    timezone: str = _timezone("schedule")


class CollectPolicy(Declared):
    """When files that verbs marked for deletion are deleted."""

    enabled: bool = _enabled("files marked for deletion are deleted")
    grace: DurationMs = Field(
        default=_HOUR_MS, description="how long expiries of upkeep can be undone"
    )
    orphans: DurationMs = Field(
        default=7 * _DAY_MS, description="how long a removal of orphans can be undone"
    )
    schedule: str = _schedule("27 * * * *")
    timezone: str = _timezone("schedule")


class ManifestPolicy(Declared):
    """When the manifests of the latest snapshot are rewritten.

    They are due if at least `min_count` of them are smaller than the table's target size.
    """

    enabled: bool = _enabled("due manifests are rewritten")
    min_count: int = Field(default=100, ge=2, description="this many small manifests are due")


class IcebergPolicy(Declared):
    """When Iceberg metadata is brought up to commits of any writer."""

    lag: DurationMs | None = Field(
        default=None,
        description="how long Iceberg readers may not see a commit; without it, only commits of "
        "tables with the option metadata.iceberg.storage are published, as they are made",
    )

    @property
    def enabled(self) -> bool:
        return self.lag is not None


class StatisticsPolicy(Declared):
    """When statistics of the rows are computed."""

    enabled: bool = _enabled("statistics are computed", default=False)
    columns: tuple[Text, ...] | None = Field(
        default=None, description="the columns; without it all"
    )
    schedule: str = _schedule("57 4 * * 0")
    timezone: str = _timezone("schedule")


class RescalePolicy(Declared):
    """When a finding says that a table with fixed buckets has too many or too few.

    It is a hint, and no verb is carried out for it.
    """

    hint: bool = _enabled("far too large or too small buckets are reported")
    least_bytes: SizeBytes = Field(
        default=200 << 20, description="a bucket below a quarter of this size is too small"
    )
    most_bytes: SizeBytes = Field(
        default=1 << 30, description="a bucket above four times this size is too large"
    )


class RespecPolicy(Declared):
    """Which partition keys a table is to have.

    A declaration with columns decides this itself, whatever a policy says.
    """

    enabled: bool = _enabled(
        "the partition keys are changed to `keys`, and interrupted changes are completed"
    )
    keys: tuple[Text, ...] | None = Field(
        default=None,
        description="the desired partition keys, in this order; [] for none",
    )
    primary_key: tuple[Text, ...] | None = Field(
        default=None,
        description="the primary key under the new partition keys; without it the present one",
    )
    max_partitions: int = Field(
        default=MOST_PARTITIONS, ge=1, description="a change to more partitions is refused"
    )
    max_files: int = Field(
        default=MOST_FILES, ge=1, description="a change to more files is refused"
    )
    hours: HoursOfDay | None = Field(
        default=None, description="a change starts only within these hours, such as 22:00-06:00"
    )
    timezone: str = _timezone("hours")


class SettlePolicy(Declared):
    """When files that a change of partition keys left behind come into the folders of the keys."""

    enabled: bool = _enabled("the files are copied, and named anew")
    max_bytes: SizeBytes = Field(default=32 << 30, description="maximum that one run copies")


Scheduled = (
    SortPolicy
    | SnapshotPolicy
    | TagPolicy
    | ChangelogPolicy
    | PartitionPolicy
    | OrphanPolicy
    | CollectPolicy
    | StatisticsPolicy
)


class UpkeepPolicy(Declared):
    """The upkeep of a table: a section for each verb.

    A table under `freeze` is skipped by every verb.
    """

    mode: UpkeepMode = Field(
        default=UpkeepMode.LIVE, description="carry out decisions, or only record them (shadow)"
    )
    freeze: bool = Field(default=False, description="whether upkeep skips the table")
    compaction: CompactionPolicy = CompactionPolicy()
    sort: SortPolicy = SortPolicy()
    snapshots: SnapshotPolicy = SnapshotPolicy()
    tags: TagPolicy = TagPolicy()
    changelogs: ChangelogPolicy = ChangelogPolicy()
    partitions: PartitionPolicy = PartitionPolicy()
    orphans: OrphanPolicy = OrphanPolicy()
    collect: CollectPolicy = CollectPolicy()
    manifests: ManifestPolicy = ManifestPolicy()
    iceberg: IcebergPolicy = IcebergPolicy()
    statistics: StatisticsPolicy = StatisticsPolicy()
    rescale: RescalePolicy = RescalePolicy()
    respec: RespecPolicy = RespecPolicy()
    settle: SettlePolicy = SettlePolicy()


class Limits(Declared):
    """What upkeep may rewrite in a day; None means no limit.

    It is a limit of the sum over all tables that its section covers, and no table inherits it: an
    intent must fit into each budget that covers its table.
    """

    bytes: SizeBytes | None = Field(
        default=None, description="bytes of the files that rewrites read in a day"
    )
    time: DurationMs | None = Field(
        default=None, description="the sum of the durations of the rewrites of a day"
    )


class Budget(Limits):
    """The budget of a warehouse; in `timezone` begins the day of all budgets."""

    timezone: str = Field(default="UTC", description="the time zone in which a day begins")


class AlertPolicy(Declared):
    """Where alerts go, and which; a webhook, mail, or both."""

    webhook: Variable | None = Field(
        default=None,
        description="`${NAME}`: a variable with the URL of a webhook that takes Slack's messages",
    )
    mail_server: Variable | None = Field(
        default=None,
        description="`${NAME}`: a variable with smtp://user:password@host, or smtps://…",
    )
    mail_from: Text | None = Field(default=None, description="the address that mail comes from")
    mail_to: tuple[Text, ...] = Field(default=(), description="the addresses that mail goes to")
    events: tuple[AlertEvent, ...] = Field(
        default=tuple(AlertEvent), description="what alerts are sent about"
    )


class SectionPolicy(UpkeepPolicy):
    """The policy of a database, a pattern or a table, with a budget of its own."""

    budget: Limits = Limits()


class WarehousePolicy(UpkeepPolicy):
    """The policy of a whole warehouse, with what only a warehouse has."""

    budget: Budget = Budget()
    alerts: AlertPolicy = AlertPolicy()
    interval: DurationMs = Field(
        default=30_000,
        description="how often the sensor looks, if no declaration says less",
    )
    max_runtime: DurationMs = Field(
        default=21_600_000,
        description=(
            "a run of upkeep that Dagster launched is cancelled after so long, and begins with no "
            "further table after half of it"
        ),
    )
