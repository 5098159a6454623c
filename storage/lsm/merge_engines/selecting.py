"""The engines that keep one row of each key: the last, or the first.

Sources: Paimon `DeduplicateMergeFunction`, `FirstRowMergeFunction`, `ReducerMergeFunctionWrapper`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from lakewright.storage.errors import InvalidRows
from lakewright.storage.lsm.merge_engines.contract import SelectingMerge, retracts
from lakewright.storage.spec.merge_spec import MergeSpec


@dataclass(frozen=True, slots=True)
class Deduplicate(SelectingMerge):
    """Keeps the last row of each key, or the last row that does not retract."""

    ignore_delete: bool = False

    def pick(self, kinds: np.ndarray, starts: np.ndarray) -> np.ndarray:
        if self.ignore_delete:
            retracting = retracts(kinds)
            if retracting.any():
                return _last(_candidates(retracting, starts), starts)
        return _ends(kinds, starts) - 1


@dataclass(frozen=True, slots=True)
class FirstRow(SelectingMerge):
    """Keeps the first row of each key; rows that retract are refused or left out."""

    spec: MergeSpec

    def pick(self, kinds: np.ndarray, starts: np.ndarray) -> np.ndarray:
        retracting = retracts(kinds)
        if not retracting.any():
            return starts
        candidates = _candidates(retracting, starts)
        if not self.spec.ignore_delete and not candidates.all():
            _refuse(self.spec, int(np.count_nonzero(retracting)))
        return _first(candidates, starts)


def _candidates(retracting: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Marks rows that may stay: rows that do not retract, and the only row of a key."""
    alone = np.diff(starts, append=len(retracting)) == 1
    kept: np.ndarray = ~retracting
    kept[starts[alone]] = True
    return kept


def _ends(kinds: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.append(starts[1:], len(kinds)) if len(starts) else starts


def _first(candidates: np.ndarray, starts: np.ndarray) -> np.ndarray:
    positions = np.where(candidates, np.arange(len(candidates)), len(candidates))
    first: np.ndarray = np.minimum.reduceat(positions, starts)
    return first[first < len(candidates)]


def _last(candidates: np.ndarray, starts: np.ndarray) -> np.ndarray:
    positions = np.where(candidates, np.arange(len(candidates)), -1)
    last: np.ndarray = np.maximum.reduceat(positions, starts)
    return last[last >= 0]


def _refuse(spec: MergeSpec, count: int) -> NoReturn:
    raise InvalidRows(
        f"{spec.table} has merge-engine=first-row, which takes no deletions, and {count} of its "
        "rows are deletions; set ignore-delete=true to leave them out"
    )
