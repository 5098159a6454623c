"""Removes the blanks that ORC appends to CHAR values.

Java's reader strips all trailing blanks of a CHAR, at any depth, so they are not part of the value.
Statistics and key ranges of such files are of the values with their blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_cast import list_offsets, map_entries, nulls_of
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TypeRoot,
)
from lakewright.storage.spec.predicate import Bounds

_BELOW_BLANK = re.compile("[\x00-\x1f]")


def is_char(data_type: DataType) -> bool:
    """Whether values of the type are CHAR."""
    return isinstance(data_type, AtomicType) and data_type.root is TypeRoot.CHAR


def bounds_without_blanks(
    bounds: Mapping[str, Bounds], fields: Iterable[DataField]
) -> dict[str, Bounds]:
    """Bounds of an ORC file's columns, by its own names, that hold the values without blanks.

    An upper bound holds them as it is: without its blanks a value is not greater.
    """
    found = dict(bounds)
    for name in (field.name for field in fields if is_char(field.type)):
        known = found.get(name)
        if known is not None and isinstance(known.minimum, str):
            found[name] = replace(known, minimum=lower_without_blanks(known.minimum))
    return found


def lower_without_blanks(minimum: str) -> str:
    """A text that no text from `minimum` on is below once it is without its blanks.

    Of a tab behind blanks a text without them is below: a character below a blank says nothing,
    and nor does what follows it.
    """
    return _BELOW_BLANK.split(minimum, maxsplit=1)[0].rstrip(" ")


def holds_char(data_type: DataType) -> bool:
    """Whether values of the type are CHAR or have a part that is."""
    match data_type:
        case OpaqueType():
            return False
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
