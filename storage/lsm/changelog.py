"""Changelogs made by compaction: the change of each key, as its old and its new row.

A new row becomes an insert, a vanished row a delete, and a changed row an update-before and an
update-after. Sources: Paimon `FullChangelogMergeFunctionWrapper`,
`LookupChangelogMergeFunctionWrapper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.key_order import merge_order
from lakewright.storage.lsm.merge import retracting
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND

NONE = -1


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """The effect of a merge on each key of some groups.

    `before` holds the rows that readers saw until now, and `old` the position of each key's row in
    it; `after` and `new` are the same for the merged rows. `NONE` stands for a missing row. `told`
    marks the keys that a changelog covers.
    """

    before: pa.Table
    old: np.ndarray
    after: pa.Table
    new: np.ndarray
    told: np.ndarray


def changelog_rows(history: KeyHistory, compared: Sequence[str] | None = None) -> pa.Table:
    """Changelog rows in key order, the old row of a key before its new one.

    With `compared`, a key whose columns of these names did not change has no changelog rows.
    """
    was = history.told & _present(history.before, history.old)
    now = history.told & _present(history.after, history.new)
    both = was & now
    if compared is not None:
        unchanged = _alike(history, np.flatnonzero(both), compared)
        was[unchanged] = now[unchanged] = False
        both = was & now
    olds, news = np.flatnonzero(was), np.flatnonzero(now)
    kinds = np.concatenate(
        [
            np.where(both[olds], RowKind.UPDATE_BEFORE, RowKind.DELETE),
            np.where(both[news], RowKind.UPDATE_AFTER, RowKind.INSERT),
        ]
    ).astype(np.int8)
    order = np.argsort(np.concatenate([olds * 2, news * 2 + 1]), kind="stable")
    rows = pa.concat_tables(
        [
            history.before.take(pa.array(history.old[olds])),
            history.after.take(pa.array(history.new[news])),
        ]
    ).take(pa.array(order))
    index = rows.column_names.index(VALUE_KIND)
    return rows.set_column(index, rows.schema.field(index), pa.array(kinds[order]))


def merged_positions(groups: KeyGroups, merged: pa.Table) -> np.ndarray:
    """The position of each key's merged row, `NONE` where the merge engine dropped the key."""
    if merged.num_rows == groups.key_count:
        return np.arange(groups.key_count)
    names = [name for name in merged.column_names if name.startswith(KEY_PREFIX)]
    keys = groups.rows.select([*names, SEQUENCE_NUMBER]).take(pa.array(groups.starts))
    both = pa.concat_tables([keys, merged.select(keys.column_names).cast(keys.schema)])
    numbers = pa.chunked_array([pa.array(np.arange(both.num_rows))])
    together = merge_order([both.column(name) for name in names], [], numbers)
    positions = np.full(groups.key_count, NONE, dtype=np.int64)
    # A key that stayed has two adjacent rows: its own, then the merged row.
    last = together.order[together.ends - 1]
    stayed = last >= groups.key_count
    positions[together.order[together.starts][stayed]] = last[stayed] - groups.key_count
    return positions


def _present(rows: pa.Table, positions: np.ndarray) -> np.ndarray:
    present: np.ndarray = positions != NONE
    if present.any():
        present[present] = ~retracting(rows)[positions[present]]
    return present


def _alike(history: KeyHistory, keys: np.ndarray, columns: Sequence[str]) -> np.ndarray:
    """Marks the keys whose values are the same before and after."""
    before = history.before.select(list(columns)).take(pa.array(history.old[keys]))
    after = history.after.select(list(columns)).take(pa.array(history.new[keys]))
    alike = np.ones(len(keys), dtype=bool)
    for old, new in zip(before.columns, after.columns, strict=True):
        alike &= _same(old, new)
    return keys[alike]


def _same(old: pa.ChunkedArray, new: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_nested(old.type):
        # Arrow cannot compare lists, maps and structs.
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return np.fromiter((left == right for left, right in pairs), dtype=bool, count=len(old))
    same = pc.fill_null(pc.equal(old, new), False)
    same = pc.or_(same, pc.and_(pc.is_null(old), pc.is_null(new)))
    if pa.types.is_floating(old.type):
        nans = pc.and_(pc.is_nan(old), pc.is_nan(new))
        same = pc.or_(same, pc.fill_null(nans, False))
    result: np.ndarray = same.to_numpy(zero_copy_only=False) if len(old) else np.empty(0, bool)
    return result
