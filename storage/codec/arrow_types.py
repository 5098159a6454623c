"""Paimon types as Arrow types, and Arrow types as Paimon types.

Field ids ride along as Parquet field ids in Arrow field metadata and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pyarrow as pa

from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.data_types import (
    BYTES,
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TypeRoot,
    is_opaque,
    not_decoded,
    not_null,
)
from lakewright.storage.spec.schema import Column

FIELD_ID = b"PARQUET:field_id"
# Between ids of fields and those of keys; parts of a field have as many ids to each side.
_PARTS_ID = (2**31 - 1) // 4
_MOST_DEPTH = 1 << 10

_PLAIN = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
}


def timestamp_unit(precision: int) -> str:
    """The coarsest Arrow unit that holds timestamps of a precision."""
    if precision <= 3:
        return "ms"
    return "us" if precision <= 6 else "ns"


def to_arrow_type(data_type: DataType, field_id: int | None = None, depth: int = 0) -> pa.DataType:
    """The Arrow type that values of a column have in memory.

    Inside the type of a field, its id and how many arrays and maps are around this one give
    elements, keys and values their ids.

    Raises:
        UnsupportedError: values of the type, or of a part, are not decoded.
    """
    inner = partial(_part, field_id, depth + 1)
    match data_type:
        case AtomicType(root=TypeRoot.DECIMAL, precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case AtomicType(root=TypeRoot.TIMESTAMP, precision=precision):
            return pa.timestamp(timestamp_unit(precision))
        case AtomicType(root=TypeRoot.TIMESTAMP_LTZ, precision=precision):
            return pa.timestamp(timestamp_unit(precision), tz="UTC")
        case AtomicType(root=root):
            return _PLAIN[root]
        case OpaqueType():
            raise not_decoded(data_type)
        case ArrayType(element=element):
            return pa.list_(inner("element", element))
        case MapType(key=key, value=value):
            return pa.map_(inner("key", not_null(key), sign=-1), inner("value", value))
        case MultisetType(element=element):
            count = not_null(AtomicType(TypeRoot.INT))
            return pa.map_(inner("key", not_null(element), sign=-1), inner("value", count))
        case RowType(fields=fields):
            return pa.struct([to_arrow_field(field) for field in fields])


def _part(
    field_id: int | None, depth: int, name: str, data_type: DataType, *, sign: int = 1
) -> pa.Field:
    """An element, key or value at a depth inside a field."""
    arrow_type = to_arrow_type(data_type, field_id, depth)
    own = None if field_id is None else part_id(field_id, depth, sign)
    return pa.field(name, arrow_type, data_type.nullable, _id_metadata(own))


def part_id(field_id: int, depth: int, sign: int) -> int:
    """Elements and values count upward, keys downward. Source: Paimon `SpecialFields`."""
    return _PARTS_ID + sign * (field_id * _MOST_DEPTH + depth)


def to_arrow_field(field: DataField) -> pa.Field:
    """A field with its id, and those of its parts, in the metadata."""
    if is_opaque(field.type):
        raise not_decoded(field.type, field.name)
    arrow_type = to_arrow_type(field.type, field.id)
    return pa.field(field.name, arrow_type, field.type.nullable, _id_metadata(field.id))


def _id_metadata(field_id: int | None) -> dict[bytes, bytes] | None:
    return None if field_id is None else {FIELD_ID: str(field_id).encode()}


def to_arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """Columns in the order of the fields."""
    return pa.schema([to_arrow_field(field) for field in fields])


def columns_from_arrow(schema: pa.Schema) -> tuple[Column, ...]:
    """Columns for a new table that hold what an Arrow schema holds.

    Raises:
        InvalidSchema: an Arrow type has no counterpart, such as unsigned 64-bit integers.
    """
    return tuple(Column(field.name, from_arrow_field(field)) for field in schema)


_FROM_ARROW: dict[pa.DataType, DataType] = {
    pa.bool_(): AtomicType(TypeRoot.BOOLEAN),
    pa.int8(): AtomicType(TypeRoot.TINYINT),
    pa.int16(): AtomicType(TypeRoot.SMALLINT),
    pa.uint8(): AtomicType(TypeRoot.SMALLINT),
    pa.int32(): AtomicType(TypeRoot.INT),
    pa.uint16(): AtomicType(TypeRoot.INT),
    pa.int64(): AtomicType(TypeRoot.BIGINT),
    pa.uint32(): AtomicType(TypeRoot.BIGINT),
    pa.float16(): AtomicType(TypeRoot.FLOAT),
    pa.float32(): AtomicType(TypeRoot.FLOAT),
    pa.float64(): AtomicType(TypeRoot.DOUBLE),
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.date32(): AtomicType(TypeRoot.DATE),
    pa.date64(): AtomicType(TypeRoot.DATE),
    pa.time32("s"): AtomicType(TypeRoot.TIME),
    pa.time32("ms"): AtomicType(TypeRoot.TIME, precision=3),
}
_UNIT_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def from_arrow_field(field: pa.Field) -> DataType:
    """The Paimon type of an Arrow field, its nullability included."""
    data_type = _from_arrow_type(field.type)
    return data_type if field.nullable else not_null(data_type)


def _from_arrow_type(arrow_type: pa.DataType) -> DataType:
    if arrow_type in _FROM_ARROW:
        return _FROM_ARROW[arrow_type]
    if pa.types.is_dictionary(arrow_type):
        return _from_arrow_type(arrow_type.value_type)
    if pa.types.is_decimal128(arrow_type):
        return AtomicType(TypeRoot.DECIMAL, precision=arrow_type.precision, scale=arrow_type.scale)
    if pa.types.is_timestamp(arrow_type):
        root = TypeRoot.TIMESTAMP_LTZ if arrow_type.tz else TypeRoot.TIMESTAMP
        return AtomicType(root, precision=_UNIT_PRECISIONS[arrow_type.unit])
    if pa.types.is_fixed_size_binary(arrow_type):
        return AtomicType(TypeRoot.BINARY, length=arrow_type.byte_width)
    if pa.types.is_map(arrow_type):
        key = not_null(_from_arrow_type(arrow_type.key_type))
        return MapType(key, from_arrow_field(arrow_type.item_field))
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return ArrayType(from_arrow_field(arrow_type.value_field))
    if pa.types.is_struct(arrow_type):
        members = [arrow_type.field(index) for index in range(arrow_type.num_fields)]
        return RowType(
            tuple(DataField(-1, member.name, from_arrow_field(member)) for member in members)
        )
    raise InvalidSchema(f"arrow type {arrow_type} has no counterpart in the format")
