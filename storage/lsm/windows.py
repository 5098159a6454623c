"""Windows: sorted runs read side by side, one key range at a time, in bounded memory.

A window holds from every run exactly the rows up to a common key, so all rows of a key
are in one window. The bound is the least of the last keys that the runs have in memory:
beyond it, some run may hold rows that are not read yet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakewright.storage.spec.values import order_key


def key_windows(
    runs: Sequence[Iterable[pa.Table]], keys: Sequence[str]
) -> Iterator[list[pa.Table]]:
    """Pieces of each run, window by window in key order; runs keep their places.

    The rows of a run come batch by batch, in key order, each key once; memory holds
    up to one and a half batches of each. Batches should cover like ranges of keys,
    since the shortest range bounds the window.
    """
    cursors = [_RunCursor(iter(run), keys) for run in runs]
    while True:
        filled = [cursor.fill() for cursor in cursors]
        if not any(filled):
            return
        bounds = [cursor.last_key for cursor in cursors if not cursor.exhausted]
        bound = min(bounds, default=None)
        yield [cursor.take_through(bound) for cursor in cursors]


class _RunCursor:
    """A run being read, with its rows that no window has taken."""

    def __init__(self, batches: Iterator[pa.Table], keys: Sequence[str]) -> None:
        self._batches = batches
        self._keys = keys
        self._rows: pa.Table | None = None
        self._batch_rows = 0
        self.exhausted = False
        self.last_key: tuple[Any, ...] = ()

    @property
    def _left(self) -> int:
        return 0 if self._rows is None else int(self._rows.num_rows)

    def fill(self) -> bool:
        """Load at least half a batch, if the run has that many rows; False if it has none."""
        while not self.exhausted and self._left * 2 <= self._batch_rows:
            following = next(self._batches, None)
            if following is None:
                self.exhausted = True
                break
            self._batch_rows = following.num_rows
            parts = [following] if self._rows is None else [self._rows, following]
            self._rows = pa.concat_tables(parts)
            if following.num_rows:
                self.last_key = self._key_at(self._rows.num_rows - 1)
        return self._left > 0

    def take_through(self, bound: tuple[Any, ...] | None) -> pa.Table | None:
        """Take the rows up to and including the bound, or all; None from an empty run."""
        rows = self._rows
        if rows is None:
            return None
        if bound is None or rows.num_rows == 0 or self.last_key <= bound:
            self._rows = rows.slice(rows.num_rows)
            return rows
        count = bisect_right(range(rows.num_rows), bound, key=self._key_at)
        self._rows = rows.slice(count)
        return rows.slice(0, count)

    def _key_at(self, index: int) -> tuple[Any, ...]:
        assert self._rows is not None
        return tuple(_comparable(self._rows.column(name)[index]) for name in self._keys)


def _comparable(scalar: Any) -> Any:
    """A key's value in a form that Python orders, nulls first; times as their stored numbers."""
    if pa.types.is_temporal(scalar.type):
        return (scalar.is_valid, scalar.value)
    return (scalar.is_valid, order_key(scalar.as_py()))
