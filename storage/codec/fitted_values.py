"""Casts that tell values which do not fit their new type from those that do.

A value does not fit if it lies beyond the range or the length of the new type, or is no value of
it, as a text that is no number. It fits if the new type only holds fewer digits of it, or a part of
it: fractions become whole numbers, and timestamps become dates. `spec/cast_rules.py` says it for
each pair of types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_cast import as_lists, list_offsets, map_entries
from lakewright.storage.codec.evolved_values import evolved, is_same_type, parsed
from lakewright.storage.spec.cast_rules import cast_rule
from lakewright.storage.spec.data_types import INTEGER_BITS, STRING, AtomicType, TypeRoot
from lakewright.storage.spec.schema_change import ELEMENT, VALUE, path_text
from lakewright.storage.spec.schema_mapping import (
    ArrayMapping,
    CastValues,
    MapMapping,
    RowMapping,
    TypeMapping,
)

_Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

_BIGINT = AtomicType(TypeRoot.BIGINT)
# The seconds that a timestamp's milliseconds hold.
_MOST_SECONDS = ((1 << 63) - 1) // 1000
_MOST_SHOWN = 60


class MustNotBeNull(ValueError):
    """A value inside of a column does not fit, and its place must not be null."""


def fitted(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """Cast values as `evolved` does; a value that does not fit becomes null.

    Raises:
        pa.ArrowNotImplementedError: Java does not cast between these types.
    """
    if is_same_type(old, new) or array.null_count == len(array):
        return evolved(array, old, new)
    outside = _outside(array, old, new)
    if outside is not None and outside.any():
        array = pc.if_else(pa.array(outside), pa.scalar(None, array.type), array)
    return _one_by_one(array, old, new)


def fitted_part(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """As `fitted`, for values inside of a column: members of rows, elements, values of maps.

    Raises:
        MustNotBeNull: a value does not fit, and its place must not be null.
    """
    result = fitted(array, old, new)
    if not new.nullable and result.null_count > array.null_count:
        lost = array.filter(pc.and_(array.is_valid(), result.is_null()))
        raise MustNotBeNull(f"{shown_value(lost[0])}, which does not fit {new}")
    return result


def shown_value(value: pa.Scalar) -> str:
    """A value for a message, cut if it is long."""
    text = repr(value.as_py()) if not pa.types.is_decimal(value.type) else str(value.as_py())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _one_by_one(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """The values cast together, or in ever smaller parts around those that cannot be cast."""
    try:
        return evolved(array, old, new)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return evolved(pa.nulls(1, array.type), old, new)
        half = len(array) // 2
        parts = (array.slice(0, half), array.slice(half))
        return pa.concat_arrays([_one_by_one(part, old, new) for part in parts])


# --- which values do not fit ---------------------------------------------------------------------


def _outside(array: pa.Array, old: AtomicType, new: AtomicType) -> _Mask | None:
    """Marks values that `evolved` would change or refuse; nulls in its result need no mark."""
    if cast_rule(old, new).unfit is None:
        return None
    source, target = old.root, new.root
    if source.is_text and not (target.is_text or target.is_bytes):
        return np.array([text is not None and _is_no(text, new) for text in array.to_pylist()])
    if target.is_bytes:
        return _mask(pc.greater(pc.binary_length(array.cast(pa.binary())), new.length))
    if target.is_text:
        return _no_texts(array) if source.is_bytes else _too_long(array, old, new)
    if target.is_integer:
        return _out_of_range(array, old, new)
    if source.is_floating:
        return _infinite(array, old, new)
    if source is TypeRoot.BIGINT and target.is_timestamp:
        return _beyond(array, -_MOST_SECONDS, _MOST_SECONDS)
    return None


def _mask(marks: pa.Array) -> _Mask:
    """Marks as an array of booleans; what is null is not marked."""
    mask: _Mask = pc.fill_null(marks, False).to_numpy(zero_copy_only=False)
    return mask


def _beyond(array: pa.Array, low: int, high: int) -> _Mask:
    bounds = pa.scalar(low, array.type), pa.scalar(high, array.type)
    return _mask(pc.or_(pc.less(array, bounds[0]), pc.greater(array, bounds[1])))


def _out_of_range(array: pa.Array, old: AtomicType, new: AtomicType) -> _Mask:
    half = 1 << INTEGER_BITS[new.root] - 1
    if old.root.is_timestamp:
        return _beyond(evolved(array, old, _BIGINT), -half, half - 1)
    if old.root.is_floating:
        values = np.trunc(array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64))
        outside: _Mask = ~((values >= -float(half)) & (values < float(half)))
        return outside
    if old.root is TypeRoot.DECIMAL:
        values = [0 if value is None else int(value) for value in array.to_pylist()]
        return np.array([not -half <= value < half for value in values], dtype=bool)
    return _beyond(array, -half, half - 1)


def _infinite(array: pa.Array, old: AtomicType, new: AtomicType) -> _Mask:
    """Numbers that are no decimal, and those that only the wider type holds."""
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    if new.root is TypeRoot.DECIMAL:
        no_number: _Mask = ~np.isfinite(values)
        return no_number
    cast = evolved(array, old, new).fill_null(0).to_numpy(zero_copy_only=False)
    infinite: _Mask = np.isinf(cast) & ~np.isinf(values)
    return infinite


def _too_long(array: pa.Array, old: AtomicType, new: AtomicType) -> _Mask:
    """Texts that are longer than the type without the blanks at their end."""
    texts = pc.utf8_rtrim(evolved(array, old, STRING).cast(pa.string()), " ")
    return _mask(pc.greater(pc.utf8_length(texts), new.length))


def _no_texts(array: pa.Array) -> _Mask:
    try:
        array.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([value is not None and _is_no_text(value) for value in array.to_pylist()])
    return np.zeros(len(array), dtype=bool)


def _is_no_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return True
    return False


def _is_no(text: str, new: AtomicType) -> bool:
    """Whether a text is no value of a type, or of a number beyond its range."""
    try:
        value = parsed(text, new)
    except (ValueError, OverflowError):
        return True
    is_number = any(each.isdigit() for each in text)
    if new.root.is_floating:
        return is_number and bool(np.isinf(value))
    if new.root.is_timestamp and text.isascii() and text.isdigit() and new.precision == 0:
        return int(text) > _MOST_SECONDS
    return False


# --- which values were lost ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LostValues:
    """Stored values in one place of a column that are null as they are read.

    `rows` are the rows that hold them, one for each value.
    """

    path: str
    rows: np.ndarray
    values: pa.Array


def nulled_parts(
    held: pa.ChunkedArray, values: TypeMapping, found: pa.ChunkedArray, name: str
) -> Iterator[LostValues]:
    """The values of a column that its casts turned into nulls, place by place.

    `held` are the stored values, and `found` is what `map_column` made of them.
    """
    if not len(held) or (isinstance(values, CastValues) and held.null_count == found.null_count):
        return
    before, after = pa.concat_arrays(held.chunks), pa.concat_arrays(found.chunks)
    yield from _lost(before, values, after, np.arange(len(held)), (name,))


def _lost(
    before: pa.Array, values: TypeMapping, after: pa.Array, rows: np.ndarray, path: tuple[str, ...]
) -> Iterator[LostValues]:
    match values:
        case CastValues():
            lost = np.flatnonzero(_mask(pc.and_(before.is_valid(), after.is_null())))
            if len(lost):
                yield LostValues(path_text(path), rows[lost], before.take(pa.array(lost)))
        case RowMapping(members=members):
            stored = dict(zip((each.name for each in before.type), before.flatten(), strict=True))
            for member, part in zip(members, after.flatten(), strict=True):
                if member.stored is not None:
                    old, inner = stored[member.stored.name], (*path, member.field.name)
                    yield from _lost(old, member.values, part, rows, inner)
        case ArrayMapping(element=element):
            lists = as_lists(before)
            inside = np.repeat(rows, np.diff(list_offsets(lists).to_numpy()))
            parts = lists.flatten(), after.flatten()
            yield from _lost(parts[0], element, parts[1], inside, (*path, ELEMENT))
        case MapMapping(value=value):
            # A key is never null, so a key that does not fit fails the cast.
            inside = np.repeat(rows, np.diff(list_offsets(before).to_numpy()))
            items = map_entries(before)[1], map_entries(after)[1]
            yield from _lost(items[0], value, items[1], inside, (*path, VALUE))
