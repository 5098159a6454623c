"""The contract of merge engines: from rows of equal keys to at most one row of each key."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import VALUE_KIND

# Above this share of rows to combine, separating the other rows costs more than it saves.
_MOST = 0.6


class MergeFunction(ABC):
    """Merges the rows of each key; either a `SelectingMerge` or a `CombiningMerge`.

    A key with one row keeps it unchanged, whatever its kind. A deleted key keeps a deletion row;
    the caller decides whether it is still needed. A result can be merged again, together with later
    rows.
    """

    @abstractmethod
    def merge(self, groups: KeyGroups) -> pa.Table:
        """At most one row per key, in key order, with the columns of `groups.rows`.

        Raises:
            InvalidRows: rows that the engine does not accept, such as deletions.
        """


class SelectingMerge(MergeFunction):
    """An engine whose result is one of the rows, so that it does not need the columns."""

    @abstractmethod
    def pick(self, kinds: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Positions of the rows that stay, ascending, at most one per key.

        `kinds` holds the numbers of the rows' kinds, `starts` the position of each key's first row.

        Raises:
            InvalidRows: rows that the engine does not accept, such as deletions.
        """

    def merge(self, groups: KeyGroups) -> pa.Table:
        kinds = groups.rows.column(VALUE_KIND).to_numpy()
        picked = self.pick(kinds, groups.starts)
        whole = len(picked) == groups.rows.num_rows
        return groups.rows if whole else groups.rows.take(pa.array(picked))


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


class FoldingMerge(CombiningMerge):
    """An engine that combines the rows of every key into one, and keeps lone rows unchanged."""

    def combine(self, groups: KeyGroups) -> pa.Table:
        rows, sizes = groups.rows, groups.ends - groups.starts
        several = sizes > 1
        if not several.any():
            return rows
        several_rows = np.repeat(several, sizes)
        if np.count_nonzero(several_rows) > len(several_rows) * _MOST:
            return self.fold(groups)
        several_sizes = sizes[several]
        part = rows.filter(pa.array(several_rows))
        folded = self.fold(KeyGroups(part, np.cumsum(several_sizes) - several_sizes))
        places = groups.starts.copy()
        places[several] = rows.num_rows + np.arange(folded.num_rows)
        return pa.concat_tables([rows, folded]).take(pa.array(places))

    @abstractmethod
    def fold(self, groups: KeyGroups) -> pa.Table:
        """As `combine`, where at least one key has several rows."""


def retracts(kinds: np.ndarray) -> np.ndarray:
    """Marks rows that retract, by the numbers of their kinds."""
    retracting: np.ndarray = (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
    return retracting
