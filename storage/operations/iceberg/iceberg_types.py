"""Schemas, values and bounds of a table as Iceberg has them.

Source: Iceberg specification, chapters Schemas and Column Projection; Paimon `SpecialFields`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from lakewright.storage.codec.arrow_types import part_id
from lakewright.storage.codec.binary_row import decode_row
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec import data_types as ours
from lakewright.storage.spec.data_types import AtomicType, DataField, DataType, RowType, TypeRoot
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.row_tracking import with_row_ids
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value

_PLAIN: dict[TypeRoot, type[PrimitiveType]] = {
    TypeRoot.BOOLEAN: BooleanType,
    TypeRoot.TINYINT: IntegerType,
    TypeRoot.SMALLINT: IntegerType,
    TypeRoot.INT: IntegerType,
    TypeRoot.BIGINT: LongType,
    TypeRoot.FLOAT: FloatType,
    TypeRoot.DOUBLE: DoubleType,
    TypeRoot.CHAR: StringType,
    TypeRoot.VARCHAR: StringType,
    TypeRoot.BINARY: BinaryType,
    TypeRoot.VARBINARY: BinaryType,
    TypeRoot.DATE: DateType,
    TypeRoot.TIME: TimeType,
}
# Iceberg's timestamps have microseconds; finer ones need its format version 3.
_MOST_DIGITS = 6
Bounds = tuple[dict[int, bytes], dict[int, bytes], dict[int, int]]


def iceberg_schema(schema: TableSchema, *, table: str) -> Schema:
    """A version of a table's schema.

    Raises:
        UnsupportedError: a column has a type that Iceberg's format version 2 lacks.
    """
    fields = [_field(each, each.name, table) for each in schema.fields]
    return Schema(*fields, schema_id=schema.id)


def _field(field: DataField, path: str, table: str) -> NestedField:
    return NestedField(
        field_id=field.id,
        name=field.name,
        field_type=_type(field.type, field.id, 0, path, table),
        required=not field.type.nullable,
    )


def _type(data_type: DataType, field_id: int, depth: int, path: str, table: str) -> IcebergType:
    def part(each: DataType) -> IcebergType:
        return _type(each, field_id, depth + 1, path, table)

    def own_id(sign: int = 1) -> int:
        return part_id(field_id, depth + 1, sign)

    match data_type:
        case RowType(fields=fields):
            return StructType(*(_field(each, f"{path}.{each.name}", table) for each in fields))
        case ours.ArrayType(element=element):
            return ListType(
                element_id=own_id(), element=part(element), element_required=not element.nullable
            )
        case ours.MapType(key=key, value=value):
            return _map(own_id(-1), part(key), own_id(), part(value), required=not value.nullable)
        case ours.MultisetType(element=element):
            return _map(own_id(-1), part(element), own_id(), IntegerType(), required=True)
        case _:
            found = _atomic(data_type) if isinstance(data_type, AtomicType) else None
            if found is None:
                raise UnsupportedError(
                    f"{table} cannot be published for Iceberg readers: column {path} is "
                    f"{data_type}, which Iceberg's format version 2 has no type for"
                )
            return found


def _map(
    key_id: int, key: IcebergType, value_id: int, value: IcebergType, *, required: bool
) -> MapType:
    return MapType(
        key_id=key_id, key_type=key, value_id=value_id, value_type=value, value_required=required
    )


def _atomic(data_type: AtomicType) -> PrimitiveType | None:
    root = data_type.root
    if root is TypeRoot.DECIMAL:
        return DecimalType(data_type.precision, data_type.scale)
    if root.is_timestamp:
        if data_type.precision > _MOST_DIGITS:
            return None
        return TimestampType() if root is TypeRoot.TIMESTAMP else TimestamptzType()
    return _PLAIN[root]()


def iceberg_value(value: Value, data_type: DataType) -> Value:
    """A stored value as Iceberg stores it: times and timestamps in microseconds."""
    if isinstance(data_type, AtomicType) and isinstance(value, int):
        if data_type.root.is_timestamp:
            return value // 1000
        if data_type.root is TypeRoot.TIME:
            return value * 1000
    return value


class BoundsOfSchema:
    """Reads bounds of the columns of files of one schema; what all files share is found once."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._known: dict[tuple[str, ...] | None, list[_Bounded]] = {}

    def of(self, file: DataFileMeta) -> Bounds:
        """Lower and upper bounds and counts of nulls of a file's columns, by their ids."""
        lower: dict[int, bytes] = {}
        upper: dict[int, bytes] = {}
        nulls: dict[int, int] = {}
        stats = file.value_stats
        if not stats.null_counts:
            return lower, upper, nulls
        names = file.value_stats_cols if file.value_stats_cols is not None else file.write_cols
        columns = self._known.get(names)
        if columns is None:
            known = {each.name: each for each in with_row_ids(self._schema).fields}
            fields = self._schema.fields if names is None else [known[name] for name in names]
            columns = self._known[names] = [_bounded(each) for each in fields]
        types = [each.type for each in columns]
        least, most = (decode_row(row, types) for row in (stats.min_values, stats.max_values))
        for column, count, low, high in zip(columns, stats.null_counts, least, most, strict=True):
            if count is not None:
                nulls[column.id] = count
            if column.kind is None or low is None or high is None:
                continue
            if isinstance(low, float) and isinstance(high, float):
                if math.isnan(low) or math.isnan(high):
                    continue
                # Bounds of Iceberg tell zeros by their signs; a bound of zero is that of both.
                low, high = (-0.0 if low == 0 else low), (0.0 if high == 0 else high)  # noqa: PLW2901
            lower[column.id] = _bytes(column.kind, iceberg_value(low, column.type))
            upper[column.id] = _bytes(column.kind, iceberg_value(high, column.type))
        return lower, upper, nulls


