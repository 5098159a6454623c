"""The operations of each key's rows on one column, before they are evaluated."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property

import numpy as np


class Op(IntEnum):
    """The operation of a row on the value of its key so far."""

    SKIP = 0
    # The row's value is added as the newest.
    ADD = 1
    # The row's value is added as if it had come first.
    ADD_BEFORE = 2
    RETRACT = 3
    # The row's value replaces the key's value.
    SET = 4
    SET_AND_RETRACT = 5


class Keys:
    """Row positions by key, with lookups per key."""

    def __init__(self, starts: np.ndarray, row_count: int) -> None:
        self.starts = starts
        self.row_count = row_count

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> np.ndarray:
        sizes: np.ndarray = np.diff(self.starts, append=self.row_count)
        return sizes

    @cached_property
    def lasts(self) -> np.ndarray:
        lasts: np.ndarray = self.starts + self.sizes - 1
        return lasts

    @cached_property
    def alone(self) -> np.ndarray:
        """Keys with one row."""
        alone: np.ndarray = self.sizes == 1
        return alone

    @cached_property
    def positions(self) -> np.ndarray:
        return np.arange(self.row_count)

    @cached_property
    def is_start(self) -> np.ndarray:
        marked = np.zeros(self.row_count, dtype=bool)
        marked[self.starts] = True
        return marked

    def spread(self, values: np.ndarray) -> np.ndarray:
        """A value per key, as a value per row."""
        return np.repeat(values, self.sizes)

    def first(self, rows: np.ndarray) -> np.ndarray:
        """The position of each key's first marked row, or -1."""
        found: np.ndarray = np.minimum.reduceat(
            np.where(rows, self.positions, self.row_count), self.starts
        )
        return np.where(found < self.row_count, found, -1)

    def last(self, rows: np.ndarray) -> np.ndarray:
        """The position of each key's last marked row, or -1."""
        found: np.ndarray = np.maximum.reduceat(np.where(rows, self.positions, -1), self.starts)
        return found

    def any(self, rows: np.ndarray) -> np.ndarray:
        """Keys with a marked row."""
        found: np.ndarray = np.logical_or.reduceat(rows, self.starts)
        return found


class Changes:
    """The operation of each row on a column.

    `ops` are numbers of `Op`. Rows before the last one that sets the value have no effect; in
    `live` they are skipped.
    """

    def __init__(self, keys: Keys, ops: np.ndarray) -> None:
        self.keys = keys
        self.ops = ops
        # Picks for columns without nulls depend only on the ops, so columns share them.
        self.picks_without_nulls: dict[object, np.ndarray] = {}

    @cached_property
    def sets(self) -> np.ndarray:
        """The position of the last row that sets the value, or -1."""
        return self.keys.last((self.ops == Op.SET) | (self.ops == Op.SET_AND_RETRACT))

    @cached_property
    def live(self) -> np.ndarray:
        before = self.keys.positions < self.keys.spread(self.sets)
        ops: np.ndarray = np.where(before, Op.SKIP, self.ops)
        return ops

    @cached_property
    def retracting_keys(self) -> np.ndarray:
        retracts = (self.ops == Op.RETRACT) | (self.ops == Op.SET_AND_RETRACT)
        return self.keys.any(retracts)

    @cached_property
    def ignoring_retracts(self) -> Changes:
        ops = np.where(self.ops == Op.RETRACT, Op.SKIP, self.ops)
        return Changes(self.keys, np.where(ops == Op.SET_AND_RETRACT, Op.SET, ops))
