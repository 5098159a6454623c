"""All verbs of upkeep, by name, for jobs and the command line."""

from __future__ import annotations

from lakewright.platform.upkeep.alter import ALTER
from lakewright.platform.upkeep.analyze import ANALYZE
from lakewright.platform.upkeep.clean import PURGE, REMOVE_ORPHANS, RESTORE
from lakewright.platform.upkeep.compact import COMPACT
from lakewright.platform.upkeep.drop_partitions import DROP_PARTITIONS
from lakewright.platform.upkeep.exchange_partition import EXCHANGE_PARTITION
from lakewright.platform.upkeep.expire import EXPIRE_CHANGELOGS, EXPIRE_SNAPSHOTS, EXPIRE_TAGS
from lakewright.platform.upkeep.expire_partitions import EXPIRE_PARTITIONS
from lakewright.platform.upkeep.external_partitions import ADD_PARTITIONS, REPAIR_PARTITIONS
from lakewright.platform.upkeep.history import (
    DELETE_BRANCH,
    DELETE_TAGS,
    FAST_FORWARD,
    ROLLBACK,
)
from lakewright.platform.upkeep.mark_done import MARK_DONE
from lakewright.platform.upkeep.postpone_compact import POSTPONE_COMPACT
from lakewright.platform.upkeep.rename_partition import RENAME_PARTITION
from lakewright.platform.upkeep.rescale import RESCALE
from lakewright.platform.upkeep.respec import RESPEC
from lakewright.platform.upkeep.revert import REVERT
from lakewright.platform.upkeep.rewrite_manifests import REWRITE_MANIFESTS
from lakewright.platform.upkeep.sort_compact import SORT_COMPACT
from lakewright.platform.upkeep.verb import AnyVerb
from lakewright.storage import Table
from lakewright.storage.spec.options import BucketMode

_ALL: tuple[AnyVerb, ...] = (
    COMPACT,
    SORT_COMPACT,
    RESCALE,
    POSTPONE_COMPACT,
    RESPEC,
    REWRITE_MANIFESTS,
    EXPIRE_SNAPSHOTS,
    EXPIRE_TAGS,
    EXPIRE_CHANGELOGS,
    REMOVE_ORPHANS,
    RESTORE,
    PURGE,
    ANALYZE,
    DELETE_TAGS,
    DELETE_BRANCH,
    FAST_FORWARD,
    ROLLBACK,
    REVERT,
    ALTER,
    ADD_PARTITIONS,
    REPAIR_PARTITIONS,
    DROP_PARTITIONS,
    EXPIRE_PARTITIONS,
    RENAME_PARTITION,
    EXCHANGE_PARTITION,
    MARK_DONE,
)
VERBS = {each.name: each for each in _ALL}


def compaction_of(table: Table) -> tuple[AnyVerb, ...]:
    """The verbs of a table's compaction; postponed rows get their buckets first."""
    if table.options.bucket_mode is BucketMode.POSTPONE:
        return (POSTPONE_COMPACT, COMPACT)
    return (COMPACT,)
