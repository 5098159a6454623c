"""Proof that reading a column through a schema mapping keeps the file's values.

Every later check of a rewrite begins with the rows as read, and so would not notice members that
the mapping paired wrongly. This check compares the stored column with the column as read, member by
member, and shares no code with the mapping.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)


def mapping_difference(
    held: pa.ChunkedArray, stored: DataField, found: pa.ChunkedArray, read: DataField
) -> str | None:
    """The first place where the values as read differ from the stored ones, None without one.

    Of values whose atomic type changed, only nulls are compared, which a cast keeps. Of values that
    the file's format stores as another type, only the nulls are compared, too.
    """
    for before, after in _parts(held, found):
        difference = next(_differences(before, stored.type, after, read.type, read.name), None)
        if difference is not None:
            return difference
    return None


def _parts(held: pa.ChunkedArray, found: pa.ChunkedArray) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Both columns chunk by chunk if their chunks are equally long, else as one piece each."""
    before, after = ([part for part in each.chunks if len(part)] for each in (held, found))
    if [len(part) for part in before] == [len(part) for part in after]:
        yield from zip(before, after, strict=True)
    else:
        yield held.combine_chunks(), found.combine_chunks()


def _differences(
    before: pa.Array, stored: DataType, after: pa.Array, read: DataType, path: str
) -> Iterator[str]:
    if len(before) != len(after):
        yield f"{path} has {len(after)} values where the file has {len(before)}"
        return
    match stored, read:
        case AtomicType(), AtomicType():
            if replace(stored, nullable=read.nullable) != read:
                if pc.any(pc.and_(before.is_null(), after.is_valid())).as_py():
                    yield f"{path} has values where the file has none"
            elif not _equal(before, after):
                yield f"{path} has different values than in the file"
            return
        case RowType(fields=old_members), RowType(fields=members):
            held = _members_of(before, old_members)
            for member, values in zip(members, after.flatten(), strict=True):
                inner = f"{path}.{member.name}"
                if member.id not in held:
                    if values.null_count != len(values):
                        yield f"{inner} has values, and the file has no such member"
                    continue
                old, old_values = held[member.id]
                yield from _differences(old_values, old.type, values, member.type, inner)
        case ArrayType(element=old_element), ArrayType(element=element):
            inner = f"{path}[]"
            if not np.array_equal(_lengths(before), _lengths(after)):
                yield f"{inner} has different lengths than in the file"
                return
            values = before.flatten(), after.flatten()
            yield from _differences(values[0], old_element, values[1], element, inner)
        case (MapType() | MultisetType()) as old_map, (MapType() | MultisetType()) as new_map:
            yield from _differences_of_maps(before, old_map, after, new_map, path)
        case _:
            return
    if not before.is_valid().equals(after.is_valid()):
        yield f"{path} is null in other places than in the file"


def _differences_of_maps(
    before: pa.MapArray,
    stored: MapType | MultisetType,
    after: pa.MapArray,
    read: MapType | MultisetType,
    path: str,
) -> Iterator[str]:
    # A copy without slices: its keys and items are those of the maps present only.
    before, after = _present(before), _present(after)
    if not before.offsets.equals(after.offsets):
        yield f"{path} has different lengths than in the file"
        return
    old_key, new_key = _key_type(stored), _key_type(read)
    yield from _differences(before.keys, old_key, after.keys, new_key, f"{path}.key")
    if isinstance(stored, MapType) and isinstance(read, MapType):
        items = before.items, after.items
        yield from _differences(items[0], stored.value, items[1], read.value, f"{path}.value")
    elif not _equal(before.items, after.items):
        yield f"{path} has different counts than in the file"


def _key_type(data_type: MapType | MultisetType) -> DataType:
    return data_type.key if isinstance(data_type, MapType) else data_type.element


def _members_of(
    array: pa.StructArray, members: tuple[DataField, ...]
) -> dict[int, tuple[DataField, pa.Array]]:
    by_name = {member.name: member for member in members}
    named = zip((field.name for field in array.type), array.flatten(), strict=True)
    pairs = ((by_name[name], values) for name, values in named if name in by_name)
    return {member.id: (member, values) for member, values in pairs}


def _present(array: pa.MapArray) -> pa.MapArray:
    return array.take(pa.array(np.flatnonzero(array.is_valid())))


def _lengths(array: pa.Array) -> np.ndarray:
    """The number of elements of each list, 0 for a null list."""
    if pa.types.is_fixed_size_list(array.type):
        lengths = np.full(len(array), array.type.list_size)
    else:
        lengths = np.diff(array.offsets.to_numpy())
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0)


def _equal(before: pa.Array, after: pa.Array) -> bool:
    if not before.type.equals(after.type):
        return bool(before.null_count == after.null_count)
    if pa.types.is_floating(before.type):
        # NaN counts as equal to NaN.
        bits = pa.int64() if before.type.bit_width == 64 else pa.int32()
        return bool(before.view(bits).equals(after.view(bits)))
    return bool(before.equals(after))
