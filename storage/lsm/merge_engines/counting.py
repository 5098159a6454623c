"""The engine of tables that store each distinct row once, with a count.

Source: FLIP-188, chapter LSM: adding a row counts +1, deleting it -1, merging sums up.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.merge_engines.contract import CombiningMerge
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import COUNT, VALUE_KIND


class CountRows(CombiningMerge):
    """Sums the counts of equal rows; a row with count 0 is dropped.

    A negative count stays: it cancels rows that come later.
    """

    def combine(self, groups: KeyGroups) -> pa.Table:
        rows = groups.rows
        if rows.num_rows == 0:
            return rows
        sums = np.add.reduceat(rows.column(COUNT).to_numpy(), groups.starts)
        there = sums != 0
        last = rows.take(pa.array(groups.ends[there] - 1))
        index = last.schema.get_field_index(COUNT)
        return last.set_column(index, last.schema.field(index), pa.array(sums[there]))


def repeated(rows: pa.Table) -> pa.Table:
    """Repeat each row by its count, and drop the count."""
    counts = np.maximum(rows.column(COUNT).to_numpy(), 0)
    rows = rows.drop_columns([COUNT])
    if np.all(counts == 1):
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def negated(rows: pa.Table) -> pa.Table:
    """The rows with counts of the other sign, which retract them."""
    index = rows.schema.get_field_index(COUNT)
    counts = pa.array(-rows.column(COUNT).to_numpy())
    return rows.set_column(index, rows.schema.field(index), counts)


def told_one_by_one(rows: pa.Table) -> pa.Table:
    """Repeat each row by its count: inserts, or deletes for a negative count."""
    counts = rows.column(COUNT).to_numpy()
    kinds = np.where(counts < 0, RowKind.DELETE, RowKind.INSERT).astype(np.int8)
    index = rows.schema.get_field_index(VALUE_KIND)
    told = rows.set_column(index, VALUE_KIND, pa.array(kinds)).drop_columns([COUNT])
    return told.take(pa.array(np.repeat(np.arange(len(counts)), np.abs(counts))))
