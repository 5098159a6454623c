"""The changes from one set of rows to another: by key, or by whole rows without a key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.key_order import merge_order
from lakewright.storage.lsm.merge import retracting, take_rows
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import VALUE_KIND


def difference_by_key(
    before: pa.Table, after: pa.Table, keys: Sequence[str], values: Sequence[str]
) -> pa.Table:
    """The changes from `before` to `after`, both key-value rows with each key once.

    A row of `after` is a change, of its own kind, if its key is new, or if `before` has other
    values or a deletion for it. A row of `before` whose key is missing or deleted in `after`
    becomes a deletion.
    """
    sides = np.repeat(np.array([0, 1], dtype=np.int64), [before.num_rows, after.num_rows])
    rows = pa.concat_tables([before, after.select(before.column_names)])
    if rows.num_rows == 0:
        return rows
    found = merge_order(
        [rows.column(name) for name in keys], [], pa.chunked_array([pa.array(sides)])
    )
    first = found.order[found.starts]
    paired = found.ends - found.starts == 2
    old, new = first[paired], found.order[found.starts[paired] + 1]
    gone = retracting(rows)
    changed = _differ(rows, values, old, new) | (gone[old] != gone[new])
    alone = first[~paired]
    deleted = changed & gone[new] & ~gone[old]
    added = alone[sides[alone] == 1]
    removed = np.concatenate([old[deleted], alone[(sides[alone] == 0) & ~gone[alone]]])
    kept = np.concatenate([new[changed & ~deleted], added])
    return pa.concat_tables(
        [_taken(rows, np.sort(removed), RowKind.DELETE), _taken(rows, np.sort(kept))]
    )


def difference_by_row(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Rows that `before` holds more often than `after`, and the other way round."""
    rows = pa.concat_tables([before, after.select(before.column_names)])
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    for column in rows.columns:
        found = _codes(column)
        # Renumbered each time, so that the product of two columns' codes never overflows.
        _, codes = np.unique(codes * (found.max(initial=0) + 1) + found, return_inverse=True)
    old, new = codes[: before.num_rows], codes[before.num_rows :]
    count = int(codes.max(initial=-1)) + 1
    common = np.minimum(np.bincount(old, minlength=count), np.bincount(new, minlength=count))
    return before.filter(pa.array(_beyond(old, common))), after.filter(
        pa.array(_beyond(new, common))
    )


def _beyond(codes: np.ndarray, allowance: np.ndarray) -> np.ndarray:
    """Marks positions beyond the first `allowance[code]` of their code."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))[: len(codes)]
    lengths = np.diff(np.append(starts, len(codes)))
    ranks = np.arange(len(codes)) - np.repeat(starts, lengths)
    beyond = np.empty(len(codes), dtype=bool)
    beyond[order] = ranks >= allowance[ordered]
    return beyond


def _differ(
    rows: pa.Table, columns: Sequence[str], left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Marks the pairs of positions whose rows differ in a column."""
    differ = np.zeros(len(left), dtype=bool)
    if len(left) == 0:
        return differ
    both = pa.array(np.concatenate([left, right]))
    for name in columns:
        codes = _codes(rows.column(name).take(both))
        differ |= codes[: len(left)] != codes[len(left) :]
    return differ


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers that are equal for equal values; null, NaN and -0.0 are values of their own."""
    if pa.types.is_nested(column.type):
        # Arrow cannot encode nested values as a dictionary, so their texts are encoded.
        texts = (repr(value) for chunk in column.chunks for value in chunk.to_pylist())
        column = pa.chunked_array([pa.array(texts, pa.large_string())])
    elif pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        # The distinct values may need more than 32-bit offsets.
        column = column.cast(pa.large_binary())
    encoded = column.dictionary_encode(null_encoding="encode")
    # All chunks share one dictionary.
    indices = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return np.concatenate([np.empty(0, dtype=np.int64), *indices]).astype(np.int64)


def _taken(rows: pa.Table, positions: np.ndarray, kind: RowKind | None = None) -> pa.Table:
    taken = take_rows(rows, positions)
    if kind is None:
        return taken
    kinds = pa.array(np.full(len(positions), int(kind), dtype=np.int8))
    return taken.set_column(taken.column_names.index(VALUE_KIND), VALUE_KIND, kinds)
