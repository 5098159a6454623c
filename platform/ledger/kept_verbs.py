"""The work on a table by name, and which of it waits for which other."""

from __future__ import annotations

from lakewright.platform.upkeep.effects import Effect, goes_beside
from lakewright.platform.upkeep.verbs import VERBS

COMPACT = "compact"
SORT_COMPACT = "sort_compact"
EXPIRE_SNAPSHOTS = "expire_snapshots"
EXPIRE_TAGS = "expire_tags"
EXPIRE_CHANGELOGS = "expire_changelogs"
EXPIRE_PARTITIONS = "expire_partitions"
REWRITE_MANIFESTS = "rewrite_manifests"
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
    **{each.name: each.effect for each in VERBS.values()},
}


def waits_for(verb: str, other: str) -> bool:
    """Whether a kept verb waits until other work on the same table has ended."""
    effect = _EFFECTS.get(other, Effect.ALONE)
    return verb == other or not goes_beside(_EFFECTS[verb], effect)
