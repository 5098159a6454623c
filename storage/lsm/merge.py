"""Merging rows of equal keys, over Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import SEQUENCE_NUMBER, VALUE_KIND

_ROW = "_row"


def deduplicate(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The row of each key with the highest sequence number, in key order.

    Where sequence numbers are equal the later row wins, so runs are passed
    from the oldest to the newest. Deletions are rows like others.
    """
    if rows.num_rows == 0:
        return rows
    ranks = [_orderable(rows.column(key)) for key in keys]
    sequence = rows.column(SEQUENCE_NUMBER)
    order = _sort_order(ranks, sequence)
    last = np.ones(len(order), dtype=bool)
    if len(order) > 1:
        last[:-1] = _differs_from_next(ranks, order)
    return rows.take(pa.array(order[last]))


def retracting(rows: pa.Table) -> np.ndarray:
    """Which rows take their key away: deletions, and the old half of updates."""
    kinds = rows.column(VALUE_KIND).to_numpy()
    return np.isin(kinds, [int(kind) for kind in RowKind if kind.retracts])


def without_deletions(rows: pa.Table) -> pa.Table:
    """The rows that are there: neither deleted nor the old half of an update."""
    gone = retracting(rows)
    return rows.filter(pa.array(~gone)) if gone.any() else rows


def _orderable(column: pa.ChunkedArray) -> pa.Array | np.ndarray:
    """A key column as something whose order and equality are the format's.

    Whole numbers become numpy arrays, which sort fastest. Floating ones become
    integers that order alike, with -0.0 below 0.0 and NaN on top.
    """
    if pa.types.is_floating(column.type):
        # A float widened to a double keeps its value and order.
        values = column.to_numpy().astype(np.float64)
        raw = np.where(np.isnan(values), np.nan, values).view(np.int64)
        ordered: np.ndarray = np.where(raw < 0, raw ^ np.iinfo(np.int64).max, raw)
        return ordered
    if pa.types.is_integer(column.type):
        return column.to_numpy()
    if pa.types.is_temporal(column.type):
        width = pa.int64() if column.type.bit_width == 64 else pa.int32()
        return column.cast(width).to_numpy()
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8()).to_numpy()
    return column.combine_chunks()


def _sort_order(ranks: Sequence[pa.Array | np.ndarray], sequence: pa.ChunkedArray) -> np.ndarray:
    if all(isinstance(rank, np.ndarray) for rank in ranks):
        # lexsort is stable and takes the most significant key last.
        return np.lexsort((sequence.to_numpy(), *reversed(ranks)))
    columns: dict[str, object] = {str(index): rank for index, rank in enumerate(ranks)}
    names = list(columns)
    columns[SEQUENCE_NUMBER] = sequence
    columns[_ROW] = np.arange(len(sequence))
    sort_keys = [(name, "ascending") for name in [*names, SEQUENCE_NUMBER, _ROW]]
    order: np.ndarray = pc.sort_indices(pa.table(columns), sort_keys=sort_keys).to_numpy()
    return order


def _differs_from_next(ranks: Sequence[pa.Array | np.ndarray], order: np.ndarray) -> np.ndarray:
    differs = np.zeros(len(order) - 1, dtype=bool)
    for rank in ranks:
        if isinstance(rank, np.ndarray):
            ordered = rank[order]
            differs |= ordered[1:] != ordered[:-1]
        else:
            taken = rank.take(pa.array(order))
            unequal = pc.not_equal(taken.slice(1), taken.slice(0, len(taken) - 1))
            differs |= unequal.to_numpy(zero_copy_only=False)
    return differs
