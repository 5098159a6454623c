"""How system tables print values: rows, keys, maps and JSON, as the format's own tables do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from lakewright.storage.codec.binary_row import decode_row
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.partition import Partition, partition_value_text
from lakewright.storage.spec.values import Value


def value_text(value: Value, field: DataField) -> str:
    """A value cast to text, as SQL prints it."""
    if value is None:
        return "null"
    if isinstance(field.type, AtomicType) and field.type.root is TypeRoot.TIME:
        assert isinstance(value, int)
        seconds, millis = divmod(value, 1000)
        text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return f"{text}.{millis:03d}" if millis else text
    return partition_value_text(value, field, legacy_name=False) or ""


def row_text(data: bytes, fields: Sequence[DataField]) -> str:
    """A row as `{v1, v2}`, its values cast to text."""
    return _listed(fields, decode_row(data, [field.type for field in fields], first=True))


def partition_text(partition: Partition) -> str:
    """A partition as `{v1, v2}`, its values cast to text."""
    return _listed(partition.keys.fields, partition.values)


def _listed(fields: Sequence[DataField], values: Sequence[Value]) -> str:
    texts = (value_text(value, field) for value, field in zip(values, fields, strict=True))
    return "{" + ", ".join(texts) + "}"


def stored_text(value: Value, field: DataField) -> str:
    """A value in its stored form: dates and times as numbers, bytes in hexadecimal."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    return partition_value_text(value, field) or ""


def key_text(key: bytes, fields: Sequence[DataField]) -> str | None:
    """A key as `[v1, v2]`; None for tables without one."""
    if not fields:
        return None
    values = decode_row(key, [field.type for field in fields])
    texts = (stored_text(value, field) for value, field in zip(values, fields, strict=True))
    return "[" + ", ".join(texts) + "]"


def map_text(texts: Mapping[str, str]) -> str:
    """`{k1=v1, k2=v2}` in the order of the names."""
    return "{" + ", ".join(f"{name}={texts[name]}" for name in sorted(texts)) + "}"


def flat_json(value: object) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
