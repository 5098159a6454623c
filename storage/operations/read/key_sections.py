"""Sections of the files of many buckets, found at once on columns of manifests.

1. Replace the first and last keys of all files by their ranks among all keys.
2. Sort the files of each bucket by their ranks; a section ends where no key reaches further.
3. Arrange the files of each section into sorted runs.

`lsm.sections` does this for files that are objects, by the keys themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.binary_row import decode_row
from lakewright.storage.codec.row_columns import SerialisedRows
from lakewright.storage.lsm.sections import arranged, sortable
from lakewright.storage.operations.state.live_columns import LiveColumns
from lakewright.storage.spec.schema import TableSchema


@dataclass(frozen=True, slots=True)
class KeySections:
    """Indexes of files: those that no reader merges, and sections whose rows must be merged.

    Both are sorted by bucket and key; the files of a section are its runs one after the other.
    """

    alone: list[int]
    merged: list[list[int]]


def key_sections(
    schema: TableSchema, live: LiveColumns, rows: np.ndarray, buckets: np.ndarray
) -> KeySections:
    """The sections of files of several buckets, which are given by their numbers, ascending."""
    if not len(rows):
        return KeySections([], [])
    low, high = _ranks(schema, live, rows)
    order = np.lexsort((high, low, buckets))
    low, high, deleted = (
        low[order],
        high[order],
        live.numbers("_FILE._DELETE_ROW_COUNT", rows[order]),
    )
    # All ranks of a bucket are above those of the bucket before it.
    lifted = buckets[order] * (int(high.max()) + 1)
    reached = np.maximum.accumulate(high + lifted)
    begins = np.ones(len(order), bool)
    # Equal bounds overlap too: both files could hold that key.
    begins[1:] = (low + lifted)[1:] > reached[:-1]
    first = np.flatnonzero(begins)
    sizes = np.diff(np.append(first, len(order)))
    is_alone = (sizes == 1) & (deleted[first] == 0)
    merged = [
        [
            index
            for run in arranged(
                zip(
                    low[begin : begin + size].tolist(),
                    high[begin : begin + size].tolist(),
                    order[begin : begin + size].tolist(),
                    strict=True,
                )
            )
            for index in run
        ]
        for begin, size in zip(first[~is_alone].tolist(), sizes[~is_alone].tolist(), strict=True)
    ]
    return KeySections(order[first[is_alone]].tolist(), merged)


def _ranks(
    schema: TableSchema, live: LiveColumns, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The ranks of the first and the last key of each file among all of them."""
    keys = pa.concat_arrays(
        [live.texts("_FILE._MIN_KEY", rows), live.texts("_FILE._MAX_KEY", rows)]
    )
    types = tuple(field.type for field in schema.key_fields)
    ranks = _column_ranks(SerialisedRows.of_array(keys, types))
    if ranks is None:
        values = [sortable(decode_row(key, types)) for key in keys.to_pylist()]
        rank_of = {key: rank for rank, key in enumerate(sorted(set(values)))}
        ranks = np.array([rank_of[key] for key in values], np.int64)
    return ranks[: len(rows)], ranks[len(rows) :]


def _column_ranks(keys: SerialisedRows) -> np.ndarray | None:
    """The ranks of keys; None if a column has an order that arrays do not know."""
    if not keys.whole.all():
        return None
    ranks = np.zeros(len(keys), np.int64)
    for index in range(len(keys.types)):
        found = keys.column(index)
        if found is None or not found.valid.all():
            return None
        if not isinstance(found.values, np.ndarray):
            texts = found.values.cast(pa.large_string())
            column = pc.rank(texts, tiebreaker="dense").to_numpy().astype(np.int64)
        elif found.values.dtype.kind == "f":
            return None
        else:
            column = np.unique(found.values, return_inverse=True)[1].reshape(-1)
        _, ranks = np.unique(ranks * (int(column.max()) + 1) + column, return_inverse=True)
        ranks = ranks.reshape(-1)
    return ranks
