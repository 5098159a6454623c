"""Keepers: the verbs that a policy asks for, each with what the policy says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lakewright.platform.declare.upkeep_policies import (
    RespecPolicy,
    UpkeepMode,
    UpkeepPolicy,
)
from lakewright.platform.upkeep.analyze import ANALYZE, AnalyzeOptions
from lakewright.platform.upkeep.clean import (
    PURGE,
    REMOVE_ORPHANS,
    OrphansOptions,
    PurgeOptions,
)
from lakewright.platform.upkeep.compact import CompactOptions
from lakewright.platform.upkeep.expire import (
    EXPIRE_CHANGELOGS,
    EXPIRE_SNAPSHOTS,
    EXPIRE_TAGS,
    ExpireChangelogsOptions,
    ExpireOptions,
    ExpireTagsOptions,
)
from lakewright.platform.upkeep.expire_partitions import (
    EXPIRE_PARTITIONS,
    ExpirePartitionsOptions,
)
from lakewright.platform.upkeep.respec import RESPEC, RespecOptions
from lakewright.platform.upkeep.rewrite_manifests import (
    REWRITE_MANIFESTS,
    RewriteManifestsOptions,
)
from lakewright.platform.upkeep.sort_compact import SORT_COMPACT, SortOptions
from lakewright.platform.upkeep.verb import AnyVerb
from lakewright.platform.upkeep.verbs import compaction_of
from lakewright.platform.warehouse import kept_verbs
from lakewright.platform.warehouse.intents import Why
from lakewright.platform.warehouse.kept_tables import KeptTable
from lakewright.storage import Table

# The next run goes on with what one does not get to.
_MAX_DURATION_MS = 3_600_000


class Section(Protocol):
    """The section of a policy that rules one kind of work."""

    @property
    def enabled(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """One kind of work that decisions ask for, by the name that they give it.

    `section` is that of the policy which rules it. `verbs` are carried out in turn, each with the
    options that the policy gives.
    """

    name: str
    description: str
    section: Callable[[UpkeepPolicy], Section]
    verbs: Callable[[Table], Sequence[AnyVerb]]
    options_type: type[Any]
    options: Callable[[UpkeepPolicy], Any]
    needs_spark: bool = False


def _expiry(policy: UpkeepPolicy) -> ExpireOptions:
    kept = policy.snapshots
    return ExpireOptions(
        retain_min=kept.retain_min,
        retain_max=kept.retain_max,
        time_retained_ms=kept.time_retained,
        max_deletes=kept.max_deletes,
        max_duration_ms=_MAX_DURATION_MS,
    )


def _tag_expiry(policy: UpkeepPolicy) -> ExpireTagsOptions:
    return ExpireTagsOptions(older_than_ms=policy.tags.older_than, spare=policy.tags.spare)


def _changelog_expiry(policy: UpkeepPolicy) -> ExpireChangelogsOptions:
    kept = policy.changelogs
    return ExpireChangelogsOptions(
        retain_min=kept.retain_min,
        retain_max=kept.retain_max,
        time_retained_ms=kept.time_retained,
    )


def _partition_expiry(policy: UpkeepPolicy) -> ExpirePartitionsOptions:
    kept = policy.partitions
    return ExpirePartitionsOptions(
        older_than_ms=kept.older_than,
        strategy=None if kept.strategy is None else kept.strategy.value,
        pattern=kept.pattern,
        formatter=kept.formatter,
        max_partitions=kept.max_partitions,
        spare_tagged=kept.spare_tagged,
    )


def respec_options(policy: RespecPolicy) -> RespecOptions:
    """The options of a change to the partition keys that a policy names."""
    return RespecOptions(
        keys=policy.keys,
        primary_key=policy.primary_key,
        max_partitions=policy.max_partitions,
        max_files=policy.max_files,
    )


_ALL = (
    Keeper(
        name=kept_verbs.COMPACT,
        description="Rewrite small files into few large ones, and merge sorted runs.",
        section=lambda policy: policy.compaction,
        verbs=compaction_of,
        options_type=CompactOptions,
        options=lambda policy: CompactOptions.declared(policy.compaction),
        needs_spark=True,
    ),
    Keeper(
        name=kept_verbs.SORT_COMPACT,
        description="Sort the rows of append tables.",
        section=lambda policy: policy.sort,
        verbs=lambda _: (SORT_COMPACT,),
        options_type=SortOptions,
        options=lambda policy: SortOptions(by=policy.sort.columns, order=policy.sort.order),
        needs_spark=True,
    ),
    Keeper(
        name=kept_verbs.EXPIRE_SNAPSHOTS,
        description="Let old snapshots go.",
        section=lambda policy: policy.snapshots,
        verbs=lambda _: (EXPIRE_SNAPSHOTS,),
        options_type=ExpireOptions,
        options=_expiry,
    ),
    Keeper(
        name=kept_verbs.EXPIRE_TAGS,
        description="Let tags go that are past their time.",
        section=lambda policy: policy.tags,
        verbs=lambda _: (EXPIRE_TAGS,),
        options_type=ExpireTagsOptions,
        options=_tag_expiry,
    ),
    Keeper(
        name=kept_verbs.EXPIRE_CHANGELOGS,
        description="Let changelogs go that outlived their snapshots for long enough.",
        section=lambda policy: policy.changelogs,
        verbs=lambda _: (EXPIRE_CHANGELOGS,),
        options_type=ExpireChangelogsOptions,
        options=_changelog_expiry,
    ),
    Keeper(
        name=kept_verbs.EXPIRE_PARTITIONS,
        description="Drop the partitions that are past their time.",
        section=lambda policy: policy.partitions,
        verbs=lambda _: (EXPIRE_PARTITIONS,),
        options_type=ExpirePartitionsOptions,
        options=_partition_expiry,
    ),
    Keeper(
        name=kept_verbs.REWRITE_MANIFESTS,
        description="Merge small manifests.",
        section=lambda policy: policy.manifests,
        verbs=lambda _: (REWRITE_MANIFESTS,),
        options_type=RewriteManifestsOptions,
        options=lambda policy: RewriteManifestsOptions.declared(policy.manifests),
    ),
    Keeper(
        name=kept_verbs.REMOVE_ORPHANS,
        description="Set files aside that nothing refers to.",
        section=lambda policy: policy.orphans,
        verbs=lambda _: (REMOVE_ORPHANS,),
        options_type=OrphansOptions,
        options=lambda policy: OrphansOptions(older_than_ms=policy.orphans.older_than),
    ),
    Keeper(
        name=kept_verbs.PURGE,
        description="Delete what has been in quarantine for long enough.",
        section=lambda policy: policy.quarantine,
        verbs=lambda _: (PURGE,),
        options_type=PurgeOptions,
        options=lambda policy: PurgeOptions(older_than_ms=policy.quarantine.keep),
    ),
    Keeper(
        name=kept_verbs.ANALYZE,
        description="Compute statistics of the rows, and publish them.",
        section=lambda policy: policy.statistics,
        verbs=lambda _: (ANALYZE,),
        options_type=AnalyzeOptions,
        options=lambda policy: AnalyzeOptions(columns=policy.statistics.columns),
        needs_spark=True,
    ),
    Keeper(
        name=kept_verbs.RESPEC,
        description="Change the partition keys of tables, to those declared or of their policy.",
        section=lambda policy: policy.respec,
        verbs=lambda _: (RESPEC,),
        options_type=RespecOptions,
        options=lambda policy: respec_options(policy.respec),
        needs_spark=True,
    ),
)
KEEPERS = {each.name: each for each in _ALL}


def may_be_done(keeper: str, kept: KeptTable, why: str = "") -> bool:
    """Whether the policy of a table lets a keeper work; it may have changed since the request.

    A change of keys that was stopped is ended whether or not the policy names keys.
    """
    policy = kept.policy
    if policy.freeze or policy.mode is UpkeepMode.SHADOW:
        return False
    names_keys = policy.respec.keys is not None and kept.declared_keys is None
    if keeper == kept_verbs.RESPEC and not names_keys and why != Why.STOPPED_CHANGE.value:
        return False
    return KEEPERS[keeper].section(policy).enabled
