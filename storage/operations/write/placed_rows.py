"""Rows with the place of each: the partition and bucket that its file belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewright.storage.operations.state.assign_buckets import Places
from lakewright.storage.spec.partition import Place


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """One or more rows, and their places.

    `places` are distinct, those of a partition beside each other. `order` holds the positions of
    the rows, place by place, as they arrived within a place; `bounds` is where each place begins in
    it, and the end. `last` is the place of the last row.
    """

    rows: pa.Table
    places: tuple[Place, ...]
    order: np.ndarray
    bounds: np.ndarray
    last: Place

    def part(self, index: int) -> pa.Table:
        """The rows of one place."""
        if len(self.places) == 1:
            return self.rows
        # A slice would keep the whole table in memory until the last slice is written.
        return self.rows.take(pa.array(self.order[self.bounds[index] : self.bounds[index + 1]]))

    def numbered(self, numbers: Sequence[int]) -> np.ndarray:
        """For each row the number of its place; `numbers` are those of the places."""
        result = np.empty(len(self.order), dtype=np.int64)
        result[self.order] = np.repeat(np.asarray(numbers, dtype=np.int64), np.diff(self.bounds))
        return result


def placed_rows(rows: pa.Table, chosen: Places) -> PlacedRows:
    """The rows, ordered by the places that were chosen for them."""

    def place_of(row: int) -> Place:
        return Place(chosen.partitions[chosen.codes[row]], int(chosen.buckets[row]))

    # Postponed rows have a negative bucket.
    lowest = int(chosen.buckets.min())
    span = int(chosen.buckets.max()) - lowest + 1
    numbers = chosen.codes * span + (chosen.buckets - lowest)
    if numbers[0] == numbers[-1] and not np.any(numbers != numbers[0]):
        only, every = place_of(0), np.arange(len(numbers))
        return PlacedRows(rows, (only,), every, np.array([0, len(numbers)]), only)
    if len(chosen.partitions) * span <= np.iinfo(np.uint16).max:
        # Numbers this small get a radix sort instead of comparisons.
        numbers = numbers.astype(np.uint16)
    order = np.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    changes = np.flatnonzero(sorted_numbers[1:] != sorted_numbers[:-1]) + 1
    bounds = np.concatenate([[0], changes, [len(order)]])
    places = tuple(place_of(order[start]) for start in bounds[:-1])
    return PlacedRows(rows.combine_chunks(), places, order, bounds, place_of(-1))
