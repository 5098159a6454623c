"""Data contracts of the Open Data Contract Standard (ODCS) v3: tables → contracts and back.

A contract describes a table as an object of `schema`, each column as a property. `physicalType` is
the type of the table; rows and arrays have `properties` and `items` instead of their type's text.
A property without a `physicalType` that is a type here fits each type of its `logicalType`.

What a contract leaves out stays as the table has it: keys, options, comments. The standard's own
models read and write contracts (the extra `contracts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from lakewright.platform.documents.model_errors import explain
from lakewright.platform.documents.yaml_files import dotted
from lakewright.platform.tables.declarations import ColumnDeclaration, TableDeclaration
from lakewright.storage.errors import InvalidRequestError, InvalidSchema
from lakewright.storage.extras import needed_for
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
    parse_data_type,
)
from lakewright.storage.spec.schema import TableSchema

if TYPE_CHECKING:
    from open_data_contract_standard.model import (
        OpenDataContractStandard,
        SchemaObject,
        SchemaProperty,
    )

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
_OF_CONTRACT = {"apiVersion", "kind", "id", "name", "version", "status", "schema_"}
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
    contract = {
        "apiVersion": API_VERSION,
        "kind": _KIND,
        "id": uuid,
        "name": name,
        "version": f"{schema.id}.0.0",
        "status": "active",
        "schema": [table],
    }
    return _model(contract).model_dump(exclude_none=True, by_alias=True)


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
                "properties": [_member(member) for member in members],
            }
        case ArrayType(element=element):
            made = {
                "logicalType": "array",
                "physicalType": _STRUCTURES["array"],
                "items": _described(element),
            }
        case MapType() | MultisetType() | OpaqueType():
            # The standard has no maps and such: the physical type says all of it.
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
    read = _model(contract)
    place, table = _table(read, name)
    reader = _Reader()
    reader.leave_out("the contract", read, _OF_CONTRACT)
    reader.leave_out(place, table, _OF_TABLE)
    properties = table.properties
    if not properties:
        raise InvalidRequestError(f"{place} has no properties; describe each column as one")
    present = {each.name: each for each in schema.fields}
    columns = []
    for at, each in enumerate(properties):
        here = f"{place}.properties[{at}]"
        column = _name(each, here)
        custom = {made.property: made.value for made in each.customProperties or ()}
        for key in [each for each in custom if each not in (_DEFAULT, _FORMER_NAME)]:
            reader.tell_left_out(str(key), f"{here}.customProperties")
        former = present.get(str(custom.get(_FORMER_NAME)), present.get(column))
        now = present.get(column, former)
        data_type = reader.type_of(each, here, None if now is None else now.type)
        kept = None if now is None else now.default_value
        default = custom.get(_DEFAULT, kept)
        columns.append(
            ColumnDeclaration(
                name=column,
                type=str(data_type),
                comment=each.description,
                default=None if default is None else str(default),
                was=None if (was := custom.get(_FORMER_NAME)) is None else str(was),
            )
        )
    primary = _key(properties, "primaryKey", "primaryKeyPosition")
    parts = _key(properties, "partitioned", "partitionKeyPosition")
    declaration = TableDeclaration(
        table=name,
        comment=table.description or "",
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

    def leave_out(self, place: str, part: BaseModel, known: set[str]) -> None:
        for key in sorted(part.model_fields_set - known):
            self.tell_left_out(key, place)

    def leave_out_of_member(self, part: SchemaProperty, place: str, now: str | None) -> None:
        """The types of a declaration carry no descriptions and no custom properties."""
        if part.description and part.description != now:
            self.tell_left_out("description", place)
        if part.customProperties:
            self.tell_left_out("customProperties", place)

    def tell_left_out(self, key: str, place: str) -> None:
        self.left_out.setdefault(key, []).append(place)

    def type_of(self, part: SchemaProperty, place: str, now: DataType | None) -> DataType:
        """The type that a property or items describe."""
        self.leave_out(place, part, _OF_COLUMN)
        required = part.required or part.primaryKey
        return replace(self._type_of(part, place, now), nullable=not required)

    def _type_of(self, part: SchemaProperty, place: str, now: DataType | None) -> DataType:
        logical, physical = part.logicalType, part.physicalType
        if part.properties:
            members = self._members(part.properties, f"{place}.properties", now)
            return RowType(tuple(members))
        if part.items is not None:
            element = now.element if isinstance(now, ArrayType) else None
            self.leave_out_of_member(part.items, f"{place}.items", None)
            return ArrayType(self.type_of(part.items, f"{place}.items", element))
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
        self, members: Sequence[SchemaProperty], place: str, now: DataType | None
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


def _model(contract: Record) -> OpenDataContractStandard:
    with needed_for("a data contract"):
        from open_data_contract_standard.model import OpenDataContractStandard
    try:
        # Keys that the standard does not have are told as not compared.
        return OpenDataContractStandard.model_validate(contract, extra="allow")
    except ValidationError as error:
        place, message = explain(error.errors()[0], OpenDataContractStandard)
        raise InvalidRequestError(f"{dotted(place)}: {message}") from None


def _table(contract: OpenDataContractStandard, name: str) -> tuple[str, SchemaObject]:
    """The object of a table: by its physical name, or without one by its name.

    Either may leave the database out; the whole name comes first.
    """
    objects = contract.schema_ or []
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


def _name(part: SchemaObject | SchemaProperty, place: str) -> str:
    name = part.physicalName or part.name
    if not name:
        raise InvalidRequestError(f"{place} has no name; add it")
    return name


def _key(properties: Sequence[SchemaProperty], flag: str, position: str) -> tuple[str, ...] | None:
    """The columns of a key in order; None if no property says anything of it."""
    if not any(flag in each.model_fields_set for each in properties):
        return None
    found = [
        (-1 if (place := getattr(each, position)) is None else place, at, _name(each, ""))
        for at, each in enumerate(properties)
        if getattr(each, flag)
    ]
    return tuple(name for _, _, name in sorted(found))
