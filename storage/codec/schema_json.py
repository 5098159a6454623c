"""Schema files: JSON ↔ `TableSchema`, versions 1 to 3.

Source: Paimon specification, chapter Schema. Unknown keys are ignored.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from lakewright.storage.codec.json_values import (
    MalformedJson,
    as_list,
    as_moment_ms,
    as_object,
    as_text,
    as_whole,
    read_object,
)
from lakewright.storage.errors import CorruptionError, InvalidSchema, UnsupportedError
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    is_opaque,
    opaque_type,
    parse_data_type,
)
from lakewright.storage.spec.schema import SCHEMA_VERSION, TableSchema

Json = dict[str, Any]


def encode_schema(schema: TableSchema) -> bytes:
    """The schema file.

    Raises:
        InvalidSchema: a value is one that `decode_schema` refuses.
    """
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
    try:
        encoded = json.dumps(data, indent=2, ensure_ascii=False).encode()
        decode_schema(encoded, name="it", schema_id=schema.id)
    except (CorruptionError, UnsupportedError) as error:
        raise InvalidSchema(f"the schema was not written: {error.message}") from error
    except (TypeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidSchema(f"the schema was not written: {error}") from error
    return encoded


def decode_schema(data: bytes, *, name: str, schema_id: int | None = None) -> TableSchema:
    """Read a schema file; error messages call it `name`, and `schema_id` is the id in its name.

    Raises:
        UnsupportedError: the file has a later version of the format.
        CorruptionError: the file is not a schema, or its id differs from the one in its name.
    """
    try:
        read = read_object(data)
        version = as_whole(read.get("version", 1))
        if version > SCHEMA_VERSION:
            raise UnsupportedError(
                f"{name} is of version {version}, and this release reads 1 to {SCHEMA_VERSION}; "
                "upgrade lakewright"
            )
        options = {key: str(value) for key, value in as_object(read.get("options", {})).items()}
        if version < SCHEMA_VERSION:
            options.setdefault("file.format", "orc")
        schema = TableSchema(
            version=version,
            id=as_whole(read["id"]),
            fields=tuple(_field_from_json(field) for field in as_list(read["fields"])),
            highest_field_id=as_whole(read["highestFieldId"]),
            partition_keys=_texts(read.get("partitionKeys")),
            primary_keys=_texts(read.get("primaryKeys")),
            options=options,
            comment=as_text(read.get("comment") or ""),
            time_millis=as_moment_ms(read.get("timeMillis", 0)),
        )
        _check_keys(schema)
    except InvalidSchema as error:
        raise UnsupportedError(f"{name} holds a type that is not implemented: {error}") from error
    except (ValueError, KeyError, RecursionError) as error:
        raise CorruptionError(f"{name} is not a schema: {error!r}", path=name) from error
    if schema_id not in (None, schema.id):
        raise CorruptionError(
            f"{name} holds the id {schema.id}, which contradicts its name; restore it from a copy",
            path=name,
        )
    return schema


def _check_keys(schema: TableSchema) -> None:
    names = set(schema.field_names)
    if len(names) < len(schema.fields):
        raise MalformedJson("it has a column more than once")
    for key in (*schema.partition_keys, *schema.primary_keys):
        if key not in names:
            raise MalformedJson(f"its key {key!r} is not a column")
    for field in schema.fields:
        if field.name in (*schema.partition_keys, *schema.primary_keys) and is_opaque(field.type):
            raise InvalidSchema(f"its key {field.name!r} is of type {field.type}")
    for field in schema.partition_fields:
        if not isinstance(field.type, AtomicType):
            raise MalformedJson(
                f"its partition key {field.name!r} is of the nested type {field.type}"
            )


def type_to_json(data_type: DataType) -> str | Json:
    """A type as schema files hold it: text, or an object for nested ones."""
    suffix = "" if data_type.nullable else " NOT NULL"
    if isinstance(data_type, OpaqueType) and data_type.text.startswith("{"):
        held: Json = json.loads(data_type.text)
        return {**held, "type": held["type"] + suffix}
    if isinstance(data_type, AtomicType | OpaqueType):
        return str(data_type)
    match data_type:
        case ArrayType(element=element):
            return {"type": "ARRAY" + suffix, "element": type_to_json(element)}
        case MultisetType(element=element):
            return {"type": "MULTISET" + suffix, "element": type_to_json(element)}
        case MapType(key=key, value=value):
            return {"type": "MAP" + suffix, "key": type_to_json(key), "value": type_to_json(value)}
        case RowType(fields=fields):
            return {"type": "ROW" + suffix, "fields": [field_to_json(field) for field in fields]}


def type_from_json(data: str | Json) -> DataType:
    """The inverse of `type_to_json`."""
    if isinstance(data, str):
        return opaque_type(data) or parse_data_type(data)
    kind = as_text(as_object(data)["type"])
    nullable = not kind.endswith("NOT NULL")
    match kind.removesuffix("NOT NULL").strip():
        case "ARRAY":
            return ArrayType(type_from_json(data["element"]), nullable)
        case "MULTISET":
            return MultisetType(type_from_json(data["element"]), nullable)
        case "MAP":
            return MapType(type_from_json(data["key"]), type_from_json(data["value"]), nullable)
        case "ROW":
            return RowType(tuple(map(_field_from_json, as_list(data["fields"]))), nullable)
        case other:
            opaque = opaque_type(other)
            if opaque is None:
                raise InvalidSchema(f"type {other} is not implemented")
            held = json.dumps(
                {"type": opaque.text, **{k: v for k, v in data.items() if k != "type"}}
            )
            return replace(opaque, nullable=nullable, text=held)


def field_to_json(field: DataField) -> Json:
    """A field as schema files hold it."""
    data: Json = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
    if field.description is not None:
        data["description"] = field.description
    if field.default_value is not None:
        data["defaultValue"] = field.default_value
    return data


def _field_from_json(data: object) -> DataField:
    read = as_object(data)
    return DataField(
        as_whole(read["id"]),
        as_text(read["name"]),
        _type_of_field(read),
        _optional_text(read.get("description")),
        _optional_text(read.get("defaultValue")),
    )


def _type_of_field(data: Json) -> DataType:
    try:
        return type_from_json(data["type"])
    except InvalidSchema as error:
        raise InvalidSchema(f"column {data['name']!r}: {error.message}") from error


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(as_text, as_list(value or [])))


def _optional_text(value: object) -> str | None:
    return None if value is None else as_text(value)
