"""Arrow columns from and to canonical values, for the clients that speak Arrow."""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from . import canonical

NANOS_PER_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def arrow_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Canonical rows as Arrow columns; what a row lacks is null."""
    unknown = {name for row in rows for name in row} - set(schema.names)
    if unknown:
        raise ValueError(f"no such columns: {', '.join(sorted(unknown))}")
    columns = [
        pa.array([to_arrow(row.get(field.name), field.type) for row in rows], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def native_literal(value: Any, arrow_type: pa.DataType) -> Any:
    """A canonical value as the Python object that the clients take in predicates."""
    return pa.scalar(to_arrow(value, arrow_type), arrow_type).as_py()


def to_arrow(value: Any, arrow_type: pa.DataType) -> Any:
    """A canonical value as what pyarrow takes for `arrow_type`: times as integers in its unit."""
    if value is None:
        return None
    if pa.types.is_decimal(arrow_type):
        return Decimal(value)
    if pa.types.is_floating(arrow_type):
        return canonical.parse_float(value)
    if pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type):
        return bytes.fromhex(value)
    if pa.types.is_date32(arrow_type):
        return canonical.parse_date(value)
    if pa.types.is_time32(arrow_type):
        return canonical.parse_time(value)
    if pa.types.is_timestamp(arrow_type):
        millis, nanos = canonical.parse_timestamp(value)
        return (millis * 1_000_000 + nanos) // NANOS_PER_UNIT[arrow_type.unit]
    if pa.types.is_list(arrow_type):
        return [to_arrow(item, arrow_type.value_type) for item in value]
    if pa.types.is_map(arrow_type):
        return [
            (to_arrow(key, arrow_type.key_type), to_arrow(item, arrow_type.item_type))
            for key, item in value
        ]
    if pa.types.is_struct(arrow_type):
        return {field.name: to_arrow(value.get(field.name), field.type) for field in arrow_type}
    return value


def canonical_rows(table: pa.Table) -> list[dict[str, Any]]:
    columns = [[from_arrow(scalar) for scalar in column] for column in table.columns]
    return [
        dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)
    ]


def from_arrow(scalar: Any) -> Any:
    """The canonical value of one Arrow scalar."""
    arrow_type = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_decimal(arrow_type):
        return format(scalar.as_py(), "f")
    if pa.types.is_floating(arrow_type):
        return canonical.float_value(scalar.as_py())
    if pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type):
        return scalar.as_py().hex()
    if pa.types.is_date32(arrow_type):
        return canonical.date_text(scalar.value)
    if pa.types.is_time32(arrow_type):
        return canonical.time_text(scalar.value)
    if pa.types.is_timestamp(arrow_type):
        millis, nanos = divmod(scalar.value * NANOS_PER_UNIT[arrow_type.unit], 1_000_000)
        precision = 9 if arrow_type.unit == "ns" else 6
        return canonical.timestamp_text(millis, nanos, precision, arrow_type.tz is not None)
    if pa.types.is_map(arrow_type):
        return canonical.map_value(
            (from_arrow(entry["key"]), from_arrow(entry["value"])) for entry in scalar.values
        )
    if pa.types.is_list(arrow_type):
        return [from_arrow(item) for item in scalar.values]
    if pa.types.is_struct(arrow_type):
        return {field.name: from_arrow(scalar[field.name]) for field in arrow_type}
    return scalar.as_py()
