"""Merges sorted runs: brings the rows of a key together and applies the table's merge engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

# Columns with the origin of a row: the number of its file, and its position in that file.
ORIGIN = "_ORIGIN"
POSITION = "_POSITION"

_DEDUPLICATE = merge_function(MergeSpec(), ())
# Beyond this size, offsets into a column's bytes may not fit 32 bits.
_MOST_TOGETHER_BYTES = 2**31 - 1
_PIECE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The columns that order rows in a merge: keys, then the user's sequence fields."""

    keys: tuple[str, ...]
    sequence_fields: tuple[str, ...] = ()
    descending: bool = False


def sorted_groups(rows: pa.Table, by: RowOrder) -> KeyGroups:
    """Rows in merge order; ties in key and sequence keep their order.

    The columns `_ORIGIN` and `_POSITION`, if present, become attributes of the groups.
    """
    taken, starts = in_order(rows, by)
    if ORIGIN not in taken.column_names:
        return KeyGroups(taken, starts)
    return KeyGroups(
        taken.drop_columns([ORIGIN, POSITION]),
        starts,
        taken.column(ORIGIN).to_numpy(),
        taken.column(POSITION).to_numpy(),
    )


def in_order(rows: pa.Table, by: RowOrder) -> tuple[pa.Table, np.ndarray]:
    """All columns of the rows in merge order, and the position of each key's first row.

    Ties in key and sequence keep their order.
    """
    found = _order_of(rows, by)
    taken = _combined(rows) if _in_order(found.order, rows) else take_rows(rows, found.order)
    return taken, found.starts


def merge_rows(rows: pa.Table, by: RowOrder, function: MergeFunction) -> pa.Table:
    """At most one row of each key, in key order; deletions stay as rows."""
    if rows.num_rows == 0:
        return rows
    if not isinstance(function, SelectingMerge):
        return function.merge(sorted_groups(rows, by))
    found = _order_of(rows, by)
    picked = _picked(rows, found, function)
    return rows if _in_order(picked, rows) else take_rows(rows, picked)


def merged_pieces(
    rows: pa.Table, by: RowOrder, function: MergeFunction, *, piece_bytes: int
) -> Iterator[pa.Table]:
    """The result of `merge_rows` in pieces of about that many bytes.

    If the engine selects rows, memory holds one piece besides the input.
    """
    if rows.num_rows == 0 or not isinstance(function, SelectingMerge):
        yield merge_rows(rows, by, function)
        return
    picked = _picked(rows, _order_of(rows, by), function)
    if _in_order(picked, rows):
        yield rows
        return
    step = max(1, piece_bytes * rows.num_rows // max(1, rows.nbytes))
    rows = _combined(rows)
    for start in range(0, len(picked), step):
        yield take_rows(rows, picked[start : start + step])


def _combined(rows: pa.Table) -> pa.Table:
    return rows.combine_chunks() if rows.nbytes <= _MOST_TOGETHER_BYTES else rows


def take_rows(
    rows: pa.Table, positions: np.ndarray, *, most_bytes: int = _MOST_TOGETHER_BYTES
) -> pa.Table:
    """The rows at distinct positions, for texts of any total size."""
    if rows.nbytes <= most_bytes:
        return rows.combine_chunks().take(pa.array(positions))
    batches = rows.to_batches()
    firsts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    step = max(1, min(most_bytes, _PIECE_BYTES) * rows.num_rows // rows.nbytes)
    pieces = [
        _gathered(batches, firsts, positions[start : start + step])
        for start in range(0, len(positions), step)
    ]
    return pa.concat_tables([rows.schema.empty_table(), *pieces])


def _gathered(
    batches: Sequence[pa.RecordBatch], firsts: np.ndarray, positions: np.ndarray
) -> pa.Table:
    """Rows of several batches, split in halves until their text fits one chunk."""
    lies_in = np.searchsorted(firsts, positions, side="right") - 1
    by_batch = np.argsort(lies_in, kind="stable")
    taken = []
    for number in np.unique(lies_in):
        local = positions[lies_in == number] - firsts[number]
        taken.append(batches[number].take(pa.array(local)))
    back = np.empty(len(positions), dtype=np.int64)
    back[by_batch] = np.arange(len(positions))
    found = pa.Table.from_batches(taken)
    if len(positions) > 1 and found.nbytes > _MOST_TOGETHER_BYTES:
        half = len(positions) // 2
        halves = (positions[:half], positions[half:])
        return pa.concat_tables([_gathered(batches, firsts, each) for each in halves])
    return found.combine_chunks().take(pa.array(back))


def merge_unordered(
    rows: pa.Table, by: RowOrder, function: MergeFunction, columns: Sequence[str]
) -> pa.Table:
    """The rows that exist after a merge, in any order: cheaper than `merge_rows`.

    If the engine selects rows, they may lack sequence numbers, provided that the rows of a key are
    in order, and may lack kinds, provided that none is a deletion. `columns` names the columns of
    the result.
    """
    if rows.num_rows == 0:
        return rows.select(columns)
    order = _order_of(rows, by)
    if isinstance(function, SelectingMerge):
        if VALUE_KIND not in rows.column_names:
            kinds = np.zeros(rows.num_rows, dtype=np.int8)
            return _only(rows.select(columns), order.order[function.pick(kinds, order.starts)])
        picked = _picked(rows, order, function)
        return _only(rows.select(columns), picked[~retracting(rows)[picked]])
    # A key with one row keeps it unchanged, so only the other keys are merged.
    assert isinstance(function, CombiningMerge)
    alone = order.ends - order.starts == 1
    single = order.order[order.starts[alone]]
    kept = _only(rows.select(columns), single[~retracting(rows)[single]])
    if alone.all():
        return kept
    repeated = np.repeat(~alone, order.ends - order.starts)
    lengths = (order.ends - order.starts)[~alone]
    groups = KeyGroups(
        take_rows(rows, order.order[repeated]),
        np.cumsum(lengths) - lengths,
    )
    combined = without_deletions(function.combine(groups)).select(columns)
    return pa.concat_tables([kept, combined])


def retracting(rows: pa.Table) -> np.ndarray:
    """Marks rows that retract: deletions, and the old half of updates."""
    kinds = rows.column(VALUE_KIND).to_numpy()
    gone: np.ndarray = (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
    return gone


def without_deletions(rows: pa.Table) -> pa.Table:
    """The rows that exist: neither deletions nor the old half of an update."""
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
    """The positions in `rows` of the rows that stay, in key order."""
    kinds = rows.column(VALUE_KIND).to_numpy()
    picked: np.ndarray = found.order[function.pick(kinds[found.order], found.starts)]
    return picked


def _in_order(positions: np.ndarray, rows: pa.Table) -> bool:
    """Whether these are the positions of all rows in their present order."""
    return len(positions) == rows.num_rows and bool(np.all(positions[1:] > positions[:-1]))


def _only(rows: pa.Table, positions: np.ndarray) -> pa.Table:
    if len(positions) == rows.num_rows:
        return rows
    mask = np.zeros(rows.num_rows, dtype=bool)
    mask[positions] = True
    return rows.filter(pa.array(mask))


def deduplicate(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The row of each key with the highest sequence number, in key order."""
    return merge_rows(rows, RowOrder(tuple(keys)), _DEDUPLICATE)
