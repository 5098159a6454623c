"""The work on a table by name, and which of it waits for which other."""

from __future__ import annotations

from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.storage.operations.running.effects import Effect, goes_beside

COMPACT = "compact"
SORT_COMPACT = "sort_compact"
EXPIRE_SNAPSHOTS = "expire_snapshots"
EXPIRE_TAGS = "expire_tags"
EXPIRE_CHANGELOGS = "expire_changelogs"
EXPIRE_PARTITIONS = "expire_partitions"
REWRITE_MANIFESTS = "rewrite_manifests"
PUBLISH_ICEBERG = "publish_iceberg"
REMOVE_ORPHANS = "remove_orphans"
COLLECT = "collect"
ANALYZE = "analyze"
RESCALE = "rescale"
RESPEC = "respec"
SETTLE = "settle"
# How the state begins from which `respec` was decided to end a change that was stopped.
ENDS_CHANGE = "ends"
# Decisions about a table as a whole are recorded under this name.
EVERY_VERB = "upkeep"

INGEST = "ingest"
BACKFILL = "backfill"
VALIDATE_SCHEMA = "validate_schema"
CHECK_FRESHNESS = "check_freshness"
MERGE = "merge"

_EFFECTS = {
    INGEST: Effect.WRITES,
    BACKFILL: Effect.WRITES,
    MERGE: Effect.WRITES,
    VALIDATE_SCHEMA: Effect.READS,
    CHECK_FRESHNESS: Effect.READS,
    **{each.name: each.verb.effect for each in PROCEDURES.values()},
}


def waits_for(verb: str, other: str) -> bool:
    """Whether a kept verb waits until other work on the same table has ended."""
    effect = _EFFECTS.get(other, Effect.ALONE)
    return verb == other or not goes_beside(_EFFECTS[verb], effect)
