"""What work does to a table, and which work waits for which other.

Leases, ages and the checks of commits keep all of it safe at any time. The order here spares work
that another commit would make useless, and lets what only deletes go beside what writes: else a
table that is always written, or compacted, would never lose a snapshot.
"""

from __future__ import annotations

from enum import Enum


class Effect(Enum):
    """What work does to a table."""

    WRITES = "writes rows"
    REWRITES = "commits the same rows, or drops some"
    EXPIRES = "expires snapshots, tags or changelogs"
    REMOVES = "removes files that no snapshot needs"
    COLLECTS = "deletes what was marked for deletion"
    CHANGES_KEYS = "changes the partition keys"
    ANALYZES = "reads all rows of a snapshot"
    READS = "reads some files"
    PUBLISHES = "publishes what snapshots hold for other readers"
    ALONE = "goes beside nothing"


_DELETES = {Effect.EXPIRES, Effect.REMOVES, Effect.COLLECTS}
# What each goes beside. Expiries lease the whole table against each other. The files of a write or
# a rewrite look like orphans when it takes very long; an analysis reads one snapshot for as long as
# it takes; what commits beside a change of keys writes rows of the former keys, which are written
# once more.
_BESIDE: dict[Effect, set[Effect]] = {
    Effect.REWRITES: {*_DELETES, Effect.READS, Effect.PUBLISHES},
    Effect.EXPIRES: {
        *(Effect.WRITES, Effect.REWRITES, Effect.REMOVES, Effect.COLLECTS, Effect.PUBLISHES)
    },
    Effect.COLLECTS: {Effect.WRITES, Effect.REWRITES, *_DELETES, Effect.PUBLISHES},
    Effect.REMOVES: {*_DELETES, Effect.PUBLISHES},
    # Publications at once would only begin anew for each other.
    Effect.PUBLISHES: {Effect.WRITES, Effect.REWRITES, *_DELETES, Effect.READS},
    Effect.CHANGES_KEYS: {*_DELETES, Effect.READS},
    Effect.ANALYZES: {Effect.READS},
}


def goes_beside(work: Effect, other: Effect) -> bool:
    """Whether work on a table begins while other work on it is under way."""
    return other in _BESIDE.get(work, ())
