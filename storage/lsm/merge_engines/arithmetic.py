"""Sums and products of each key's values, exact or an error.

Whole numbers and decimals are summed without rounding. Floating numbers are added one by one in the
order of the rows, as other clients of the format do, so that all clients read the same last digit.
"""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.merge_engines.changes import Changes, Keys, Op

# The widest decimal for which other clients keep sums in a 64-bit number and check no precision.
_COMPACT_PRECISION = 18
_EXACT = decimal.Context(prec=100)
# Keys with more rows are folded one by one, the others together.
_SIDE_BY_SIDE_ROWS = 64
_LIMB_BITS = 32
_LIMB_MASK = (1 << _LIMB_BITS) - 1


class DoesNotFit(Exception):
    """A result does not exist or is outside of the column's type; `key` is the key's number."""

    def __init__(self, key: int) -> None:
        super().__init__(key)
        self.key = key


def sum_values(column: pa.ChunkedArray, changes: Changes, *, wraps: bool = False) -> pa.Array:
    """The sum of each key's values, less the retracted ones; null without any value.

    A decimal of more than 18 digits becomes null when a partial sum has more digits than the
    column; the next value begins a new sum. Whole numbers wrap around if they may.

    Raises:
        DoesNotFit: another sum is outside of the column's type.
    """
    array = column.combine_chunks()
    counts = _counting(array, changes)
    if pa.types.is_floating(array.type):
        return _sum_floats(array, changes, counts)
    if pa.types.is_decimal(array.type):
        return _sum_decimals(array, changes, counts)
    return _sum_integers(array, changes, counts, wraps=wraps)


def multiply_values(column: pa.ChunkedArray, changes: Changes, *, wraps: bool = False) -> pa.Array:
    """The product of each key's values, divided by those retracted; null without any value.

    Whole numbers wrap around at each step if they may.

    Raises:
        DoesNotFit: a product is outside of the column's type, or a quotient does not exist.
    """
    array = column.combine_chunks()
    counts = _counting(array, changes)
    keys = changes.keys
    divides = (changes.live == Op.RETRACT) | (changes.live == Op.SET_AND_RETRACT)
    by_rows = keys.any(divides & counts)
    if pa.types.is_decimal(array.type):
        return _multiply_decimals(array, changes, counts)
    values = _filled(array, counts, 1)
    if pa.types.is_floating(array.type):
        products = _fold(np.multiply, values, keys, counts)
    else:
        products, too_big = _multiply_integers(values, keys, array.type.bit_width)
        by_rows |= too_big
    whole = array.type.bit_width if pa.types.is_integer(array.type) else 0
    present = keys.any(counts)
    for key in np.flatnonzero(by_rows).tolist():
        product = _multiply_one_by_one(values, changes, counts, key, wraps=wraps)
        if whole and product is not None and not _fits(int(product), whole):
            raise DoesNotFit(key)
        present[key] = product is not None
        products[key] = 0 if product is None else product
    return pa.array(products, type=array.type, mask=~present)


# --- sums ------------------------------------------------------------------------------------


def _sum_integers(
    array: pa.Array, changes: Changes, counts: np.ndarray, *, wraps: bool
) -> pa.Array:
    starts = changes.keys.starts
    values = _filled(array, counts, 0).astype(np.int64)
    signs = _SIGNS[changes.live]
    # Two halves of 32 bits cannot overflow before there are 2^31 rows.
    low = np.add.reduceat((values & _LIMB_MASK) * signs, starts)
    high = np.add.reduceat((values >> _LIMB_BITS) * signs, starts) + (low >> _LIMB_BITS)
    fits = (high >= -(1 << 31)) & (high < 1 << 31)
    sums = (high << _LIMB_BITS) | (low & _LIMB_MASK)
    limits = np.iinfo(array.type.to_pandas_dtype())
    fits &= (sums >= limits.min) & (sums <= limits.max)
    if not fits.all() and not wraps:
        raise DoesNotFit(int(np.argmin(fits)))
    present = changes.keys.any(counts)
    return pa.array(sums.astype(limits.dtype), type=array.type, mask=~present)


def _sum_floats(array: pa.Array, changes: Changes, counts: np.ndarray) -> pa.Array:
    values = _filled(array, counts, 0)
    ops = changes.live
    values = np.where(ops == Op.RETRACT, -values, values)
    with np.errstate(invalid="ignore"):
        values = np.where(ops == Op.SET_AND_RETRACT, values - values, values)
    sums = _fold(np.add, values, changes.keys, counts)
    return pa.array(sums, type=array.type, mask=~changes.keys.any(counts))


