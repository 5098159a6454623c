"""Columns of data files as columns that are read: members of rows taken by field id.

1. Rows are rebuilt member by member, by the mapping; lists and maps keep their lengths.
2. Atomic values are cast twice: to the type in the file's schema, since formats store some types as
   others, then to the type that is read.
3. The result is checked for nulls where the type that is read allows none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from lakewright.storage.codec.arrow_cast import (
    as_lists,
    cast_column,
    list_offsets,
    map_entries,
    nulls_of,
)
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.evolved_values import evolved
from lakewright.storage.spec.data_types import AtomicType, DataField
from lakewright.storage.spec.schema_mapping import (
    ArrayMapping,
    CastValues,
    MapMapping,
    NoValues,
    RowMapping,
    SameValues,
    TypeMapping,
)

# Converts values of one atomic type to another, both in their Arrow types.
LeafCast: TypeAlias = Callable[[pa.Array, AtomicType, AtomicType], pa.Array]


def map_column(
    column: pa.ChunkedArray, values: TypeMapping, cast: LeafCast = evolved
) -> pa.ChunkedArray:
    """Map a column of a file to the type that is read; `cast` converts atomic values.

    Raises:
        pa.ArrowKeyError: rows in the file lack a member that its schema has.
        pa.ArrowInvalid, pa.ArrowNotImplementedError: a value does not fit the type that is read,
            or is null where it must not be, or the types are of different kinds.
    """
    target = to_arrow_type(values.read)
    if isinstance(values, SameValues):
        return cast_column(column, target)
    loose = _nullable(target)
    mapped = [_mapped(chunk, values, loose, cast) for chunk in column.chunks]
    return cast_column(pa.chunked_array(mapped, loose), target)


def _mapped(array: pa.Array, values: TypeMapping, target: pa.DataType, cast: LeafCast) -> pa.Array:
    """The array as `target`, whose parts except map keys are nullable."""
    source = array.type
    match values:
        case NoValues():
            return pa.nulls(len(array), target)
        case RowMapping() if pa.types.is_struct(source):
            return _mapped_rows(array, values, target, cast)
        case ArrayMapping() if _is_list(source):
            lists = as_lists(array)
            elements = _mapped(lists.flatten(), values.element, target.value_type, cast)
            return pa.ListArray.from_arrays(
                list_offsets(lists), elements, type=target, mask=nulls_of(lists)
            )
        case MapMapping() if pa.types.is_map(source):
            keys, items = map_entries(array)
            return pa.MapArray.from_arrays(
                list_offsets(array),
                _mapped(keys, values.key, target.key_type, _never_null(cast)),
                _mapped(items, values.value, target.item_type, cast),
                type=target,
                mask=nulls_of(array),
            )
        case CastValues(stored=stored, read=read):
            held = _cast(array, _as_far(array.type, _nullable(to_arrow_type(stored))))
            if isinstance(stored, AtomicType) and isinstance(read, AtomicType):
                return cast(held, stored, read)
            return _cast(held, target)
    return _cast(array, target)


def _mapped_rows(
    array: pa.Array, values: RowMapping, target: pa.StructType, cast: LeafCast
) -> pa.Array:
    # `flatten` makes a member null wherever its row is null.
    held = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    members = [
        pa.nulls(len(array), field.type)
        if member.stored is None
        else _mapped(_member(held, member.stored), member.values, field.type, cast)
        for member, field in zip(values.members, target, strict=True)
    ]
    if not members:
        # A struct array without members would lose its length.
        validity = array.is_valid().buffers()[1]
        return pa.Array.from_buffers(target, len(array), [validity], array.null_count)
    return pa.StructArray.from_arrays(members, fields=list(target), mask=nulls_of(array))


def _member(held: dict[str, pa.Array], stored: DataField) -> pa.Array:
    if stored.name not in held:
        raise pa.ArrowKeyError(
            f"rows of {', '.join(held)} lack the member {stored.name!r} that their schema has"
        )
    return held[stored.name]


def _never_null(cast: LeafCast) -> LeafCast:
    """The cast for keys of maps, which are never null, whatever their type says."""
    return lambda array, stored, read: cast(array, stored, replace(read, nullable=False))


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type.equals(target):
        return array
    return cast_column(pa.chunked_array([array]), target).combine_chunks()


def _as_far(held: pa.DataType, stored: pa.DataType) -> pa.DataType:
    """The type of stored values; microseconds are kept, since nanoseconds do not reach them all."""
    is_far = pa.types.is_timestamp(held) and pa.types.is_timestamp(stored) and held.unit == "us"
    return pa.timestamp("us", stored.tz) if is_far and stored.unit == "ns" else stored


def _nullable(kind: pa.DataType) -> pa.DataType:
    """The type with nulls allowed everywhere but in keys."""
    if pa.types.is_struct(kind):
        return pa.struct([_nullable_field(field) for field in kind])
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(_nullable(kind.key_type))
        return pa.map_(key, _nullable_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_nullable_field(kind.value_field))
    return kind


def _nullable_field(field: pa.Field) -> pa.Field:
    return field.with_type(_nullable(field.type)).with_nullable(True)


# --- arrays and their parts -------------------------------------------------------------------


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
