"""An external merge sort: reads any number of runs together, a limited number at once.

1. Hold the smallest runs in memory as wholes, so that their files are closed.
2. If more runs stream than may be open at once, merge neighbours into one run on local disk:
   first neighbours that fit in memory together, then repeatedly the smallest stretch.
3. Read the remaining runs in windows.

A pass sorts rows into merge order and keeps all of them. The table's merge engine then sees all
rows of a key together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np
import pyarrow as pa

from lakewright.storage.env import Env
from lakewright.storage.files.spill import Spill
from lakewright.storage.lsm.merge import RowOrder, in_order
from lakewright.storage.lsm.windows import key_windows
from lakewright.storage.operations.running.task_memory import MergeMemory, files_of_a_task

_MIN_BATCH_ROWS = 4096
# Sorting held runs takes as much memory again.
_HELD_TO_SORT = 2


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Rows in key order that are read once, in batches of a given or free size.

    All rows of one key are in one batch. `size_bytes` is the memory of the rows.
    """

    row_count: int
    size_bytes: int
    read: Callable[[int | None], Generator[pa.Table, None, None]]


class SideBySide:
    """Reads runs, given oldest first, in merge order.

    Rows come from several sides. Each side has the runs of one merge.
    """

    def __init__(self, env: Env, order: RowOrder, memory: MergeMemory, *, sides: int = 1) -> None:
        self._order = order
        self._memory = memory.shared(sides)
        self._heaps = count()
        self._most = min(self._memory.streams, max(2, files_of_a_task(env) // sides))

    def windows(self, *sides: Sequence[OpenRun]) -> Iterator[list[list[pa.Table]]]:
        """The rows of each side in windows of ascending keys, rows of older runs first.

        All rows of a key are in one window. A file is closed after its last row, and all files are
        closed when the iteration ends, also on failure.

        Raises:
            UnavailableError: the local disk has no room for a pass.
        """
        with Spill() as spill:
            few = [self._few(list(side), spill) for side in sides]
            places = np.cumsum([0, *(len(side) for side in few)]).tolist()
            for pieces in self._windows(*few):
                yield [
                    [piece for piece in pieces[first:last] if piece is not None]
                    for first, last in pairwise(places)
                ]

    def _few(self, runs: list[OpenRun], spill: Spill) -> list[OpenRun]:
        """Runs with the same rows, with few enough streams."""
        if self._streaming(runs) <= self._most:
            return runs
        runs = [
            group[0] if len(group) == 1 else self._spilled(group, spill)
            for group in self._fitting_groups(runs)
        ]
        while (streaming := self._streaming(runs)) > self._most:
            width = min(self._most, streaming - self._most + 1)
            sizes = np.cumsum([0, *(run.size_bytes for run in runs)])
            first = int(np.argmin(sizes[width:] - sizes[:-width]))
            runs[first : first + width] = [self._spilled(runs[first : first + width], spill)]
        return runs

    def _fitting_groups(self, runs: Sequence[OpenRun]) -> Iterator[list[OpenRun]]:
        """Groups of neighbours that fit in memory together; a run that is too large is alone."""
        group: list[OpenRun] = []
        most = left = self._memory.held_bytes // _HELD_TO_SORT
        for run in runs:
            if group and run.size_bytes > left:
                yield group
                group, left = [], most
            group.append(run)
            left -= run.size_bytes
        if group:
            yield group

    def _spilled(self, runs: Sequence[OpenRun], spill: Spill) -> OpenRun:
        """Merge neighbours into one run on disk, in pieces that fit its share of a window."""
        size, row_count = _size(runs), sum(run.row_count for run in runs)
        most_rows = max(1, self._memory.window_bytes * row_count // max(1, size) // self._most)
        heap = next(self._heaps)
        for pieces in self._windows(runs):
            rows = pa.concat_tables([piece for piece in pieces if piece is not None])
            rows, starts = in_order(rows, self._order)
            for first, last in pairwise(_cuts(starts, rows.num_rows, most_rows)):
                spill.put(heap, rows.slice(first, last - first))
        spill.finish(heap)
        return OpenRun(row_count, size, lambda _: spill.pieces(heap))

    def _windows(self, *sides: Sequence[OpenRun]) -> Iterator[list[pa.Table | None]]:
        with ExitStack() as reading:
            batches = []
            for runs in sides:
                for run, batch_rows in zip(runs, self._batch_rows(runs), strict=True):
                    batches.append(reading.enter_context(closing(run.read(batch_rows))))
            yield from key_windows(batches, self._order.keys)

    def _streaming(self, runs: Sequence[OpenRun]) -> int:
        return sum(batch_rows is not None for batch_rows in self._batch_rows(runs))

    def _batch_rows(self, runs: Sequence[OpenRun]) -> list[int | None]:
        """How many rows of each run to read at once; None holds its files as wholes.

        Small batches are slow. So the smallest runs are held while memory allows, and the others
        share the window.
        """
        if _size(runs) <= self._memory.window_bytes:
            return [None] * len(runs)
        held = set[int]()
        room = self._memory.held_bytes
        for number in sorted(range(len(runs)), key=lambda each: runs[each].size_bytes):
            room -= runs[number].size_bytes
            if room < 0:
                break
            held.add(number)
        streamed = [run for number, run in enumerate(runs) if number not in held]
        count = max(1, sum(run.row_count for run in streamed))
        budget = max(1, self._memory.window_bytes * count // max(1, _size(streamed)))
        # The least batch of a run, even beyond the budget.
        least = max(1, min(_MIN_BATCH_ROWS, budget // max(1, len(streamed))))
        # Runs advance together when each has its share of the rows in memory.
        return [
            None if number in held else max(least, run.row_count * budget // count)
            for number, run in enumerate(runs)
        ]


def _size(runs: Sequence[OpenRun]) -> int:
    return sum(run.size_bytes for run in runs)


def _cuts(starts: np.ndarray, row_count: int, most_rows: int) -> list[int]:
    """Positions that cut rows into pieces of about this size with whole keys, with both ends."""
    wanted = np.arange(0, row_count, most_rows)
    firsts = starts[np.searchsorted(starts, wanted, side="right") - 1]
    return [*np.unique(firsts).tolist(), row_count]
