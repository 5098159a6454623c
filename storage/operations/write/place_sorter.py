"""Sorts rows of very many places: what arrives in any order comes back a place at a time.

1. Rows wait in memory as they came, with the number of their place.
2. Beyond the budget they are sorted by place and spilled as one run.
3. At the end the runs are read side by side: of each place the piece of the first run, then that of
   the second. So the rows of a place keep their order, and one piece is in memory at a time. Each
   run has a file open then, so too many runs are merged to one before.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from lakewright.storage.files.spill import Spill
from lakewright.storage.operations.running.task_memory import BATCH_BYTES, SORT_BUFFER_BYTES

# Runs that are read side by side, each with an open file.
MOST_RUNS = 128


class PlaceSorter:
    """Takes rows with the numbers of their places, and gives them back in the order of numbers.

    Use it as a context, which deletes what was spilled at its end.
    """

    def __init__(self) -> None:
        self._rows: list[pa.Table] = []
        self._numbers: list[np.ndarray] = []
        self._buffered_bytes = 0
        self._spill = Spill()
        self._heaps = count()
        # Of each run its heap and the number of each of its pieces.
        self._runs: list[tuple[int, list[int]]] = []
        self.spilled_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._rows, self._numbers = [], []
        self._spill.__exit__(kind, error, trace)

    def add(self, rows: pa.Table, numbers: np.ndarray) -> None:
        """Take rows; `numbers` has the number of the place of each.

        Raises:
            UnavailableError: the disk for spilled rows is full or failed.
        """
        self._rows.append(rows)
        self._numbers.append(numbers)
        self._buffered_bytes += rows.nbytes + numbers.nbytes
        if self._buffered_bytes > SORT_BUFFER_BYTES:
            self._spill_run()

    def pieces(self) -> Iterator[tuple[int, pa.Table]]:
        """All rows in pieces of one place each, by its number, in order of arrival within it."""
        if not self._runs:
            yield from self._sorted()
            return
        self._spill_run()
        yield from self._merged()

    def _spill_run(self) -> None:
        self.spilled_bytes += self._buffered_bytes
        self._put_run(self._sorted())
        if len(self._runs) >= MOST_RUNS:
            self._put_run(self._merged())

    def _put_run(self, pieces: Iterator[tuple[int, pa.Table]]) -> None:
        heap = next(self._heaps)
        held: list[int] = []
        for number, rows in pieces:
            self._spill.put(heap, rows)
            held.append(number)
        self._spill.finish(heap)
        if held:
            self._runs.append((heap, held))

    def _merged(self) -> Iterator[tuple[int, pa.Table]]:
        """Remove and yield the rows of all runs."""
        pieces = [self._spill.pieces(heap) for heap, _ in self._runs]
        order = [[(number, at) for number in held] for at, (_, held) in enumerate(self._runs)]
        self._runs = []
        for number, at in heapq.merge(*order):
            yield number, next(pieces[at])
        for piece in pieces:
            # A generator that is not run to its end keeps its file.
            next(piece, None)

    def _sorted(self) -> Iterator[tuple[int, pa.Table]]:
        """Remove and yield the rows in memory; a place may have several pieces."""
        if not self._rows:
            return
        rows, numbers = pa.concat_tables(self._rows).combine_chunks(), np.concatenate(self._numbers)
        row_bytes = max(1, self._buffered_bytes // rows.num_rows)
        self._rows, self._numbers, self._buffered_bytes = [], [], 0
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        step = max(1, BATCH_BYTES // row_bytes)
        for start in range(0, len(order), step):
            chunk = rows.take(pa.array(order[start : start + step]))
            held = numbers[start : start + step]
            bounds = np.flatnonzero(np.diff(held)) + 1
            for first, end in zip([0, *bounds], [*bounds, len(held)], strict=True):
                yield int(held[first]), chunk.slice(first, end - first)
