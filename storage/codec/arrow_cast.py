"""Columns in other types, with nothing lost: what a file has, as the table declares it.

Arrow's own cast refuses a struct whose member must not be null if the struct itself is null
somewhere, since then its member is null there too. Here only what is there counts.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def cast_column(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """The column in another type.

    Raises:
        pa.ArrowInvalid, pa.ArrowNotImplementedError: a value does not fit, or the types are of
            different kinds.
    """
    if column.type.equals(target):
        return column
    if not pa.types.is_nested(target):
        return column.cast(target)
    return pa.chunked_array([_rebuilt(chunk, target) for chunk in column.chunks], target)


def compact_column(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """The column in another type, with nothing stored besides what it holds.

    Its arrays are no slices, and in what is null everything is null. There are libraries that
    look at what is stored without asking whether it counts.

    Raises:
        pa.ArrowInvalid, pa.ArrowNotImplementedError: as `cast_column`.
    """
    if not pa.types.is_nested(target):
        return column.cast(target)
    chunks = [chunk.take(pa.array(np.arange(len(chunk)))) for chunk in column.chunks]
    return pa.chunked_array([_rebuilt(chunk, target) for chunk in chunks], target)


def _rebuilt(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if pa.types.is_struct(source) and pa.types.is_struct(target) and _named_alike(source, target):
        # Flattened, a member is null wherever the struct is.
        members = zip(array.flatten(), target, strict=True)
        rebuilt = [_rebuilt(member, field.type) for member, field in members]
        return pa.StructArray.from_arrays(rebuilt, fields=list(target), mask=array.is_null())
    if pa.types.is_map(source) and pa.types.is_map(target):
        present = array.filter(array.is_valid())
        # Keys and items are those of the whole underlying array, whatever slice this is.
        first = present.offsets[0].as_py()
        count = present.offsets[len(present)].as_py() - first
        keys = _rebuilt(present.keys.slice(first, count), target.key_type)
        items = _rebuilt(present.items.slice(first, count), target.item_type)
        offsets, mask = _offsets(array), array.is_null()
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)
    if pa.types.is_list(source) and pa.types.is_list(target):
        values = _rebuilt(array.flatten(), target.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=target, mask=array.is_null())
    return array.cast(target)


def _named_alike(source: pa.StructType, target: pa.StructType) -> bool:
    return [field.name for field in source] == [field.name for field in target]


def _offsets(array: pa.Array) -> pa.Array:
    """Where each list would begin if the null ones and those outside of a slice held nothing."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(valid, np.diff(array.offsets.to_numpy()), 0)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
