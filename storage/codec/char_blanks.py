"""Removes the blanks that ORC appends to CHAR values.

Java's reader strips all trailing blanks of a CHAR, at any depth, so they are not part of the value.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_mapping import list_offsets, map_entries, nulls_of
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)


def holds_char(data_type: DataType) -> bool:
    """Whether values of the type are CHAR or have a part that is."""
    match data_type:
        case AtomicType(root=root):
            return root is TypeRoot.CHAR
        case ArrayType(element=element) | MultisetType(element=element):
            return holds_char(element)
        case MapType(key=key, value=value):
            return holds_char(key) or holds_char(value)
        case RowType(fields=fields):
            return any(holds_char(field.type) for field in fields)


def without_blanks(column: pa.ChunkedArray, data_type: DataType) -> pa.ChunkedArray:
    """A column of an ORC file with its CHAR values stripped; other values stay."""
    if not holds_char(data_type):
        return column
    trimmed = [_trimmed(chunk, data_type) for chunk in column.chunks]
    return pa.chunked_array(trimmed, column.type)


def _trimmed(array: pa.Array, data_type: DataType) -> pa.Array:
    if not holds_char(data_type):
        return array
    kind = array.type
    match data_type:
        case AtomicType() if pa.types.is_string(kind):
            return pc.utf8_rtrim(array, characters=" ")
        case ArrayType(element=element) if pa.types.is_list(kind):
            held = _trimmed(array.flatten(), element)
            return pa.ListArray.from_arrays(
                list_offsets(array), held, type=kind, mask=nulls_of(array)
            )
        case MapType(key=key, value=value) if pa.types.is_map(kind):
            return _trimmed_map(array, key, value)
        case MultisetType(element=element) if pa.types.is_map(kind):
            return _trimmed_map(array, element, None)
        case RowType(fields=fields) if pa.types.is_struct(kind):
            types = {field.name: field.type for field in fields}
            members = [
                _trimmed(member, types[field.name]) if field.name in types else member
                for field, member in zip(kind, array.flatten(), strict=True)
            ]
            return pa.StructArray.from_arrays(members, fields=list(kind), mask=nulls_of(array))
    return array


def _trimmed_map(array: pa.MapArray, key: DataType, value: DataType | None) -> pa.Array:
    keys, items = map_entries(array)
    return pa.MapArray.from_arrays(
        list_offsets(array),
        _trimmed(keys, key),
        items if value is None else _trimmed(items, value),
        type=array.type,
        mask=nulls_of(array),
    )
