"""The engine that aggregates each column of a key's rows on its own.

Source: Paimon `AggregateMergeFunction`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.merge_engines.changes import Changes, Keys, Op
from lakewright.storage.lsm.merge_engines.columns import ColumnMerge, KeyMerge, merge_columns
from lakewright.storage.lsm.merge_engines.contract import FoldingMerge, retracts
from lakewright.storage.spec.merge_spec import MergeSpec
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import SEQUENCE_NUMBER, VALUE_KIND


@dataclass(frozen=True, slots=True)
class Aggregation(FoldingMerge):
    """Each column by its aggregate function; the sequence number is the last row's.

    A merged row is an insert, also after retractions. If deletions remove the record and the last
    row is a deletion, the result is that deletion; rows after a deletion add to the values that the
    deletion holds.
    """

    spec: MergeSpec

    def fold(self, groups: KeyGroups) -> pa.Table:
        rows = groups.rows
        keys = Keys(groups.starts, rows.num_rows)
        kinds = rows.column(VALUE_KIND).to_numpy()
        removes = (kinds == RowKind.DELETE) & self.spec.remove_record_on_delete
        changes = Changes(keys, _ops(keys, kinds, removes))
        sequence_numbers = rows.column(SEQUENCE_NUMBER).to_numpy()
        merge = KeyMerge(
            keys,
            _result_kinds(keys, kinds, removes),
            sequence_numbers[keys.lasts],
            {
                name: ColumnMerge(changes, aggregate)
                for name, aggregate in self.spec.aggregates.items()
            },
        )
        return merge_columns(rows, merge, table=self.spec.table)


def _ops(keys: Keys, kinds: np.ndarray, removes: np.ndarray) -> np.ndarray:
    ops = np.where(retracts(kinds), Op.RETRACT, Op.ADD)
    ops[removes] = Op.SET
    ops[keys.starts[keys.alone]] = Op.SET
    return ops


def _result_kinds(keys: Keys, kinds: np.ndarray, removes: np.ndarray) -> np.ndarray:
    merged = np.where(removes[keys.lasts], RowKind.DELETE, RowKind.INSERT)
    return np.where(keys.alone, kinds[keys.lasts], merged)
