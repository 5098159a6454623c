"""Every verb as a job: what its policy gives, and what its runs may change."""

from __future__ import annotations

from dataclasses import replace

from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.upkeep.analyze import ANALYZE, AnalyzeOptions
from lakewright.platform.upkeep.clean import (
    PURGE,
    REMOVE_ORPHANS,
    RESTORE,
    OrphansOptions,
    PurgeOptions,
)
from lakewright.platform.upkeep.compact import CompactOptions
from lakewright.platform.upkeep.drop_partitions import DROP_PARTITIONS
from lakewright.platform.upkeep.exchange_partition import EXCHANGE_PARTITION
from lakewright.platform.upkeep.expire import ExpireOptions
from lakewright.platform.upkeep.expire_all import EXPIRE
from lakewright.platform.upkeep.expire_partitions import EXPIRE_PARTITIONS, ExpirePartitionsOptions
from lakewright.platform.upkeep.external_partitions import ADD_PARTITIONS, REPAIR_PARTITIONS
from lakewright.platform.upkeep.history import ROLLBACK
from lakewright.platform.upkeep.mark_done import MARK_DONE
from lakewright.platform.upkeep.rename_partition import RENAME_PARTITION
from lakewright.platform.upkeep.rescale import RESCALE
from lakewright.platform.upkeep.sort_compact import SORT_COMPACT, SortOptions
from lakewright.platform.upkeep.verb import AnyVerb
from lakewright.platform.upkeep.verbs import compaction_of
from lakewright.platform.warehouse.decide import EXPIRE_SNAPSHOTS
from lakewright.platform.warehouse.kept_tables import KeptTable

# The next run goes on with what one does not get to.
_MAX_DURATION_MS = 3_600_000


def _expiry(kept: KeptTable) -> ExpireOptions:
    policy = kept.policy.snapshots
    return ExpireOptions(
        retain_min=policy.retain_min,
        retain_max=policy.retain_max,
        time_retained_ms=policy.time_retained,
        max_deletes=policy.max_deletes,
        max_duration_ms=_MAX_DURATION_MS,
    )


def _partition_expiry(kept: KeptTable) -> ExpirePartitionsOptions:
    policy = kept.policy.partitions
    return ExpirePartitionsOptions(
        older_than_ms=policy.older_than,
        strategy=None if policy.strategy is None else policy.strategy.value,
        pattern=policy.pattern,
        formatter=policy.formatter,
        max_partitions=policy.max_partitions,
        spare_tagged=policy.spare_tagged,
    )


def _sorting(kept: KeptTable) -> SortOptions:
    policy = kept.policy.sort
    return SortOptions(by=policy.columns, order=policy.order)


def _as_it_is(verb: AnyVerb, description: str, *, needs_spark: bool = False) -> UpkeepJob:
    """The job of a verb that nothing asks for but a person, who says what it is to do."""
    return UpkeepJob(
        name=verb.name,
        description=description,
        verbs=lambda *_: (verb,),
        declared=lambda _: verb.options(),
        options=verb.options,
        needs_spark=needs_spark,
    )


COMPACT_JOB = UpkeepJob(
    name="compact",
    description="Rewrite small files into few large ones, and merge sorted runs.",
    verbs=lambda table, _: compaction_of(table),
    declared=lambda kept: CompactOptions.declared(kept.policy.compaction),
    options=CompactOptions,
)
EXPIRE_JOB = UpkeepJob(
    name=EXPIRE_SNAPSHOTS,
    description="Let old snapshots, tags and changelogs go.",
    verbs=lambda *_: (EXPIRE,),
    declared=_expiry,
    options=ExpireOptions,
    needs_spark=False,
    may_come_early=True,
)
EXPIRE_PARTITIONS_JOB = UpkeepJob(
    name=EXPIRE_PARTITIONS.name,
    description="Drop the partitions that are past their time.",
    verbs=lambda *_: (EXPIRE_PARTITIONS,),
    declared=_partition_expiry,
    options=ExpirePartitionsOptions,
    needs_spark=False,
    may_come_early=True,
)
SORT_JOB = replace(
    _as_it_is(SORT_COMPACT, "Sort the rows of append tables.", needs_spark=True), declared=_sorting
)
ANALYZE_JOB = replace(
    _as_it_is(ANALYZE, "Compute statistics of the rows, and publish them.", needs_spark=True),
    declared=lambda kept: AnalyzeOptions(columns=kept.policy.statistics.columns),
)
REMOVE_ORPHANS_JOB = replace(
    _as_it_is(REMOVE_ORPHANS, "Set files aside that nothing refers to."),
    declared=lambda kept: OrphansOptions(older_than_ms=kept.policy.orphans.older_than),
)
PURGE_JOB = replace(
    _as_it_is(PURGE, "Delete what has been in quarantine for long enough."),
    declared=lambda kept: PurgeOptions(older_than_ms=kept.policy.quarantine.keep),
)
# What the upkeep sensor asks for.
KEEPING_JOBS: tuple[UpkeepJob, ...] = (
    COMPACT_JOB,
    SORT_JOB,
    EXPIRE_JOB,
    EXPIRE_PARTITIONS_JOB,
    REMOVE_ORPHANS_JOB,
    PURGE_JOB,
    ANALYZE_JOB,
)
# What runs on request only.
REQUESTED_JOBS: tuple[UpkeepJob, ...] = (
    _as_it_is(RESCALE, "Give tables another number of buckets.", needs_spark=True),
    _as_it_is(RESTORE, "Bring files back from a quarantine."),
    _as_it_is(ROLLBACK, "Go back to an earlier snapshot or tag."),
    _as_it_is(ADD_PARTITIONS, "Take over files of others as partitions, without a rewrite."),
    _as_it_is(REPAIR_PARTITIONS, "Take over folders that turned up, and drop those that went."),
    _as_it_is(DROP_PARTITIONS, "Drop partitions."),
    _as_it_is(RENAME_PARTITION, "Give the rows of a partition other values.", needs_spark=True),
    _as_it_is(EXCHANGE_PARTITION, "Move partitions here from another table."),
    _as_it_is(MARK_DONE, "Mark partitions as done; each gets an observation."),
)
