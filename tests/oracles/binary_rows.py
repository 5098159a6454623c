"""Paimon's BinaryRow bytes as canonical values, for rows that Java hands over in bulk."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from .canonical import (
    ValueType,
    date_text,
    decimal_text,
    float_value,
    map_value,
    time_text,
    timestamp_text,
)

FIXED = {
    "BOOLEAN": "<?",
    "TINYINT": "<b",
    "SMALLINT": "<h",
    "INT": "<i",
    "BIGINT": "<q",
    "FLOAT": "<f",
    "DOUBLE": "<d",
    "DATE": "<i",
    "TIME": "<i",
}
TEXT = {"STRING", "VARCHAR", "CHAR"}
BYTES = {"BYTES", "VARBINARY", "BINARY"}
# Decimals and timestamps up to these precisions live in their slot.
COMPACT_DECIMAL = 18
COMPACT_TIMESTAMP = 3


def decode_rows(data: bytes, row_type: ValueType) -> Iterator[dict[str, Any]]:
    """Rows that each follow their length as a big-endian integer."""
    for _, row in decode_changes(data, row_type):
        yield row


def decode_changes(data: bytes, row_type: ValueType) -> Iterator[tuple[int, dict[str, Any]]]:
    """The same with the row kind (0 to 3) that each row carries in its first byte."""
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        yield data[position], decode_row(data, position, row_type)
        position += size


def decode_row(data: bytes, start: int, row_type: ValueType) -> dict[str, Any]:
    slots = start + (len(row_type.fields) + 63 + 8) // 64 * 8
    return {
        name: None
        if is_set(data, start, index + 8)
        else decode_value(data, start, slots + 8 * index, value_type)
        for index, (name, value_type) in enumerate(row_type.fields)
    }


def decode_array(data: bytes, start: int, element: ValueType) -> list[Any]:
    (count,) = struct.unpack_from("<i", data, start)
    slots = start + 4 + (count + 31) // 32 * 4
    width = struct.calcsize(FIXED[element.root]) if element.root in FIXED else 8
    return [
        None
        if is_set(data, start + 4, index)
        else decode_value(data, start, slots + width * index, element)
        for index in range(count)
    ]


def decode_map(data: bytes, start: int, map_type: ValueType) -> list[list[Any]]:
    assert map_type.key is not None
    assert map_type.element is not None
    (key_size,) = struct.unpack_from("<i", data, start)
    keys = decode_array(data, start + 4, map_type.key)
    values = decode_array(data, start + 4 + key_size, map_type.element)
    return map_value(zip(keys, values, strict=True))


def decode_value(data: bytes, base: int, slot: int, value_type: ValueType) -> Any:
    """The value at `slot` of the row or array that starts at `base`."""
    root = value_type.root
    if root in FIXED:
        (number,) = struct.unpack_from(FIXED[root], data, slot)
        match root:
            case "DATE":
                return date_text(number)
            case "TIME":
                return time_text(number)
            case "FLOAT" | "DOUBLE":
                return float_value(number)
            case _:
                return number
    (word,) = struct.unpack_from("<q", data, slot)
    if root == "DECIMAL" and value_type.precision <= COMPACT_DECIMAL:
        return decimal_text(word, value_type.scale)
    zoned = root == "TIMESTAMP_LTZ"
    if (zoned or root == "TIMESTAMP") and value_type.precision <= COMPACT_TIMESTAMP:
        return timestamp_text(word, 0, value_type.precision, zoned)
    inline = root in TEXT | BYTES and data[slot + 7] & 0x80
    start, size = (
        (slot, data[slot + 7] & 0x7F) if inline else (base + (word >> 32), word & 0xFFFFFFFF)
    )
    if root in TEXT:
        return data[start : start + size].decode()
    if root in BYTES:
        return data[start : start + size].hex()
    match root:
        case "DECIMAL":
            return decimal_text(
                int.from_bytes(data[start : start + size], "big", signed=True), value_type.scale
            )
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            (millis,) = struct.unpack_from("<q", data, start)
            return timestamp_text(millis, size, value_type.precision, zoned)
        case "ARRAY":
            assert value_type.element is not None
            return decode_array(data, start, value_type.element)
        case "MAP":
            return decode_map(data, start, value_type)
        case "ROW":
            return decode_row(data, start, value_type)
        case _:
            raise ValueError(f"cannot decode values of type {root}")


def is_set(data: bytes, start: int, bit: int) -> bool:
    return bool(data[start + bit // 8] >> bit % 8 & 1)
