"""Schemas that Kafka Connect writes beside values: what their numbers and texts stand for.

A decimal is base64 of its unscaled digits, or their bytes, a date a number of days, a time or a
timestamp a number of a unit that its logical type names. Only columns of such types are restored: a
column of whole numbers gets the number itself.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
)
from lakewright.storage.spec.values import EXACT_DECIMALS, StoredNumber, from_python, time_of_day

Schema = Mapping[str, Any]

_UNITS = {
    "org.apache.kafka.connect.data.Time": 1_000_000,
    "io.debezium.time.Time": 1_000_000,
    "io.debezium.time.MicroTime": 1_000,
    "io.debezium.time.NanoTime": 1,
    "org.apache.kafka.connect.data.Timestamp": 1_000_000,
    "io.debezium.time.Timestamp": 1_000_000,
    "io.debezium.time.MicroTimestamp": 1_000,
    "io.debezium.time.NanoTimestamp": 1,
}
_DATES = ("org.apache.kafka.connect.data.Date", "io.debezium.time.Date")
_ZONED = "io.debezium.time.ZonedTimestamp"
# What MySQL has for truth values, one digit wide.
_SMALL = ("int8", "int16")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_BITS = "io.debezium.data.Bits"
_VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"


def row_schema(schema: object) -> Mapping[str, Schema]:
    """The schema of each column of the rows that an event holds; none if it has no schema."""
    members = members_of(schema)
    return members_of(members.get("after") or members.get("before"))


def restored(
    row: Mapping[str, object], schema: Mapping[str, Schema], fields: Sequence[DataField]
) -> Mapping[str, object]:
    """A row whose moments and decimals are values, not numbers and texts that stand for them.

    Raises:
        ValueError: a value is not of the form that its schema says.
    """
    made = dict(row)
    for field in fields:
        kind = schema.get(field.name)
        value = made.get(field.name)
        if kind is not None and value is not None:
            try:
                made[field.name] = _restored(value, kind, field.type)
            except (ValueError, TypeError, KeyError, OverflowError) as error:
                raise ValueError(
                    f"field {field.name} is not what its schema says "
                    f"({kind.get('name') or kind.get('type')}): {error}"
                ) from None
    return made


def members_of(schema: object) -> dict[str, Schema]:
    """The schemas of a record's members, by name."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return {
        each["field"]: each
        for each in fields or ()
        if isinstance(each, dict) and isinstance(each.get("field"), str)
    }


def _restored(value: object, kind: Schema, data_type: DataType) -> object:
    match data_type:
        case AtomicType():
            return _atom(value, kind, data_type)
        case ArrayType(element=element) if isinstance(value, list):
            return [_or_null(each, kind["items"], element) for each in value]
        case MapType(value=inner) if isinstance(value, dict):
            return {name: _or_null(each, kind["values"], inner) for name, each in value.items()}
        case RowType(fields=fields) if isinstance(value, dict):
            return restored(value, members_of(kind), fields)
        case _:
            return value


def _or_null(value: object, kind: Schema, data_type: DataType) -> object:
    return None if value is None else _restored(value, kind, data_type)


def _atom(value: Any, kind: Schema, data_type: AtomicType) -> object:
    name = kind.get("name")
    root = data_type.root
    if root is TypeRoot.BOOLEAN and kind.get("type") in _SMALL:
        return value != 0
    if root.is_bytes and name == _BITS:
        # They have the last bits first.
        return base64.b64encode(_bytes(value)[::-1]).decode() if type(value) is str else value[::-1]
    if root is TypeRoot.DECIMAL and name == _DECIMAL:
        return _unscaled(value, int(kind["parameters"]["scale"]))
    if root is TypeRoot.DECIMAL and name == _VARIABLE_DECIMAL:
        return _unscaled(value["value"], value["scale"])
    if root is TypeRoot.DATE and name in _DATES:
        return StoredNumber(value)
    if root is TypeRoot.TIMESTAMP_LTZ and name == _ZONED:
        return StoredNumber(str(from_python(value, data_type)))
    if root.is_timestamp and name in _DATES:
        return StoredNumber(value * 86_400_000_000_000)
    if name in _UNITS and root.is_timestamp:
        return StoredNumber(value * _UNITS[name])
    if name in _UNITS and root is TypeRoot.TIME:
        micros, rest = divmod(value * _UNITS[name], 1000)
        if rest:
            raise ValueError("it is finer than milliseconds")
        return time_of_day(micros)
    return value


def _unscaled(held: str | bytes, scale: int) -> Decimal:
    digits = int.from_bytes(_bytes(held), "big", signed=True)
    return Decimal(digits).scaleb(-scale, EXACT_DECIMALS)


def _bytes(held: str | bytes) -> bytes:
    return held if isinstance(held, bytes) else base64.b64decode(held, validate=True)
