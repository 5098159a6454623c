"""The engine of tables that keep each different row once, with how often it is there.

Source: FLIP-188, chapter LSM: adding a row counts +1, deleting it -1, merging sums up.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.merge_engines.contract import CombiningMerge
from lakewright.storage.spec.schema import COUNT


class CountRows(CombiningMerge):
    """Sums up the counts of equal rows; a row whose count is none is gone.

    A count below zero stays: it takes away rows that come later.
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
    """Each row as often as its count says, which is then left out."""
    counts = np.maximum(rows.column(COUNT).to_numpy(), 0)
    rows = rows.drop_columns([COUNT])
    if np.all(counts == 1):
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