def _sum_decimals(array: pa.Array, changes: Changes, counts: np.ndarray) -> pa.Array:
    keys, precision = changes.keys, array.type.precision
    limbs = _limbs(array)
    limbs[~counts] = 0
    signed = limbs * _SIGNS[changes.live][:, None]
    sums, fits = _carried(np.add.reduceat(signed, keys.starts, axis=0), precision)
    present = keys.any(counts)
    if precision <= _COMPACT_PRECISION:
        if not fits.all():
            raise DoesNotFit(int(np.argmin(fits)))
        return _from_limbs(sums, present, array.type)
    # If no partial sum can have too many digits, the final sum cannot either.
    sizes = np.abs(limbs @ (2.0 ** (_LIMB_BITS * np.arange(4))))
    near = np.add.reduceat(sizes, keys.starts) >= 10.0**precision * (1 - 1e-9)
    near &= ~keys.alone
    if not near.any():
        return _from_limbs(sums, present, array.type)
    totals = _from_limbs(np.where(near[:, None], 0, sums), present, array.type).to_pylist()
    for key in np.flatnonzero(near).tolist():
        totals[key] = _sum_one_by_one(array, changes, key)
    return pa.array(totals, array.type)


def _sum_one_by_one(array: pa.Array, changes: Changes, key: int) -> decimal.Decimal | None:
    limit = decimal.Decimal(10).scaleb(array.type.precision - array.type.scale - 1, _EXACT)
    total: decimal.Decimal | None = None
    for op, value in _rows_of(array, changes, key):
        if op == Op.SET_AND_RETRACT:
            total = _EXACT.subtract(value, value)
            continue
        signed = _EXACT.minus(value) if op == Op.RETRACT else value
        total = signed if total is None else _EXACT.add(total, signed)
        if total.copy_abs() >= limit:
            total = None
    return total


# --- products --------------------------------------------------------------------------------


