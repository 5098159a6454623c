"""Merges level 0 with a bucket's older rows, which may stay in their files.

A row on a deeper level is already merged with all older rows of its key. So only the newest of a
key's deeper rows counts, whether its file is merged or only read for lookups. Sources: Paimon
`LookupMergeFunction`,
`LookupChangelogMergeFunctionWrapper`, `FirstRowMergeFunctionWrapper`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.key_groups import KeyGroups

_NO_ROW = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Keys of the files being merged, with the older rows that count.

    `older` is each key's row of a deeper level, or -1. `outside` marks older rows from files that
    are not merged; `newer` marks keys with rows in level 0.
    """

    groups: KeyGroups
    older: np.ndarray
    outside: np.ndarray
    newer: np.ndarray


def look_up(groups: KeyGroups, levels: np.ndarray, merged: np.ndarray) -> LookedUp:
    """Choose the rows that count; `levels` and `merged` are indexed by the numbers in `origins`.

    `merged` marks the files that are merged; the others are only read for lookups.
    """
    counts = np.diff(groups.starts, append=groups.rows.num_rows)
    key_of_row = np.repeat(np.arange(groups.key_count), counts)
    level, inside = levels[groups.origins], merged[groups.origins]
    # Files that are merged come first, then a lower level before a deeper one.
    rank = np.where(level == 0, _NO_ROW, np.where(inside, level, level + len(levels) + 2**20))
    first = np.minimum.reduceat(rank, groups.starts)
    chosen = (rank == first[key_of_row]) & (rank != _NO_ROW)
    wanted = np.logical_or.reduceat(inside, groups.starts)
    kept = ((level == 0) | chosen) & wanted[key_of_row]
    taken = _subset(groups, np.flatnonzero(kept), key_of_row)
    older = np.full(taken.key_count, -1, dtype=np.int64)
    rows = np.flatnonzero(chosen[kept])
    keys = np.searchsorted(taken.starts, rows, side="right") - 1
    older[keys] = rows
    outside = np.zeros(taken.key_count, dtype=bool)
    outside[keys] = ~inside[kept][rows]
    newer = np.logical_or.reduceat(level[kept] == 0, taken.starts) if taken.key_count else outside
    return LookedUp(taken, older, outside, newer)


def without_keys(found: LookedUp, gone: np.ndarray) -> LookedUp:
    """The same without some keys."""
    counts = np.diff(found.groups.starts, append=found.groups.rows.num_rows)
    key_of_row = np.repeat(np.arange(found.groups.key_count), counts)
    rows = np.flatnonzero(~gone[key_of_row])
    shift = np.cumsum(gone[key_of_row])
    older = found.older[~gone]
    return LookedUp(
        _subset(found.groups, rows, key_of_row),
        np.where(older >= 0, older - shift[older], -1),
        found.outside[~gone],
        found.newer[~gone],
    )


def _subset(groups: KeyGroups, rows: np.ndarray, key_of_row: np.ndarray) -> KeyGroups:
    if len(rows) == groups.rows.num_rows:
        return groups
    return KeyGroups(
        groups.rows.take(pa.array(rows)),
        np.flatnonzero(np.diff(key_of_row[rows], prepend=-1)),
        groups.origins[rows],
        groups.positions[rows],
    )
