"""Positions of rows in their data file: of those that stay, and as columns beside the rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.merge import ORIGIN, POSITION


def placed_rows(rows: pa.Table, origin: int, start: int, positions: np.ndarray | None) -> pa.Table:
    """The rows with the file and the position that each has; the first row is at `start`."""
    if positions is None:
        positions = np.arange(start, start + rows.num_rows, dtype=np.int64)
    origins = pa.array(np.full(rows.num_rows, origin, dtype=np.int32))
    return rows.append_column(ORIGIN, origins).append_column(POSITION, pa.array(positions))


def kept_positions(count: int, gone: np.ndarray | None, start: int) -> np.ndarray | None:
    """The positions of rows that are not deleted; None if all remain. The first is at `start`."""
    if gone is None:
        return None
    low, high = np.searchsorted(gone, [start, start + count])
    if low == high:
        return None
    kept = np.ones(count, dtype=bool)
    kept[gone[low:high] - start] = False
    return np.flatnonzero(kept) + start
