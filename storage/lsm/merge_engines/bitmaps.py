"""`rbm32`: the union of each key's bitmaps, in the standard form of Roaring bitmaps."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lakewright.storage.lsm.merge_engines.changes import Changes, Op


class NoBitmap(Exception):
    """A value is not a bitmap."""


def unite_bitmaps(column: pa.ChunkedArray, changes: Changes) -> pa.Array:
    """Each key's bitmaps united; null without any, and a single one as it is.

    Raises:
        NoBitmap: as said.
    """
    array = column.combine_chunks()
    keys, ops = changes.keys, changes.ops
    result = array.take(pa.array(keys.starts))
    several = ~(keys.alone & (ops[keys.starts] == Op.SET))
    if not several.any():
        return result
    united = [_united(array, changes, key) for key in np.flatnonzero(several).tolist()]
    return pc.replace_with_mask(result, pa.array(several), pa.array(united, array.type))


def _united(array: pa.Array, changes: Changes, key: int) -> bytes | None:
    start, size = int(changes.keys.starts[key]), int(changes.keys.sizes[key])
    taken: list[bytes] = []
    ops = changes.live[start : start + size].tolist()
    for op, value in zip(ops, array.slice(start, size).to_pylist(), strict=True):
        if op == Op.SET:
            taken = []
        if op in (Op.SET, Op.ADD, Op.ADD_BEFORE) and value is not None:
            taken.append(value)
    if len(taken) < 2:
        return taken[0] if taken else None
    try:
        union = reduce(BitMap.union, map(BitMap.deserialize, taken))
    except ValueError as error:
        raise NoBitmap from error
    union.run_optimize()
    return bytes(union.serialize())
