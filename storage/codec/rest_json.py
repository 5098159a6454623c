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
        UnsupportedError: keys differ, which no such change can tell.
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
    return [*changes, *_of_fields(former.fields, schema.fields, ())]


def _of_fields(
    former: Sequence[DataField], fields: Sequence[DataField], above: tuple[str, ...]
) -> Iterator[Json]:
    before = {each.id: each for each in former}
    kept = {each.id for each in fields} & before.keys()
    for each in former:
        if each.id not in kept:
            yield {"action": "dropColumn", "fieldNames": [*above, each.name]}
    for each in fields:
        if each.id in kept:
            yield from _of_field(before[each.id], each, above)
    order = [each.name for each in fields if each.id in kept]
    old = [each.id for each in former if each.id in kept]
    moved = order != [next(f.name for f in fields if f.id == number) for number in old]
    for at, each in enumerate(fields):
        move = {
            "fieldName": each.name,
            "referenceFieldName": fields[at - 1].name if at else None,
            "type": "AFTER" if at else "FIRST",
        }
        if each.id not in kept:
            yield {
                "action": "addColumn",
                "fieldNames": [*above, each.name],
                "dataType": type_to_json(each.type),
                "comment": each.description,
                "move": move,
            }
            if each.default_value is not None:
                yield _default([*above, each.name], each.default_value)
        elif moved and not above:
            yield {"action": "updateColumnPosition", "move": move}


def _of_field(former: DataField, field: DataField, above: tuple[str, ...]) -> Iterator[Json]:
    if former.name != field.name:
        yield {
            "action": "renameColumn",
            "fieldNames": [*above, former.name],
            "newName": field.name,
        }
    path = [*above, field.name]
    yield from _of_type(former.type, field.type, (*above, field.name))
    if former.description != field.description:
        yield {
            "action": "updateColumnComment",
            "fieldNames": path,
            "newComment": field.description,
        }
    if former.default_value != field.default_value:
        yield _default(path, field.default_value)


def _of_type(former: DataType, new: DataType, path: tuple[str, ...]) -> Iterator[Json]:
    match former, new:
        case RowType(fields=before), RowType(fields=after):
            yield from _of_fields(before, after, path)
        case (ArrayType(element=one), ArrayType(element=other)) | (
            MultisetType(element=one),
            MultisetType(element=other),
        ):
            yield from _of_type(one, other, (*path, "element"))
        case MapType(key=key, value=one), MapType(key=other_key, value=other) if key == other_key:
            yield from _of_type(one, other, (*path, "value"))
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
