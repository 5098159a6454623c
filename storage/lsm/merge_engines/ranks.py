"""Columns as whole numbers with the same order, or the same equality."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def order_numbers(column: pa.Array, *, signed_zeros: bool = True) -> np.ndarray:
    """Numbers with the order of a primitive column's values; the numbers of nulls are arbitrary.

    NaN is above all numbers. Without signed zeros, -0.0 equals 0.0.
    """
    if pa.types.is_floating(column.type):
        return _float_bits(column, signed_zeros=signed_zeros)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_temporal(column.type):
        column = column.cast(pa.int64() if column.type.bit_width == 64 else pa.int32())
    elif not pa.types.is_integer(column.type):
        ranked = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
        return _numbers(ranked, np.int64)
    return _numbers(column, np.int64)


def sequence_ranks(columns: Sequence[pa.Array]) -> np.ndarray:
    """One number per row with the order of the columns from left to right, nulls first.

    Rows with only nulls have 0, all others more.
    """
    nulls = [column.is_null().to_numpy(zero_copy_only=False) for column in columns]
    keys = []
    for column, null in zip(columns, nulls, strict=True):
        numbers = order_numbers(column, signed_zeros=False)
        keys += [~null, np.where(null, 0, numbers)]
    order = np.lexsort(keys[::-1])
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.cumsum(_differs_from_previous(keys, order)) + 1
    ranks[np.logical_and.reduce(nulls)] = 0
    return ranks


def equality_codes(column: pa.Array) -> np.ndarray:
    """Numbers that are equal for equal values of a column, also nested ones; nulls are equal."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _struct_codes(column)
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        return _list_codes(column, entries, ordered=False)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_codes(column, column.values, ordered=True)
    if pa.types.is_floating(kind):
        column = pa.array(_float_bits(column), mask=_nulls(column))
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return _numbers(encoded.indices, np.int64)


def _struct_codes(column: pa.StructArray) -> np.ndarray:
    codes = _nulls(column).astype(np.int64)
    for child in column.flatten():
        codes = _paired(codes, equality_codes(child))
    return codes


def _list_codes(column: pa.Array, values: pa.Array, *, ordered: bool) -> np.ndarray:
    inner = equality_codes(values).tolist()
    offsets = column.offsets.to_pylist()
    seen: dict[Hashable, int] = {}
    codes = np.empty(len(column), dtype=np.int64)
    for index, null in enumerate(_nulls(column).tolist()):
        parts = inner[offsets[index] : offsets[index + 1]]
        value = None if null else tuple(parts if ordered else sorted(parts))
        codes[index] = seen.setdefault(value, len(seen))
    return codes


def _paired(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if not len(left):
        return left
    _, codes = np.unique(left * (int(right.max()) + 1) + right, return_inverse=True)
    return codes.astype(np.int64)


def _float_bits(column: pa.Array, *, signed_zeros: bool = True) -> np.ndarray:
    # A float widened to a double keeps its value and order.
    values = _numbers(column, np.float64)
    values = np.where(np.isnan(values), np.nan, values)
    if not signed_zeros:
        values = values + 0.0
    raw = values.view(np.int64)
    bits: np.ndarray = np.where(raw < 0, raw ^ np.iinfo(np.int64).max, raw)
    return bits


def _numbers(column: pa.Array, dtype: type[np.generic]) -> np.ndarray:
    filled = column.fill_null(0) if column.null_count else column
    numbers: np.ndarray = filled.to_numpy(zero_copy_only=False).astype(dtype, copy=False)
    return numbers


def _nulls(column: pa.Array) -> np.ndarray:
    nulls: np.ndarray = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _differs_from_previous(keys: Sequence[np.ndarray], order: np.ndarray) -> np.ndarray:
    differs = np.zeros(len(order), dtype=bool)
    for key in keys:
        ordered = key[order]
        differs[1:] |= ordered[1:] != ordered[:-1]
    return differs