def _multiply_integers(
    values: np.ndarray, keys: Keys, bit_width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Products, with marks on those that may have overflowed."""
    with np.errstate(all="ignore"):
        products = np.multiply.reduceat(values.astype(np.int64), keys.starts)
        sizes = np.maximum(np.abs(values.astype(np.float64)), 1)
        sizes = np.multiply.reduceat(sizes, keys.starts)
    # Doubles round, so this is well below the limit.
    too_big = (sizes >= 2.0 ** (bit_width - 2)) & ~keys.alone
    dtype = np.dtype(f"int{bit_width}")
    return products.astype(dtype), too_big


def _multiply_one_by_one(
    values: np.ndarray, changes: Changes, counts: np.ndarray, key: int, *, wraps: bool
) -> Any:
    start = int(changes.keys.starts[key])
    integers = values.dtype.kind == "i"
    product: Any = None
    for position in range(start, start + int(changes.keys.sizes[key])):
        if not counts[position]:
            continue
        op = changes.live[position]
        value: Any = int(values[position]) if integers else values[position]
        if op == Op.SET_AND_RETRACT:
            product = _divided(value, value, key, integers=integers)
        elif op == Op.RETRACT:
            product = None if product is None else _divided(product, value, key, integers=integers)
        else:
            with np.errstate(all="ignore"):
                product = value if product is None else product * value
        if integers and wraps and product is not None:
            product = _wrapped(product, values.dtype.itemsize * 8)
    return product


def _wrapped(value: int, bit_width: int) -> int:
    half = 1 << (bit_width - 1)
    return (value + half) % (2 * half) - half


def _divided(left: Any, right: Any, key: int, *, integers: bool) -> Any:
    if not integers:
        with np.errstate(all="ignore"):
            return left / right
    if right == 0:
        raise DoesNotFit(key)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _multiply_decimals(array: pa.Array, changes: Changes, counts: np.ndarray) -> pa.Array:
    keys = changes.keys
    products = array.take(pa.array(keys.starts)).to_pylist()
    present = keys.any(counts)
    for key in np.flatnonzero(~keys.alone).tolist():
        products[key] = _multiply_decimals_of(array, changes, key) if present[key] else None
    return pa.array(products, array.type)


def _multiply_decimals_of(array: pa.Array, changes: Changes, key: int) -> decimal.Decimal | None:
    unit = decimal.Decimal(1).scaleb(-array.type.scale)
    limit = decimal.Decimal(10).scaleb(array.type.precision - array.type.scale - 1, _EXACT)
    product: decimal.Decimal | None = None
    for op, value in _rows_of(array, changes, key):
        if op == Op.SET_AND_RETRACT:
            product = _exact_quotient(value, value, key)
        elif op == Op.RETRACT:
            product = None if product is None else _exact_quotient(product, value, key)
        else:
            product = value if product is None else _EXACT.multiply(product, value)
        if product is not None:
            product = product.quantize(unit, decimal.ROUND_HALF_UP, context=_EXACT)
            if product.copy_abs() >= limit:
                product = None
    return product


def _exact_quotient(left: decimal.Decimal, right: decimal.Decimal, key: int) -> decimal.Decimal:
    context = _EXACT.copy()
    context.traps[decimal.Inexact] = True
    try:
        return context.divide(left, right)
    except (decimal.Inexact, ZeroDivisionError, decimal.InvalidOperation):
        raise DoesNotFit(key) from None


# --- both ------------------------------------------------------------------------------------

# The sign of a row in the sum, by the number of its op.
_SIGNS = np.zeros(len(Op), dtype=np.int64)
_SIGNS[[Op.ADD, Op.ADD_BEFORE, Op.SET]] = 1
_SIGNS[Op.RETRACT] = -1


def _counting(array: pa.Array, changes: Changes) -> np.ndarray:
    counts: np.ndarray = changes.live != Op.SKIP
    if array.null_count:
        counts = counts & array.is_valid().to_numpy(zero_copy_only=False)
    return counts


def _filled(array: pa.Array, counts: np.ndarray, neutral: int) -> np.ndarray:
    filled = array.fill_null(neutral) if array.null_count else array
    values = filled.to_numpy(zero_copy_only=False)
    result: np.ndarray = np.where(counts, values, values.dtype.type(neutral))
    return result


def _fold(ufunc: np.ufunc, values: np.ndarray, keys: Keys, counts: np.ndarray) -> np.ndarray:
    """Each key's live values joined from the first to the last, with rounding at every step."""
    sizes = np.add.reduceat(counts.astype(np.int64), keys.starts)
    values = values[counts]
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(-sizes, kind="stable")
    ordered_sizes, ordered_starts = sizes[order], starts[order]
    folded = np.zeros(len(keys), dtype=values.dtype)
    some = int(np.searchsorted(-ordered_sizes, 0))
    folded[order[:some]] = values[ordered_starts[:some]]
    with np.errstate(all="ignore"):
        long = int(np.searchsorted(-ordered_sizes, -_SIDE_BY_SIDE_ROWS))
        for index in range(long):
            start = ordered_starts[index]
            stretch = values[start : start + ordered_sizes[index]]
            folded[order[index]] = ufunc.accumulate(stretch)[-1]
        for step in range(1, _SIDE_BY_SIDE_ROWS):
            active = int(np.searchsorted(-ordered_sizes, -step))
            if active <= long:
                break
            at = order[long:active]
            folded[at] = ufunc(folded[at], values[ordered_starts[long:active] + step])
    return folded


def _rows_of(array: pa.Array, changes: Changes, key: int) -> list[tuple[int, decimal.Decimal]]:
    start, size = int(changes.keys.starts[key]), int(changes.keys.sizes[key])
    ops = changes.live[start : start + size].tolist()
    values = array.slice(start, size).to_pylist()
    return [
        (op, value)
        for op, value in zip(ops, values, strict=True)
        if op != Op.SKIP and value is not None
    ]


def _fits(value: int, bit_width: int) -> bool:
    return -(1 << (bit_width - 1)) <= value < 1 << (bit_width - 1)


def _limbs(array: pa.Array) -> np.ndarray:
    """Decimals as four 32-bit parts, the least first; the last has the sign."""
    raw = np.frombuffer(array.buffers()[1], dtype=np.uint32)
    raw = raw[array.offset * 4 : (array.offset + len(array)) * 4].reshape(-1, 4)
    limbs = raw.astype(np.int64)
    limbs[:, 3] = raw[:, 3].view(np.int32)
    return limbs


def _carried(limbs: np.ndarray, precision: int) -> tuple[np.ndarray, np.ndarray]:
    """Parts normalised to 32 bits, with marks on numbers of at most `precision` digits."""
    limbs = limbs.copy()
    for part in range(3):
        limbs[:, part + 1] += limbs[:, part] >> _LIMB_BITS
        limbs[:, part] &= _LIMB_MASK
    low = limbs[:, 0].astype(np.uint64) | (limbs[:, 1].astype(np.uint64) << np.uint64(_LIMB_BITS))
    fits = (limbs[:, 3] >= -(1 << 31)) & (limbs[:, 3] < 1 << 31)
    high = np.where(fits, limbs[:, 3] << _LIMB_BITS, 0) | limbs[:, 2]
    fits &= _less(high, low, 10**precision) & ~_less(high, low, 1 - 10**precision)
    return limbs, fits


def _less(high: np.ndarray, low: np.ndarray, bound: int) -> np.ndarray:
    bound_high, bound_low = np.int64(bound >> 64), np.uint64(bound & (2**64 - 1))
    less: np.ndarray = (high < bound_high) | ((high == bound_high) & (low < bound_low))
    return less


def _from_limbs(limbs: np.ndarray, present: np.ndarray, kind: pa.DataType) -> pa.Array:
    words = (limbs & _LIMB_MASK).astype(np.uint32)
    validity = pa.array(present).buffers()[1]
    return pa.Array.from_buffers(kind, len(words), [validity, pa.py_buffer(words.tobytes())])