def _bytes(kind: PrimitiveType, value: Value) -> bytes:
    assert value is not None
    return to_bytes(kind, value)


class _Bounded(NamedTuple):
    """A column, and its type in Iceberg if that has bounds."""

    id: int
    type: DataType
    kind: PrimitiveType | None


def _bounded(field: DataField) -> _Bounded:
    kind = _atomic(field.type) if isinstance(field.type, AtomicType) else None
    return _Bounded(field.id, field.type, kind)


# --- columns that changed -----------------------------------------------------------------------


def name_mapping(schemas: Iterable[Schema], current: Schema) -> NameMapping:
    """The ids of columns by their names, for files without ids.

    A column has all names that it had and no other column ever had.
    """
    names: dict[int, set[str]] = defaultdict(set)
    ids: dict[tuple[int | None, str], set[int]] = defaultdict(set)
    for schema in schemas:
        for parent, field in _all_fields(schema.as_struct(), None):
            names[field.field_id].add(field.name)
            ids[parent, field.name].add(field.field_id)

    def of_type(kind: IcebergType) -> list[MappedField]:
        match kind:
            case StructType():
                return [of_field(each) for each in kind.fields]
            case ListType():
                return [_mapped(kind.element_id, ["element"], of_type(kind.element_type))]
            case MapType():
                return [
                    _mapped(kind.key_id, ["key"], of_type(kind.key_type)),
                    _mapped(kind.value_id, ["value"], of_type(kind.value_type)),
                ]
        return []

    parents = {each.field_id: parent for parent, each in _all_fields(current.as_struct(), None)}

    def of_field(field: NestedField) -> MappedField:
        parent = parents[field.field_id]
        known = [n for n in names[field.field_id] if len(ids[parent, n]) == 1 or n == field.name]
        return _mapped(field.field_id, sorted(known), of_type(field.field_type))

    return NameMapping([of_field(each) for each in current.fields])


def _mapped(field_id: int, names: list[str], fields: list[MappedField]) -> MappedField:
    return MappedField(**{"field-id": field_id, "names": names, "fields": fields})


def _all_fields(kind: IcebergType, parent: int | None) -> Iterable[tuple[int | None, NestedField]]:
    match kind:
        case StructType():
            for each in kind.fields:
                yield parent, each
                yield from _all_fields(each.field_type, each.field_id)
        case ListType():
            yield from _all_fields(kind.element_type, kind.element_id)
        case MapType():
            yield from _all_fields(kind.key_type, kind.key_id)
            yield from _all_fields(kind.value_type, kind.value_id)


def check_promotable(schemas: Mapping[int, Schema], current: Schema, *, table: str) -> None:
    """Check that Iceberg reads the columns of files of some schemas as those of another.

    Raises:
        UnsupportedError: names the column, and what helps.
    """
    now = {each.field_id: each for _, each in _all_fields(current.as_struct(), None)}
    for schema_id, schema in schemas.items():
        for _, then in _all_fields(schema.as_struct(), None):
            field = now.get(then.field_id)
            if field is None or _is_read_as(then.field_type, field.field_type):
                continue
            raise UnsupportedError(
                f"{table} cannot be published for Iceberg readers: column {field.name} is "
                f"{field.field_type}, and data files of schema {schema_id} hold {then.field_type}, "
                "which Iceberg does not read as that; rewrite them (lakewright compact "
                f"{table} --full)"
            )


def _is_read_as(then: IcebergType, now: IcebergType) -> bool:
    """Whether a type became another one by a promotion of Iceberg's."""
    if isinstance(then, ListType) and isinstance(now, ListType):
        return _is_read_as(then.element_type, now.element_type)
    if isinstance(then, MapType) and isinstance(now, MapType):
        is_same = _is_read_as(then.key_type, now.key_type)
        return is_same and _is_read_as(then.value_type, now.value_type)
    if isinstance(then, StructType):
        # Its fields are compared as columns are.
        return isinstance(now, StructType)
    if isinstance(then, DecimalType) and isinstance(now, DecimalType):
        return then.scale == now.scale and then.precision <= now.precision
    is_wider = (isinstance(then, IntegerType) and isinstance(now, LongType)) or (
        isinstance(then, FloatType) and isinstance(now, DoubleType)
    )
    return then == now or is_wider
