"""The work on a table by name, and which of it waits for which other.

Leases, ages and the checks of commits keep all of it safe at any time. The order here spares work
that another commit would make useless, and lets what only deletes go beside what writes: else a
table that is always written, or compacted, would never lose a snapshot.
"""

from __future__ import annotations

COMPACT = "compact"
SORT_COMPACT = "sort_compact"
EXPIRE_SNAPSHOTS = "expire_snapshots"
EXPIRE_TAGS = "expire_tags"
EXPIRE_CHANGELOGS = "expire_changelogs"
EXPIRE_PARTITIONS = "expire_partitions"
REWRITE_MANIFESTS = "rewrite_manifests"
REMOVE_ORPHANS = "remove_orphans"
PURGE = "purge"
ANALYZE = "analyze"
RESCALE = "rescale"
RESPEC = "respec"
# How the state begins from which `respec` was decided to end a change that was stopped.
ENDS_CHANGE = "ends"
# What a decision about a table as a whole is told of.
EVERY_VERB = "upkeep"

INGEST = "ingest"
BACKFILL = "backfill"
VALIDATE_SCHEMA = "validate_schema"
CHECK_FRESHNESS = "check_freshness"

_WRITES = frozenset({INGEST, BACKFILL})
_COMMITS = frozenset({COMPACT, SORT_COMPACT, EXPIRE_PARTITIONS, REWRITE_MANIFESTS})
# They lease the whole table against each other.
_EXPIRIES = frozenset({EXPIRE_SNAPSHOTS, EXPIRE_TAGS, EXPIRE_CHANGELOGS})
_DELETES = _EXPIRIES | {REMOVE_ORPHANS, PURGE}
# They read a few files of many tables in one run: only what deletes files waits for them.
_READS = frozenset({VALIDATE_SCHEMA, CHECK_FRESHNESS})
# What each verb goes beside. The files of a write or a rewrite look like orphans when it takes very
# long; an analysis reads one snapshot for as long as it takes.
_BESIDE: dict[str, frozenset[str]] = {
    **dict.fromkeys(_COMMITS, _DELETES | _READS),
    **dict.fromkeys(_EXPIRIES, _WRITES | _COMMITS | (_DELETES - _EXPIRIES)),
    PURGE: _WRITES | _COMMITS | _DELETES,
    REMOVE_ORPHANS: _DELETES,
    # What commits beside it writes rows of the former keys, which are split or written once more.
    RESPEC: _DELETES | _READS,
    ANALYZE: _READS,
}


def waits_for(verb: str, other: str) -> bool:
    """Whether a kept verb waits until other work on the same table has ended."""
    return verb == other or other not in _BESIDE[verb]
