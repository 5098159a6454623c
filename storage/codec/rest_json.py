"""Requests to the server of a REST catalog as JSON: schemas of new tables, and their changes.

The server makes each next version of a schema itself, out of changes of columns and options.
Source: Paimon `rest-catalog-open-api.yaml`, `SchemaChange`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lakewright.storage.codec.schema_json import field_to_json, type_to_json
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.data_types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    not_null,
)
from lakewright.storage.spec.schema import TableSchema

Json = dict[str, Any]
# New columns and members: the path of the row, the field, and its place among members.
_Added = list[tuple[tuple[str, ...], DataField, Json | None]]


def schema_to_rest(schema: TableSchema) -> Json:
    """The schema of a table to create."""
    return {
        "fields": [field_to_json(each) for each in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
        "comment": schema.comment,
    }


def changes_to_rest(former: TableSchema, schema: TableSchema) -> list[Json]:
    """The changes by which a server makes one schema of another.

    Raises:
        UnsupportedError: keys differ, or the order of a row's members, which no such change tells.
    """
    if (former.partition_keys, former.primary_keys) != (schema.partition_keys, schema.primary_keys):
        raise UnsupportedError(
            "the keys of a table change nowhere in a REST catalog; create a table with the keys, "
            "and INSERT INTO it"
        )
    changes: list[Json] = [
        {"action": "removeOption", "key": name}
        for name in former.options
        if name not in schema.options
    ]
    changes += [
        {"action": "setOption", "key": name, "value": value}
        for name, value in schema.options.items()
        if former.options.get(name) != value
    ]
    if former.comment != schema.comment:
        changes.append({"action": "updateComment", "comment": schema.comment})
    added: _Added = []
    changes += _of_fields(former.fields, schema.fields, (), added)
    # The server counts ids in the order in which columns come.
    for above, field, move in sorted(added, key=lambda each: each[1].id):
        changes.append(_addition(above, field, move))
        if field.default_value is not None:
            changes.append(_default([*above, field.name], field.default_value))
    kept = {each.id for each in schema.fields}
    names = {each.id: each.name for each in schema.fields}
    order = [names[each.id] for each in former.fields if each.id in kept]
    order += [each.name for above, each, _ in sorted(added, key=lambda it: it[1].id) if not above]
    for at, name in enumerate(schema.field_names):
        # A server refuses to move a column to where it is.
        if order[at] != name:
            order.remove(name)
            order.insert(at, name)
            place = _move(name, schema.field_names[at - 1] if at else None)
            changes.append({"action": "updateColumnPosition", "move": place})
    return changes


def _of_fields(
    former: Sequence[DataField],
    fields: Sequence[DataField],
    above: tuple[str, ...],
    added: _Added,
) -> Iterator[Json]:
    """Changes of columns, without new ones, which go to `added`."""
    before = {each.id: each for each in former}
    there = {each.id for each in fields}
    kept = [each.id for each in fields if each.id in before]
    if above and kept != [each.id for each in former if each.id in there]:
        raise UnsupportedError(
            f"the members of {'.'.join(above)} keep their order in a REST catalog, which moves "
            "columns alone"
        )
    for each in former:
        if each.id not in there:
            yield {"action": "dropColumn", "fieldNames": [*above, each.name]}
    for at, each in enumerate(fields):
        if each.id in before:
            yield from _of_field(before[each.id], each, above, added)
        else:
            is_last = not any(other.id in before for other in fields[at:])
            # Only members of rows need it: columns are put in order afterwards.
            move = _move(each.name, fields[at - 1].name if at else None)
            added.append((above, each, None if is_last or not above else move))


def _addition(above: tuple[str, ...], field: DataField, move: Json | None) -> Json:
    return {
        "action": "addColumn",
        "fieldNames": [*above, field.name],
        "dataType": type_to_json(field.type),
        "comment": field.description,
        "move": move,
    }


def _move(name: str, after: str | None) -> Json:
    kind = "FIRST" if after is None else "AFTER"
    return {"fieldName": name, "referenceFieldName": after, "type": kind}


def _of_field(
    former: DataField,
    field: DataField,
    above: tuple[str, ...],
    added: _Added,
) -> Iterator[Json]:
    if former.name != field.name:
        yield {
            "action": "renameColumn",
            "fieldNames": [*above, former.name],
            "newName": field.name,
        }
    path = [*above, field.name]
    yield from _of_type(former.type, field.type, (*above, field.name), added)
    if former.description != field.description:
        yield {
            "action": "updateColumnComment",
            "fieldNames": path,
            "newComment": field.description,
        }
    if former.default_value != field.default_value:
        yield _default(path, field.default_value)


def _of_type(
    former: DataType,
    new: DataType,
    path: tuple[str, ...],
    added: _Added,
) -> Iterator[Json]:
    match former, new:
        case RowType(fields=before), RowType(fields=after):
            yield from _of_fields(before, after, path, added)
        case (ArrayType(element=one), ArrayType(element=other)) | (
            MultisetType(element=one),
            MultisetType(element=other),
        ):
            yield from _of_type(one, other, (*path, "element"), added)
        case MapType(key=key, value=one), MapType(key=other_key, value=other) if key == other_key:
            yield from _of_type(one, other, (*path, "value"), added)
        case _ if not_null(former) != not_null(new):
            yield {
                "action": "updateColumnType",
                "fieldNames": list(path),
                "newDataType": type_to_json(new),
                "keepNullability": True,
            }
    if former.nullable != new.nullable:
        yield {
            "action": "updateColumnNullability",
            "fieldNames": list(path),
            "newNullability": new.nullable,
        }


def _default(path: Sequence[str], value: str | None) -> Json:
    return {"action": "updateColumnDefaultValue", "fieldNames": [*path], "newDefaultValue": value}
