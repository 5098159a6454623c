"""Statistics files: JSON ↔ `TableStatistics`, and values → text of bounds.

Source: Paimon `Statistics`, `ColStats`; bounds are written as `serializeToString` of their types.
"""

from __future__ import annotations

import json
from typing import Any

from lakewright.storage.codec.json_values import as_object, as_text, as_whole, read_object
from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.partition import partition_value_text
from lakewright.storage.spec.table_statistics import ColumnStatistics, TableStatistics
from lakewright.storage.spec.values import Value

Json = dict[str, Any]

# Attribute of `ColumnStatistics` for each JSON key; unknown statistics are omitted.
_COLUMN_KEYS = {
    "colId": "field_id",
    "distinctCount": "distinct_count",
    "min": "minimum",
    "max": "maximum",
    "nullCount": "null_count",
    "avgLen": "avg_len",
    "maxLen": "max_len",
}


def encode_statistics(statistics: TableStatistics) -> bytes:
    """The statistics file."""
    data: Json = {"snapshotId": statistics.snapshot_id, "schemaId": statistics.schema_id}
    if statistics.merged_record_count is not None:
        data["mergedRecordCount"] = statistics.merged_record_count
    if statistics.merged_record_size is not None:
        data["mergedRecordSize"] = statistics.merged_record_size
    data["colStats"] = _columns_json(statistics)
    return _pretty(data).encode()


def decode_statistics(data: bytes, *, name: str) -> TableStatistics:
    """Read a statistics file; error messages call it `name`.

    Raises:
        CorruptionError: the file holds no statistics.
    """
    try:
        read = read_object(data)
        return TableStatistics(
            snapshot_id=as_whole(read["snapshotId"]),
            schema_id=as_whole(read["schemaId"]),
            merged_record_count=_count(read.get("mergedRecordCount")),
            merged_record_size=_count(read.get("mergedRecordSize")),
            columns=tuple(
                _column(column, as_object(stats))
                for column, stats in as_object(read.get("colStats") or {}).items()
            ),
        )
    except (ValueError, KeyError) as error:
        raise CorruptionError(
            f"{name} holds no statistics: {error!r}; analyze the table again", path=name
        ) from error


def _column(name: str, stats: Json) -> ColumnStatistics:
    return ColumnStatistics(
        name=name,
        field_id=as_whole(stats["colId"]),
        distinct_count=_count(stats.get("distinctCount")),
        minimum=_bound(stats.get("min")),
        maximum=_bound(stats.get("max")),
        null_count=_count(stats.get("nullCount")),
        avg_len=_count(stats.get("avgLen")),
        max_len=_count(stats.get("maxLen")),
    )


def column_statistics_text(statistics: TableStatistics) -> str:
    """The columns as the system table `statistics` shows them: the JSON of the file."""
    return _pretty(_columns_json(statistics))


def encode_bound(value: Value, field: DataField) -> str | None:
    """A bound as the file holds it; None where the format has no text for values of the type."""
    if value is None or not isinstance(field.type, AtomicType) or field.type.root.is_bytes:
        return None
    if field.type.root in (TypeRoot.DATE, TypeRoot.TIME):
        return str(value)
    return partition_value_text(value, field, legacy_name=False)


def _columns_json(statistics: TableStatistics) -> Json:
    return {
        column.name: {
            key: value
            for key, attribute in _COLUMN_KEYS.items()
            if (value := getattr(column, attribute)) is not None
        }
        for column in statistics.columns
    }


def _pretty(data: Json) -> str:
    """As Jackson prints: a space before each colon, and inside an empty object."""
    text = json.dumps(data, indent=2, separators=(",", " : "), ensure_ascii=False)
    return text.replace("{}", "{ }") if not data or data.get("colStats") == {} else text


def _count(value: object) -> int | None:
    return None if value is None else as_whole(value)


def _bound(value: object) -> str | None:
    return None if value is None else as_text(value)
