"""What a merge engine promises: rows of equal keys go in, at most one row of each key comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import VALUE_KIND


class MergeFunction(ABC):
    """Merges the rows of each key; either a `SelectingMerge` or a `CombiningMerge`.

    A key with one row keeps it as it is, whatever its kind. A key whose row was taken
    away keeps a row that says so, and the caller decides whether it is still needed. What
    comes out can go in again, together with later rows.
    """

    @abstractmethod
    def merge(self, groups: KeyGroups) -> pa.Table:
        """At most one row per key, in key order, with the columns of `groups.rows`.

        Raises:
            InvalidRows: rows that the engine does not accept, such as deletions.
        """


class SelectingMerge(MergeFunction):
    """An engine whose result is one of the rows, so that it can do without their columns."""

    @abstractmethod
    def pick(self, kinds: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Positions of the rows that stay, ascending, at most one per key.

        `kinds` are the numbers of the rows' kinds, `starts` the position of each key's first.

        Raises:
            InvalidRows: rows that the engine does not accept, such as deletions.
        """

    def merge(self, groups: KeyGroups) -> pa.Table:
        kinds = groups.rows.column(VALUE_KIND).to_numpy()
        return groups.rows.take(pa.array(self.pick(kinds, groups.starts)))


class CombiningMerge(MergeFunction):
    """An engine whose result is made from several rows."""

    @abstractmethod
    def combine(self, groups: KeyGroups) -> pa.Table:
        """At most one row per key, in key order, with the columns of `groups.rows`.

        Raises:
            InvalidRows: rows that the engine does not accept, or a number that overflows.
        """

    def merge(self, groups: KeyGroups) -> pa.Table:
        return self.combine(groups)


def retracts(kinds: np.ndarray) -> np.ndarray:
    """Which rows take something back, by the numbers of their kinds."""
    retracting: np.ndarray = (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
    return retracting
