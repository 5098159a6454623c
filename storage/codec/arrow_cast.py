"""Casts of Arrow columns, nested ones too, that refuse to lose a value.

Arrow's own cast refuses a struct whose member must not be null if the struct itself is null
somewhere, since files mark the member as null there too. These casts ignore what lies inside of a
null, and return arrays that Arrow accepts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Casts an array that is not nested to another type.
Cast = Callable[[pa.Array, pa.DataType], pa.Array]


def _whole(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target)


def in_micros(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast an array; nanoseconds may be cut to microseconds."""
    fine = pa.types.is_timestamp(array.type) and array.type.unit == "ns"
    if not fine or not pa.types.is_timestamp(target) or target.unit != "us":
        return array.cast(target)
    nanos = array.cast(pa.int64())
    # Integer division rounds towards zero, which is the wrong direction before 1970.
    micros = pc.divide(nanos, 1000)
    early = pc.less(pc.subtract(nanos, pc.multiply(micros, 1000)), 0)
    return pc.subtract(micros, early.cast(pa.int64())).cast(target)


def cast_column(
    column: pa.ChunkedArray, target: pa.DataType, cast: Cast = _whole
) -> pa.ChunkedArray:
    """The column in another type; `cast` converts the values that are not nested.

    Raises:
        pa.ArrowInvalid, pa.ArrowNotImplementedError: a value does not fit, or the types are of
            different kinds.
    """
    if column.type.equals(target):
        return column
    if not pa.types.is_nested(target) and cast is _whole:
        return column.cast(target)
    return pa.chunked_array([_rebuilt(chunk, target, cast) for chunk in column.chunks], target)


def map_leaves(column: pa.ChunkedArray, target: pa.DataType, leaf: Cast) -> pa.ChunkedArray:
    """The column with `leaf` applied to what is not nested, which gives the types of `target`.

    All lists of the target are plain ones (`plain_lists`).
    """

    def part(array: pa.Array, kind: pa.DataType) -> pa.Array:
        is_other_list = pa.types.is_nested(array.type)
        return _rebuilt(as_lists(array), kind, part) if is_other_list else leaf(array, kind)

    return pa.chunked_array([_rebuilt(chunk, target, part) for chunk in column.chunks], target)


def plain_lists(kind: pa.DataType) -> pa.DataType:
    """The type with plain lists in place of others."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_lists(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(plain_lists(kind.key_type))
        return pa.map_(key, kind.item_field.with_type(plain_lists(kind.item_type)))
    if hasattr(kind, "value_field"):
        return pa.list_(kind.value_field.with_type(plain_lists(kind.value_type)))
    return kind


def compact_column(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """The column in another type, in arrays without slices and without values below a null.

    Some libraries read an array's buffers without regard to offsets and validity.

    Raises:
        pa.ArrowInvalid, pa.ArrowNotImplementedError: as `cast_column`.
    """
    if not pa.types.is_nested(target):
        return column.cast(target)
    chunks = [chunk.take(pa.array(np.arange(len(chunk)))) for chunk in column.chunks]
    return pa.chunked_array([_rebuilt(chunk, target, _whole) for chunk in chunks], target)


def _rebuilt(
    array: pa.Array,
    target: pa.DataType,
    cast: Cast,
    *,
    nullable: bool = True,
    nulls_around: int = 0,
) -> pa.Array:
    """The array as `target`; without `nullable` it may be null only where its parent is null."""
    if not nullable and array.null_count > nulls_around:
        raise pa.ArrowInvalid(f"null where {target} must not be null")
    source = array.type
    mask = array.is_null() if nullable else None
    if pa.types.is_struct(source) and pa.types.is_struct(target) and _named_alike(source, target):
        # Flattened, a member is null wherever the struct is.
        members = [
            _rebuilt(
                member, field.type, cast, nullable=field.nullable, nulls_around=array.null_count
            )
            for member, field in zip(array.flatten(), target, strict=True)
        ]
        return pa.StructArray.from_arrays(members, fields=list(target), mask=mask)
    if pa.types.is_map(source) and pa.types.is_map(target):
        held_keys, held_items = map_entries(array)
        keys = _rebuilt(held_keys, target.key_type, cast)
        items = _inside(held_items, target.item_field, cast)
        return pa.MapArray.from_arrays(list_offsets(array), keys, items, type=target, mask=mask)
    if pa.types.is_list(source) and pa.types.is_list(target):
        values = _inside(array.flatten(), target.value_field, cast)
        return pa.ListArray.from_arrays(list_offsets(array), values, type=target, mask=mask)
    result = cast(array, target)
    return result if nullable or not result.null_count else _as_if_valid(result)


def _inside(values: pa.Array, field: pa.Field, cast: Cast) -> pa.Array:
    return _rebuilt(values, field.type, cast, nullable=field.nullable)


def _as_if_valid(array: pa.Array) -> pa.Array:
    """The same array without its nulls, which readers do not see, since their parents are null."""
    if pa.types.is_time(array.type) or pa.types.is_decimal(array.type):
        # Libraries leave any bytes below a null, and Arrow checks the range of these types.
        zero = dt.time() if pa.types.is_time(array.type) else Decimal(0)
        return array.fill_null(pa.scalar(zero, array.type))
    buffers = [None, *array.buffers()[1:]]
    return pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset)


def _named_alike(source: pa.StructType, target: pa.StructType) -> bool:
    return [field.name for field in source] == [field.name for field in target]


def map_entries(array: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """The keys and items of the maps that are not null."""
    present = array.filter(array.is_valid()) if array.null_count else array
    # Keys and items are those of the whole underlying array, whatever slice this is.
    first = present.offsets[0].as_py()
    count = present.offsets[len(present)].as_py() - first
    return present.keys.slice(first, count), present.items.slice(first, count)


def list_offsets(array: pa.Array) -> pa.Array:
    """Where each list would begin if the null ones and those outside of a slice held nothing."""
    lengths = np.diff(array.offsets.to_numpy())
    if array.null_count:
        lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def nulls_of(array: pa.Array) -> pa.Array | None:
    """Which of the lists, maps or rows are null, where there are any."""
    return array.is_null() if array.null_count else None


def as_lists(array: pa.Array) -> pa.ListArray:
    """The array as a plain list: other writers' Parquet files decode to other list types."""
    return array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_field))
