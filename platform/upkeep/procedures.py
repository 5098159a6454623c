"""All procedures of upkeep, by name, for jobs and the command line."""

from __future__ import annotations

from lakewright.platform.upkeep.add_primary_key import ADD_PRIMARY_KEY
from lakewright.platform.upkeep.alter import ALTER
from lakewright.platform.upkeep.analyze import ANALYZE
from lakewright.platform.upkeep.change_rows import DELETE_ROWS, UPDATE_ROWS
from lakewright.platform.upkeep.clean import COLLECT, PUT_BACK, REMOVE_ORPHANS
from lakewright.platform.upkeep.compact import COMPACT
from lakewright.platform.upkeep.drop_partitions import DROP_PARTITIONS
from lakewright.platform.upkeep.exchange_partition import EXCHANGE_PARTITION
from lakewright.platform.upkeep.expire import EXPIRE_CHANGELOGS, EXPIRE_SNAPSHOTS, EXPIRE_TAGS
from lakewright.platform.upkeep.expire_consumers import EXPIRE_CONSUMERS
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
from lakewright.platform.upkeep.procedure import AnyProcedure
from lakewright.platform.upkeep.publish_iceberg import PUBLISH_ICEBERG
from lakewright.platform.upkeep.rename_partition import RENAME_PARTITION
from lakewright.platform.upkeep.rescale import RESCALE
from lakewright.platform.upkeep.respec import RESPEC
from lakewright.platform.upkeep.revert import REVERT
from lakewright.platform.upkeep.rewrite_manifests import REWRITE_MANIFESTS
from lakewright.platform.upkeep.settle import SETTLE
from lakewright.platform.upkeep.sort_compact import SORT_COMPACT

_ALL: tuple[AnyProcedure, ...] = (
    COMPACT,
    SORT_COMPACT,
    EXPIRE_SNAPSHOTS,
    EXPIRE_TAGS,
    EXPIRE_CHANGELOGS,
    EXPIRE_PARTITIONS,
    REWRITE_MANIFESTS,
    PUBLISH_ICEBERG,
    REMOVE_ORPHANS,
    COLLECT,
    ANALYZE,
    RESPEC,
    SETTLE,
    ADD_PRIMARY_KEY,
    RESCALE,
    POSTPONE_COMPACT,
    ALTER,
    PUT_BACK,
    REVERT,
    ROLLBACK,
    FAST_FORWARD,
    EXPIRE_CONSUMERS,
    DELETE_TAGS,
    DELETE_BRANCH,
    ADD_PARTITIONS,
    REPAIR_PARTITIONS,
    DELETE_ROWS,
    UPDATE_ROWS,
    DROP_PARTITIONS,
    RENAME_PARTITION,
    EXCHANGE_PARTITION,
    MARK_DONE,
)
PROCEDURES = {each.name: each for each in _ALL}
