"""Merging sorted runs: the rows of a key meet, and the table's engine says what they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.key_order import MergeOrder, merge_order
from lakewright.storage.lsm.merge_engines import (
    CombiningMerge,
    MergeFunction,
    SelectingMerge,
    merge_function,
)
from lakewright.storage.spec.merge_spec import MergeSpec
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import SEQUENCE_NUMBER, VALUE_KIND

# Columns that say where a row was read: the number of its file, and its place in that file.
ORIGIN = "_ORIGIN"
POSITION = "_POSITION"

_DEDUPLICATE = merge_function(MergeSpec(), ())


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The columns that order rows in a merge: keys, then what the user calls their sequence."""

    keys: tuple[str, ...]
    sequence_fields: tuple[str, ...] = ()
    descending: bool = False


def sorted_groups(rows: pa.Table, by: RowOrder) -> KeyGroups:
    """Rows in merge order; those alike in key and sequence stay in the order they came.

    Columns `_ORIGIN` and `_POSITION`, where there are any, become the groups' own.
    """
    found = _order_of(rows, by)
    taken = rows.combine_chunks().take(pa.array(found.order))
    if ORIGIN not in taken.column_names:
        return KeyGroups(taken, found.starts)
    return KeyGroups(
        taken.drop_columns([ORIGIN, POSITION]),
        found.starts,
        taken.column(ORIGIN).to_numpy(),
        taken.column(POSITION).to_numpy(),
    )


def merge_rows(rows: pa.Table, by: RowOrder, function: MergeFunction) -> pa.Table:
    """At most one row of each key, in key order; deletions are rows like others."""
    if rows.num_rows == 0:
        return rows
    if not isinstance(function, SelectingMerge):
        return function.merge(sorted_groups(rows, by))
    found = _order_of(rows, by)
    picked = _picked(rows, found, function)
    if len(picked) == rows.num_rows and np.all(picked[1:] > picked[:-1]):
        return rows
    return rows.combine_chunks().take(pa.array(picked))


def merge_unordered(rows: pa.Table, by: RowOrder, function: MergeFunction) -> pa.Table:
    """The rows that are there after a merge, in no promised order: cheaper than `merge_rows`.

    Where an engine selects rows they may come without sequence numbers, if those of a key
    are in order, and without kinds, if none takes its key away.
    """
    if rows.num_rows == 0:
        return rows
    found = _order_of(rows, by)
    if isinstance(function, SelectingMerge):
        if VALUE_KIND not in rows.column_names:
            kinds = np.zeros(rows.num_rows, dtype=np.int8)
            return _only(rows, found.order[function.pick(kinds, found.starts)])
        picked = _picked(rows, found, function)
        return _only(rows, picked[~retracting(rows)[picked]])
    # A key with one row keeps it as it is, so only the others are brought together.
    assert isinstance(function, CombiningMerge)
    alone = found.ends - found.starts == 1
    single = found.order[found.starts[alone]]
    kept = _only(rows, single[~retracting(rows)[single]])
    if alone.all():
        return kept
    repeated = np.repeat(~alone, found.ends - found.starts)
    lengths = (found.ends - found.starts)[~alone]
    groups = KeyGroups(
        rows.combine_chunks().take(pa.array(found.order[repeated])),
        np.cumsum(lengths) - lengths,
    )
    return pa.concat_tables([kept, without_deletions(function.combine(groups))])


def retracting(rows: pa.Table) -> np.ndarray:
    """Which rows take their key away: deletions, and the old half of updates."""
    kinds = rows.column(VALUE_KIND).to_numpy()
    gone: np.ndarray = (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
    return gone


def without_deletions(rows: pa.Table) -> pa.Table:
    """The rows that are there: neither deleted nor the old half of an update."""
    gone = retracting(rows)
    return rows.filter(pa.array(~gone)) if gone.any() else rows


def _order_of(rows: pa.Table, by: RowOrder) -> MergeOrder:
    return merge_order(
        [rows.column(name) for name in by.keys],
        [rows.column(name) for name in by.sequence_fields],
        rows.column(SEQUENCE_NUMBER) if SEQUENCE_NUMBER in rows.column_names else None,
        descending=by.descending,
    )


def _picked(rows: pa.Table, found: MergeOrder, function: SelectingMerge) -> np.ndarray:
    """Which rows stay, as positions in `rows`, in key order."""
    kinds = rows.column(VALUE_KIND).to_numpy()
    picked: np.ndarray = found.order[function.pick(kinds[found.order], found.starts)]
    return picked


def _only(rows: pa.Table, positions: np.ndarray) -> pa.Table:
    if len(positions) == rows.num_rows:
        return rows
    mask = np.zeros(rows.num_rows, dtype=bool)
    mask[positions] = True
    return rows.filter(pa.array(mask))


def deduplicate(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The row of each key with the highest sequence number, in key order."""
    return merge_rows(rows, RowOrder(tuple(keys)), _DEDUPLICATE)
