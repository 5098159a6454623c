"""Copies parts of a buffer into an Arrow column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def sliced(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> pa.LargeBinaryArray:
    """The bytes of a buffer between some positions, copied; the positions may be in any order."""
    # Arrow copies every second value of an array in which the gaps and the values between them take
    # turns. A gap may have a negative length: Arrow looks at the first and the last offset only.
    bounds = np.empty(2 * len(begins) + 2, np.int64)
    bounds[0], bounds[-1] = 0, len(data)
    bounds[1:-1:2], bounds[2:-1:2] = begins, ends
    array = pa.Array.from_buffers(
        pa.large_binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return array.take(pa.array(np.arange(1, len(bounds) - 1, 2)))
