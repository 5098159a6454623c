"""Aggregate functions whose result is a value of one row: the choice of that row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.merge_engines.changes import Changes, Op
from lakewright.storage.lsm.merge_engines.ranks import order_numbers
from lakewright.storage.spec.merge_spec import AggregateFunction

# From the changes and the marks of non-null rows to a row position per key, -1 for null.
Pick = Callable[[Changes, np.ndarray], np.ndarray]


def pick_rows(function: AggregateFunction, column: pa.ChunkedArray, changes: Changes) -> np.ndarray:
    """The row that each key's value comes from, -1 where it is null."""
    if function in _ORDERED:
        return _extreme(column, changes, highest=_ORDERED[function])
    pick = _PICKS[function]
    if column.null_count:
        return pick(changes, column.is_valid().to_numpy())
    known = changes.picks_without_nulls
    if function not in known:
        known[function] = pick(changes, np.ones(len(column), dtype=bool))
    return known[function]


def _last_value(changes: Changes, valid: np.ndarray) -> np.ndarray:
    ops = changes.live
    last = changes.keys.last((ops != Op.SKIP) & (ops != Op.ADD_BEFORE))
    takes = (ops == Op.ADD) | (ops == Op.SET)
    return _null_unless(takes & valid, last)


def _last_non_null_value(changes: Changes, valid: np.ndarray) -> np.ndarray:
    keys, ops = changes.keys, changes.live
    takes_back = (ops == Op.RETRACT) & valid
    cleared = keys.last(takes_back | (ops == Op.SET) | (ops == Op.SET_AND_RETRACT))
    added = keys.last((ops == Op.ADD) & valid)
    kept = _null_unless((ops == Op.SET) & valid, cleared)
    picked = np.where(added > cleared, added, kept)
    before = (ops == Op.ADD_BEFORE) & valid
    if before.any():
        # A value added first counts only while there is no other value.
        earlier = keys.first(before & (keys.positions > keys.spread(cleared)))
        picked = np.where(picked < 0, earlier, picked)
    return picked


def _first_value(changes: Changes, valid: np.ndarray) -> np.ndarray:
    # Only the first added row counts; a row added at the front replaces it.
    keys, ops = changes.keys, changes.live
    adds = (ops == Op.ADD) | (ops == Op.ADD_BEFORE)
    was_added = (changes.ops == Op.ADD) | (changes.ops == Op.ADD_BEFORE)
    started = keys.any(was_added & (keys.positions < keys.spread(changes.sets)))
    first = np.where(started, -1, keys.first(adds))
    begins = first >= 0
    begins[begins] = ops[first[begins]] == Op.ADD
    picked = np.where(begins, first, changes.sets)
    before = (ops == Op.ADD_BEFORE) & (keys.positions != keys.spread(first))
    replaced = keys.last(before)
    return _null_unless(valid, np.where(replaced >= 0, replaced, picked))


def _first_non_null_value(changes: Changes, valid: np.ndarray) -> np.ndarray:
    keys, ops = changes.keys, changes.ops
    picked = keys.first((ops == Op.ADD) & valid)
    whole = keys.alone & (ops[keys.starts] == Op.SET)
    picked[whole] = keys.starts[whole]
    unusual = keys.any((ops == Op.ADD_BEFORE) | (ops == Op.SET)) & ~whole
    for key in np.flatnonzero(unusual).tolist():
        start = int(keys.starts[key])
        end = start + int(keys.sizes[key])
        picked[key] = _first_non_null_one_by_one(ops[start:end].tolist(), valid, start)
    return _null_unless(valid, picked)


def _first_non_null_one_by_one(ops: list[int], valid: np.ndarray, start: int) -> int:
    started, picked = False, -1
    for position, op in enumerate(ops, start):
        match op:
            case Op.SET:
                picked = position
            case Op.ADD if not started and valid[position]:
                started, picked = True, position
            case Op.ADD_BEFORE if not started and picked >= 0 and valid[picked]:
                started = True
            case Op.ADD_BEFORE:
                picked = position
    return picked


def _extreme(column: pa.ChunkedArray, changes: Changes, *, highest: bool) -> np.ndarray:
    keys, ops = changes.keys, changes.live
    numbers = order_numbers(column.combine_chunks())
    counts = ops != Op.SKIP
    if column.null_count:
        counts &= column.is_valid().to_numpy()
    limits = np.iinfo(np.int64)
    if highest:
        best = np.maximum.reduceat(np.where(counts, numbers, limits.min), keys.starts)
    else:
        best = np.minimum.reduceat(np.where(counts, numbers, limits.max), keys.starts)
    return keys.first(counts & (numbers == keys.spread(best)))


def _null_unless(kept: np.ndarray, picked: np.ndarray) -> np.ndarray:
    """The picks of kept rows, and -1 for the others; a pick of -1 stays."""
    result = picked.copy()
    found = picked >= 0
    result[found] = np.where(kept[picked[found]], picked[found], -1)
    return result


_ORDERED = {
    AggregateFunction.MAX: True,
    AggregateFunction.BOOL_OR: True,
    AggregateFunction.MIN: False,
    AggregateFunction.BOOL_AND: False,
}
_PICKS: dict[AggregateFunction, Pick] = {
    AggregateFunction.LAST_VALUE: _last_value,
    AggregateFunction.LAST_NON_NULL_VALUE: _last_non_null_value,
    AggregateFunction.FIRST_VALUE: _first_value,
    AggregateFunction.FIRST_NON_NULL_VALUE: _first_non_null_value,
}
PICKING = frozenset([*_PICKS, *_ORDERED])
