"""Data contracts of the Open Data Contract Standard (ODCS) v3: tables → contracts and back.

A contract describes a table as an object of `schema`, each column as a property. `physicalType` is
the type of the table; rows and arrays have `properties` and `items` instead of their type's text.
A property without a `physicalType` that is a type here fits each type of its `logicalType`.

What a contract leaves out stays as the table has it: keys, options, comments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakewright.platform.declare.declarations import ColumnDeclaration, TableDeclaration
from lakewright.storage.errors import InvalidRequestError, InvalidSchema
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    parse_data_type,
)
from lakewright.storage.spec.schema import TableSchema

API_VERSION = "v3.1.0"
_KIND = "DataContract"
_STRUCTURES = {"object": "ROW", "array": "ARRAY"}
_BYTES = {"format": "binary"}
_DEFAULT = "default"
_FORMER_NAME = "was"

# The logical type of each type, and the type of a new column that has only a logical type.
_LOGICAL = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "integer",
    TypeRoot.SMALLINT: "integer",
    TypeRoot.INT: "integer",
    TypeRoot.BIGINT: "integer",
    TypeRoot.FLOAT: "number",
    TypeRoot.DOUBLE: "number",
    TypeRoot.DECIMAL: "number",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "string",
    TypeRoot.VARBINARY: "string",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "time",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamp",
}
_TYPES = {
    "boolean": "BOOLEAN",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "string": "STRING",
    "date": "DATE",
    "time": "TIME(3)",
    "timestamp": "TIMESTAMP(6)",
}

# What describes a table or column, and is compared; other keys are told as not compared.
_OF_CONTRACT = {"apiVersion", "kind", "id", "name", "version", "status", "schema"}
_OF_TABLE = {"name", "physicalName", "physicalType", "logicalType", "description", "properties"}
_OF_COLUMN = _OF_TABLE | {
    "logicalTypeOptions",
    "required",
    "primaryKey",
    "primaryKeyPosition",
    "partitioned",
    "partitionKeyPosition",
    "items",
    "customProperties",
}

Record = Mapping[str, object]


# --- writing -------------------------------------------------------------------------------------


def contract_of(name: str, uuid: str, schema: TableSchema) -> dict[str, object]:
    """The contract of a table; its version is the id of the schema."""
    table: dict[str, object] = {
        "name": name.partition(".")[2],
        "physicalName": name,
        "physicalType": "table",
        "logicalType": "object",
    }
    if schema.comment:
        table["description"] = schema.comment
    table["properties"] = [_column(each, schema) for each in schema.fields]
    return {
        "apiVersion": API_VERSION,
        "kind": _KIND,
        "id": uuid,
        "name": name,
        "version": f"{schema.id}.0.0",
        "status": "active",
        "schema": [table],
    }


def _column(column: DataField, schema: TableSchema) -> dict[str, object]:
    made = _member(column)
    for keys, flag, position in (
        (schema.primary_keys, "primaryKey", "primaryKeyPosition"),
        (schema.partition_keys, "partitioned", "partitionKeyPosition"),
    ):
        if column.name in keys:
            made |= {flag: True, position: keys.index(column.name) + 1}
    if column.default_value is not None:
        made["customProperties"] = [{"property": _DEFAULT, "value": column.default_value}]
    return made


def _member(member: DataField) -> dict[str, object]:
    made = {"name": member.name, **_described(member.type)}
    if member.description:
        made["description"] = member.description
    return made


def _described(data_type: DataType) -> dict[str, object]:
    """The keys of a property or of items that say its type."""
    made: dict[str, object]
    match data_type:
        case AtomicType(root=root):
            made = {"logicalType": _LOGICAL[root], "physicalType": _without_null(data_type)}
            if root.is_bytes:
                made["logicalTypeOptions"] = dict(_BYTES)
        case RowType(fields=members):
            made = {
                "logicalType": "object",
                "physicalType": _STRUCTURES["object"],
                "properties": [_member(each) for each in members],
            }
        case ArrayType(element=element):
            made = {
                "logicalType": "array",
                "physicalType": _STRUCTURES["array"],
                "items": _described(element),
            }
        case MapType() | MultisetType():
            # The standard has no maps: the physical type says all of it.
            made = {"logicalType": "object", "physicalType": _without_null(data_type)}
    return made if data_type.nullable else {**made, "required": True}


def _without_null(data_type: DataType) -> str:
    return str(replace(data_type, nullable=True))


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contract:
    """The declaration that a contract makes of a table, and what of it is not compared."""

    declaration: TableDeclaration
    notes: tuple[str, ...]


def is_contract(value: object) -> bool:
    """Whether a YAML document is a contract, right or wrong."""
    return isinstance(value, Mapping) and ("apiVersion" in value or value.get("kind") == _KIND)


def read_contract(contract: Record, name: str, schema: TableSchema) -> Contract:
    """The declaration of a table, whose present schema gives what the contract leaves out.

    Raises:
        InvalidRequestError: it is no contract of version 3, does not describe the table, or a part
            of it is wrong; the message names the part.
    """
    version = contract.get("apiVersion")
    if not isinstance(version, str) or not version.startswith("v3."):
        raise InvalidRequestError(
            f"apiVersion is {version!r}; contracts of version 3 can be read, as {API_VERSION}"
        )
    if contract.get("kind") != _KIND:
        raise InvalidRequestError(f"kind is {contract.get('kind')!r}; a contract has kind: {_KIND}")
    place, table = _table(contract, name)
    reader = _Reader()
    reader.leave_out("the contract", contract, _OF_CONTRACT)
    reader.leave_out(place, table, _OF_TABLE)
    properties = _records(table.get("properties"), f"{place}.properties")
    if not properties:
        raise InvalidRequestError(f"{place} has no properties; describe each column as one")
    present = {each.name: each for each in schema.fields}
    columns = []
    for at, each in enumerate(properties):
        here = f"{place}.properties[{at}]"
        column = _name(each, here)
        custom = _custom(each, here)
        reader.leave_out(f"{here}.customProperties", custom, {_DEFAULT, _FORMER_NAME})
        former = present.get(str(custom.get(_FORMER_NAME)), present.get(column))
        now = present.get(column, former)
        data_type = reader.type_of(each, here, None if now is None else now.type)
        kept = None if now is None else now.default_value
        default = custom.get(_DEFAULT, kept)
        columns.append(
            ColumnDeclaration(
                name=column,
                type=str(data_type),
                comment=_text(each, "description", here),
                default=None if default is None else str(default),
                was=_former(custom),
            )
        )
    primary = _key(properties, place, "primaryKey", "primaryKeyPosition")
    parts = _key(properties, place, "partitioned", "partitionKeyPosition")
    declaration = TableDeclaration(
        table=name,
        comment=_text(table, "description", place) or "",
        columns=tuple(columns),
        primary_key=schema.primary_keys if primary is None else primary,
        partition_keys=schema.partition_keys if parts is None else parts,
        options={"bucket": schema.options.get("bucket", "-1")},
    )
    return Contract(declaration, tuple(reader.notes()))


@dataclass(slots=True)
class _Reader:
    """Reads types, and collects what is not compared."""

    left_out: dict[str, list[str]] = field(default_factory=dict)
    unknown_types: list[str] = field(default_factory=list)

    def notes(self) -> Iterable[str]:
        for key, places in self.left_out.items():
            yield f"{key} is not compared ({', '.join(places)})"
        yield from self.unknown_types

    def leave_out(self, place: str, record: Record, known: set[str]) -> None:
        for key in record:
            if key not in known:
                self.left_out.setdefault(str(key), []).append(place)

    def leave_out_of_member(self, record: Record, place: str, now: str | None) -> None:
        """The types of a declaration carry no descriptions and no custom properties."""
        if record.get("description") and record["description"] != now:
            self.left_out.setdefault("description", []).append(place)
        if record.get("customProperties"):
            self.left_out.setdefault("customProperties", []).append(place)

    def type_of(self, record: Record, place: str, now: DataType | None) -> DataType:
        """The type that a property or items describe."""
        self.leave_out(place, record, _OF_COLUMN)
        required = any(_flag(record, key, place) for key in ("required", "primaryKey"))
        return replace(self._type_of(record, place, now), nullable=not required)

    def _type_of(self, record: Record, place: str, now: DataType | None) -> DataType:
        logical = _text(record, "logicalType", place)
        physical = _text(record, "physicalType", place)
        if record.get("properties"):
            members = _records(record["properties"], f"{place}.properties")
            return RowType(tuple(self._members(members, f"{place}.properties", now)))
        if record.get("items") is not None:
            element = now.element if isinstance(now, ArrayType) else None
            (items,) = _records([record["items"]], f"{place}.items")
            self.leave_out_of_member(items, f"{place}.items", None)
            return ArrayType(self.type_of(items, f"{place}.items", element))
        if physical is not None:
            try:
                return parse_data_type(physical, lengths_required=True)
            except InvalidSchema:
                self.unknown_types.append(
                    f"{place}: {physical} is no type of Paimon; its logicalType is compared"
                )
        if logical is None:
            raise InvalidRequestError(
                f"{place} has no type; add physicalType, such as BIGINT, or logicalType"
            )
        if now is not None and _logical(now) == logical:
            return now
        if logical not in _TYPES:
            lacking = "items" if logical == "array" else "properties"
            known = ", ".join((*_TYPES, *_STRUCTURES))
            raise InvalidRequestError(
                f"{place} has logicalType {logical!r} and no {lacking}; add them"
                if logical in _STRUCTURES
                else f"{place} has logicalType {logical!r}; the standard has {known}"
            )
        return parse_data_type(_TYPES[logical])

    def _members(
        self, members: Sequence[Record], place: str, now: DataType | None
    ) -> Iterable[DataField]:
        present = {each.name: each for each in now.fields} if isinstance(now, RowType) else {}
        for at, each in enumerate(members):
            here = f"{place}[{at}]"
            name = _name(each, here)
            member = present.get(name)
            self.leave_out_of_member(each, here, None if member is None else member.description)
            now_type = None if member is None else member.type
            yield DataField(at, name, self.type_of(each, here, now_type))


def _logical(data_type: DataType) -> str:
    match data_type:
        case AtomicType(root=root):
            return _LOGICAL[root]
        case ArrayType():
            return "array"
        case _:
            return "object"


def _table(contract: Record, name: str) -> tuple[str, Record]:
    """The object of a table: by its physical name, or without one by its name.

    Either may leave the database out; the whole name comes first.
    """
    objects = _records(contract.get("schema"), "schema")
    names = [_name(each, f"schema[{at}]") for at, each in enumerate(objects)]
    for wanted in (name, name.partition(".")[2]):
        found = [at for at, named in enumerate(names) if named == wanted]
        if len(found) > 1:
            places = ", ".join(f"schema[{at}]" for at in found)
            raise InvalidRequestError(f"{places} all describe {wanted}; keep one")
        for at in found:
            return f"schema[{at}]", objects[at]
    told = ", ".join(names) or "no table"
    raise InvalidRequestError(f"the contract describes {told}, and not {name}")


def _name(record: Record, place: str) -> str:
    name = _text(record, "physicalName", place) or _text(record, "name", place)
    if not name:
        raise InvalidRequestError(f"{place} has no name; add it")
    return name


def _former(custom: Mapping[str, object]) -> str | None:
    name = custom.get(_FORMER_NAME)
    return None if name is None else str(name)


def _custom(record: Record, place: str) -> Mapping[str, object]:
    given = record.get("customProperties")
    listed = [] if given is None else _records(given, f"{place}.customProperties")
    return {str(each.get("property")): each.get("value") for each in listed}


def _key(
    properties: Sequence[Record], place: str, flag: str, position: str
) -> tuple[str, ...] | None:
    """The columns of a key in order; None if no property says anything of it."""
    if not any(flag in each for each in properties):
        return None
    found = []
    for at, each in enumerate(properties):
        here = f"{place}.properties[{at}]"
        if _flag(each, flag, here):
            where = each.get(position, -1)
            if isinstance(where, bool) or not isinstance(where, int):
                raise InvalidRequestError(f"{here}.{position} is {where!r}, and it is a number")
            found.append((where, at, _name(each, here)))
    return tuple(name for _, _, name in sorted(found))


def _flag(record: Record, key: str, place: str) -> bool:
    value = record.get(key, False)
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{place}.{key} is {value!r}, and it is true or false")
    return value


def _text(record: Record, key: str, place: str) -> str | None:
    value = record.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidRequestError(f"{place}.{key} is {value!r}, and it is text")
    return value


def _records(value: object, place: str) -> list[Record]:
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise InvalidRequestError(f"{place} is a list of objects")
    return value
