"""Schema files: JSON ↔ `TableSchema`, versions 1 to 3.

Source: Paimon specification, chapter Schema. Unknown keys are left aside.
"""

from __future__ import annotations

import json
from typing import Any

from lakewright.storage.errors import CorruptionError, InvalidSchema, UnsupportedError
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    parse_data_type,
)
from lakewright.storage.spec.schema import SCHEMA_VERSION, TableSchema

Json = dict[str, Any]


def encode_schema(schema: TableSchema) -> bytes:
    """The schema file."""
    data: Json = {
        "version": schema.version,
        "id": schema.id,
        "fields": [field_to_json(field) for field in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
        "comment": schema.comment,
        "timeMillis": schema.time_millis,
    }
    return json.dumps(data, indent=2, ensure_ascii=False).encode()


def decode_schema(data: bytes, *, name: str) -> TableSchema:
    """Read a schema file; `name` is how errors call it.

    Raises:
        UnsupportedError: it is of a version after ours.
        CorruptionError: it is no schema.
    """
    try:
        read = json.loads(data)
        version = int(read.get("version", 1))
        if version > SCHEMA_VERSION:
            raise UnsupportedError(
                f"{name} is of version {version}, known are 1 to {SCHEMA_VERSION}; "
                "upgrade lakewright"
            )
        options = {str(key): str(value) for key, value in read.get("options", {}).items()}
        if version < SCHEMA_VERSION:
            options.setdefault("file.format", "orc")
        return TableSchema(
            version=version,
            id=int(read["id"]),
            fields=tuple(_field_from_json(field) for field in read["fields"]),
            highest_field_id=int(read["highestFieldId"]),
            partition_keys=tuple(read.get("partitionKeys") or ()),
            primary_keys=tuple(read.get("primaryKeys") or ()),
            options=options,
            comment=read.get("comment") or "",
            time_millis=int(read.get("timeMillis", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidSchema):
            raise UnsupportedError(
                f"{name} holds a type that is not implemented: {error}"
            ) from error
        raise CorruptionError(f"{name} is no schema: {error!r}") from error


def type_to_json(data_type: DataType) -> str | Json:
    """A type as schema files hold it: text, or an object for nested ones."""
    if isinstance(data_type, AtomicType):
        return str(data_type)
    suffix = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case ArrayType(element=element):
            return {"type": "ARRAY" + suffix, "element": type_to_json(element)}
        case MultisetType(element=element):
            return {"type": "MULTISET" + suffix, "element": type_to_json(element)}
        case MapType(key=key, value=value):
            return {"type": "MAP" + suffix, "key": type_to_json(key), "value": type_to_json(value)}
        case RowType(fields=fields):
            return {"type": "ROW" + suffix, "fields": [field_to_json(each) for each in fields]}


def type_from_json(data: str | Json) -> DataType:
    """The inverse of `type_to_json`."""
    if isinstance(data, str):
        return parse_data_type(data)
    kind = str(data["type"])
    nullable = not kind.endswith("NOT NULL")
    match kind.removesuffix("NOT NULL").strip():
        case "ARRAY":
            return ArrayType(type_from_json(data["element"]), nullable)
        case "MULTISET":
            return MultisetType(type_from_json(data["element"]), nullable)
        case "MAP":
            return MapType(type_from_json(data["key"]), type_from_json(data["value"]), nullable)
        case "ROW":
            return RowType(tuple(_field_from_json(each) for each in data["fields"]), nullable)
        case other:
            raise InvalidSchema(f"type {other} is not implemented")


def field_to_json(field: DataField) -> Json:
    """A field as schema files hold it."""
    data: Json = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
    if field.description is not None:
        data["description"] = field.description
    if field.default_value is not None:
        data["defaultValue"] = field.default_value
    return data


def _field_from_json(data: Json) -> DataField:
    return DataField(
        int(data["id"]),
        str(data["name"]),
        _type_of_field(data),
        data.get("description"),
        data.get("defaultValue"),
    )


def _type_of_field(data: Json) -> DataType:
    try:
        return type_from_json(data["type"])
    except InvalidSchema as error:
        raise InvalidSchema(f"column {data['name']!r}: {error.message}") from error
