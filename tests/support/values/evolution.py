"""Schema changes as other clients make them, at any depth, and their effect on values.

Types change as in `ALTER TABLE`: a renamed, moved or retyped member keeps its id, and an added
member gets a new one. `by_id` converts a stored value to a later type in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakewright.storage import Catalog, Table, parse_data_type
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
)
from lakewright.storage.spec.schema import TableSchema, with_member_ids

Members = tuple[DataField, ...]
# Changes the members of a row; `new_id` returns an id that no field of the table ever had.
Change = Callable[[Members, Callable[[], int]], Members]


def altered(catalog: Catalog, table: Table, change: Callable[[TableSchema], TableSchema]) -> Table:
    """The table after another client put the next version of its schema."""
    latest = catalog.table(table.name)
    changed = replace(change(latest.schema), id=latest.schema.id + 1)
    assert latest.table_files.schemas.put_schema(changed)
    return catalog.table(table.name)


def with_default_values(catalog: Catalog, table: Table, defaults: Mapping[str, str]) -> Table:
    """The table after another client set the defaults of some columns."""

    def change(schema: TableSchema) -> TableSchema:
        fields = [replace(each, default_value=defaults.get(each.name)) for each in schema.fields]
        return replace(schema, fields=tuple(fields))

    return altered(catalog, table, change)


def with_changed_members(schema: TableSchema, changes: Mapping[str, Change]) -> TableSchema:
    """The schema after a change to every row that has a member `a`, column by column."""
    highest = schema.highest_field_id

    def new_id() -> int:
        nonlocal highest
        highest += 1
        return highest

    fields = tuple(
        replace(field, type=in_rows_with_a(field.type, changes[field.name], new_id))
        if field.name in changes
        else field
        for field in schema.fields
    )
    return replace(schema, fields=fields, highest_field_id=highest)


def in_rows_with_a(data_type: DataType, change: Change, new_id: Callable[[], int]) -> DataType:
    """The type with a change to every row inside that has a member `a`."""
    match data_type:
        case RowType(fields=members):
            inner = tuple(
                replace(member, type=in_rows_with_a(member.type, change, new_id))
                for member in members
            )
            has_a = any(member.name == "a" for member in members)
            return replace(data_type, fields=change(inner, new_id) if has_a else inner)
        case ArrayType(element=element) | MultisetType(element=element):
            return replace(data_type, element=in_rows_with_a(element, change, new_id))
        case MapType(key=key, value=value):
            key = in_rows_with_a(key, change, new_id)
            return replace(data_type, key=key, value=in_rows_with_a(value, change, new_id))
        case AtomicType() | OpaqueType():
            return data_type


# --- changes ----------------------------------------------------------------------------------


def _renamed(members: Members, names: Mapping[str, str]) -> Members:
    return tuple(replace(each, name=names.get(each.name, each.name)) for each in members)


def _without_a(members: Members) -> Members:
    return tuple(each for each in members if each.name != "a")


def _plus(members: Members, name: str, type_name: str, new_id: Callable[[], int]) -> Members:
    own_id = new_id()
    added = with_member_ids(parse_data_type(type_name), iter(new_id, None))
    return (*members, DataField(own_id, name, added))


CHANGES: dict[str, Change] = {
    "none": lambda members, new_id: members,
    "rename": lambda members, new_id: _renamed(members, {"a": "c"}),
    "drop": lambda members, new_id: _without_a(members),
    "drop_and_add": lambda members, new_id: _plus(_without_a(members), "a", "INT", new_id),
    "swap": lambda members, new_id: _renamed(members, {"a": "b", "b": "a"}),
    "add": lambda members, new_id: _plus(members, "c", "ROW<x INT, y STRING>", new_id),
    "reorder": lambda members, new_id: members[::-1],
    "retype": lambda members, new_id: tuple(
        replace(each, type=parse_data_type("BIGINT")) if each.name == "a" else each
        for each in members
    ),
}

# The changed row and its surroundings: a type, and a value of that type around some rows.
MEMBERS = "a INT, b INT, t TIMESTAMP(3)"
_ROW = f"ROW<{MEMBERS}>"
Values = Sequence[Any]
CONTAINERS: dict[str, tuple[str, Callable[[Values], Any]]] = {
    "row": (_ROW, lambda rows: rows[0]),
    "array": (f"ARRAY<{_ROW}>", list),
    "map_value": (f"MAP<STRING, {_ROW}>", lambda rows: [(str(n), r) for n, r in enumerate(rows)]),
    "map_key": (f"MAP<{_ROW}, INT>", lambda rows: [(r, n) for n, r in enumerate(rows) if r]),
    "multiset": (f"MULTISET<{_ROW}>", lambda rows: [(r, n + 1) for n, r in enumerate(rows) if r]),
    "row_in_row": (f"ROW<r {_ROW}, z INT>", lambda rows: {"r": rows[0], "z": len(rows)}),
    "array_of_arrays": (f"ARRAY<ARRAY<{_ROW}>>", lambda rows: [list(rows), None, []]),
    "map_of_arrays_in_row": (
        f"ROW<m MAP<INT, ARRAY<{_ROW}>>>",
        lambda rows: {"m": [(1, list(rows)), (2, None), (3, [])]},
    ),
}


# --- the model --------------------------------------------------------------------------------


def by_id(value: Any, stored: DataType, read: DataType) -> Any:
    """Convert a stored value, as Arrow returns it to Python, to a later type."""
    if value is None:
        return None
    match stored, read:
        case RowType(fields=before), RowType(fields=after):
            held = {member.id: member for member in before}
            return {
                member.name: by_id(value[held[member.id].name], held[member.id].type, member.type)
                if member.id in held
                else None
                for member in after
            }
        case (ArrayType(element=before), ArrayType(element=after)):
            return [by_id(each, before, after) for each in value]
        case (MultisetType(element=before), MultisetType(element=after)):
            return [(by_id(each, before, after), count) for each, count in value]
        case MapType(key=old_key, value=old), MapType(key=new_key, value=new):
            return [(by_id(k, old_key, new_key), by_id(v, old, new)) for k, v in value]
    return value


# One or two types of each family, for every pair that a column may change between.
CAST_TYPES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "CHAR(3)",
    "VARCHAR(5)",
    "STRING",
    "BINARY(3)",
    "VARBINARY(5)",
    "BYTES",
    "DATE",
    "TIME(0)",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
]
