"""The mapping from a file's schema to the schema that is read, by field id at every depth.

Names do not identify members: a renamed member stays the same member, and a member that is added
under the name of a dropped one is new. Rows, statistics, filters and key lookups all use this
mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    not_null,
)
from lakewright.storage.spec.predicate import Bounds

# The type of an element's count in a multiset.
MULTISET_COUNT = not_null(AtomicType(TypeRoot.INT))


@dataclass(frozen=True, slots=True)
class SameValues:
    """Values of the same type in file and result, members and order included."""

    read: DataType


@dataclass(frozen=True, slots=True)
class CastValues:
    """Values to cast from another type; no part of either type is mapped."""

    stored: DataType
    read: DataType


@dataclass(frozen=True, slots=True)
class NoValues:
    """Values that the file does not have, which are read as null."""

    read: DataType


@dataclass(frozen=True, slots=True)
class RowMapping:
    """Rows whose members differ in number, place or type."""

    read: RowType
    members: tuple[FieldMapping, ...]


@dataclass(frozen=True, slots=True)
class ArrayMapping:
    """Arrays whose elements are mapped."""

    read: ArrayType
    element: TypeMapping


@dataclass(frozen=True, slots=True)
class MapMapping:
    """Maps whose keys or values are mapped; the values of a multiset are its counts."""

    read: MapType | MultisetType
    key: TypeMapping
    value: TypeMapping


TypeMapping = SameValues | CastValues | NoValues | RowMapping | ArrayMapping | MapMapping


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """A column or member that is read, and the file's field of the same id, if any."""

    field: DataField
    stored: DataField | None
    values: TypeMapping


@dataclass(frozen=True, slots=True)
class SchemaMapping:
    """The columns that are read, by their ids."""

    columns: Mapping[int, FieldMapping]

    def bounds(self, stored: Mapping[str, Bounds], row_count: int) -> dict[str, Bounds]:
        """Bounds of the columns to read, from a file's bounds under the file's column names.

        A cast may change the order of values, so retyped columns have no bounds. If only members
        of a row, an array or a map changed, its null count still holds.
        """
        found: dict[str, Bounds] = {}
        for column in self.columns.values():
            if column.stored is None:
                # The file predates the column, so all its rows hold null there.
                found[column.field.name] = Bounds(None, None, row_count, row_count)
                continue
            known = stored.get(column.stored.name)
            if known is None or isinstance(column.values, CastValues):
                continue
            if not isinstance(column.values, SameValues):
                known = replace(known, minimum=None, maximum=None)
            found[column.field.name] = known
        return found

    def same_columns(self, read: Iterable[DataField]) -> dict[str, str]:
        """The columns to read whose stored values need no conversion.

        Keys are the names in the file, values the names in the schema to read.
        """
        columns = (self.columns[field.id] for field in read)
        return {
            column.stored.name: column.field.name
            for column in columns
            if column.stored is not None and isinstance(column.values, SameValues)
        }


def schema_mapping(stored: Sequence[DataField], read: Sequence[DataField]) -> SchemaMapping:
    """The mapping from the columns of a file to the columns that are read.

    Raises:
        InvalidSchema: fields beside each other have one id, and the schemas differ there.
    """
    return SchemaMapping({member.field.id: member for member in _members(stored, read)})


def _members(stored: Sequence[DataField], read: Sequence[DataField]) -> tuple[FieldMapping, ...]:
    if _alike(stored, read):
        pairs = zip(stored, read, strict=True)
        return tuple(FieldMapping(new, old, SameValues(new.type)) for old, new in pairs)
    by_id = _by_id(stored)
    _by_id(read)
    return tuple(_member(by_id.get(field.id), field) for field in read)


def _alike(stored: Sequence[DataField], read: Sequence[DataField]) -> bool:
    """Whether the fields say the same, even if their ids are not what ids should be."""
    return len(stored) == len(read) and all(
        (old.id, old.name, old.type) == (new.id, new.name, new.type)
        for old, new in zip(stored, read, strict=True)
    )


def _by_id(fields: Sequence[DataField]) -> dict[int, DataField]:
    found: dict[int, DataField] = {}
    for field in fields:
        other = found.setdefault(field.id, field)
        if other is not field:
            raise InvalidSchema(
                f"fields {other.name!r} and {field.name!r} both have the id {field.id}, so data "
                "files of older schemas cannot be mapped to them; correct the schema files"
            )
    return found


def _member(stored: DataField | None, read: DataField) -> FieldMapping:
    if stored is None:
        return FieldMapping(read, None, NoValues(read.type))
    return FieldMapping(read, stored, _values(stored.type, read.type))


def _values(stored: DataType, read: DataType) -> TypeMapping:
    match stored, read:
        case RowType() as old_row, RowType() as row:
            return _row(old_row, row)
        case ArrayType(element=old_element), ArrayType(element=element) as array:
            inner = _values(old_element, element)
            same = isinstance(inner, SameValues)
            return SameValues(array) if same else ArrayMapping(array, inner)
        case MapType() as old_map, MapType() as new_map:
            key, value = _values(old_map.key, new_map.key), _values(old_map.value, new_map.value)
            return _entries(new_map, key, value)
        case MultisetType(element=old_element), MultisetType(element=element) as multiset:
            return _entries(multiset, _values(old_element, element), SameValues(MULTISET_COUNT))
    # Whether null is allowed is nothing that values know.
    same = replace(stored, nullable=read.nullable) == read
    return SameValues(read) if same else CastValues(stored, read)


def _row(stored: RowType, read: RowType) -> TypeMapping:
    members = _members(stored.fields, read.fields)
    unmoved = len(stored.fields) == len(members) and all(
        member.stored is old
        and old.name == member.field.name
        and isinstance(member.values, SameValues)
        for old, member in zip(stored.fields, members, strict=True)
    )
    return SameValues(read) if unmoved else RowMapping(read, members)


def _entries(
    read: MapType | MultisetType, key: TypeMapping, value: TypeMapping
) -> SameValues | MapMapping:
    same = isinstance(key, SameValues) and isinstance(value, SameValues)
    return SameValues(read) if same else MapMapping(read, key, value)
