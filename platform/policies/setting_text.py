"""Values of policies in words: durations, sizes, choices."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from pydantic.fields import FieldInfo

from lakewright.platform.documents.declared_values import Declared, Quantity, quantity_of
from lakewright.platform.policies.policies import Key
from lakewright.platform.tables.upkeep_policies import WarehousePolicy

_UNITS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000, "ms": 1}
_SIZES = {"TB": 1 << 40, "GB": 1 << 30, "MB": 1 << 20, "KB": 1 << 10}
# What holds where a key has no value.
_WITHOUT: Mapping[Key, str] = {
    ("compaction", "hours"): "the whole day",
    ("snapshots", "retain_min"): "the table's snapshot.num-retained.min",
    ("snapshots", "retain_max"): "the table's snapshot.num-retained.max",
    ("snapshots", "time_retained"): "the table's snapshot.time-retained",
    ("snapshots", "max_deletes"): "the table's snapshot.expire.limit",
    ("tags", "older_than"): "no age",
    ("changelogs", "retain_min"): "the table's changelog.num-retained.min",
    ("changelogs", "retain_max"): "the table's changelog.num-retained.max",
    ("changelogs", "time_retained"): "the table's changelog.time-retained",
    ("partitions", "older_than"): "the table's partition.expiration-time",
    ("partitions", "strategy"): "the table's partition.expiration-strategy",
    ("partitions", "pattern"): "the table's partition.timestamp-pattern",
    ("partitions", "formatter"): "the table's partition.timestamp-formatter",
    ("partitions", "max_partitions"): "the table's partition.expiration-max-num",
    ("statistics", "columns"): "all columns",
    ("respec", "keys"): "unchanged",
    ("respec", "primary_key"): "it stays",
    ("respec", "hours"): "the whole day",
    ("alerts", "webhook"): "no webhook",
    ("alerts", "mail_server"): "no mail",
    ("alerts", "mail_from"): "no mail",
    ("budget", "bytes"): "no limit",
    ("budget", "time"): "no limit",
}


def setting_text(key: Key, value: object) -> str:
    """The value of a key in words: `7 days`, `500 GB`, `22:00-06:00`."""
    match value:
        case None:
            return _WITHOUT.get(key, "not set")
        case bool():
            return "true" if value else "false"
        case int():
            return _number_text(value, quantity_of(KEYS[key]))
        case Enum():
            return str(value.value)
        case tuple():
            return ", ".join(map(str, value)) or "none"
        case _:
            return str(value)


def _number_text(value: int, quantity: Quantity | None) -> str:
    match quantity:
        case Quantity.DURATION_MS:
            return lasting(value)
        case Quantity.SIZE_BYTES:
            return _size(value)
        case None:
            return f"{value:,}"


def lasting(duration_ms: int) -> str:
    """A duration in the largest unit that holds it exactly: `7 days`, `90 minutes`."""
    if not duration_ms:
        return "0 seconds"
    unit = next(each for each, length in _UNITS.items() if duration_ms % length == 0)
    count = duration_ms // _UNITS[unit]
    plural = "" if count == 1 or unit == "ms" else "s"
    return f"{count:,} {unit}{plural}"


def _size(size_bytes: int) -> str:
    """A size as declarations write it, with units of 1024, in the largest that holds it exactly."""
    for unit, size in _SIZES.items():
        if size_bytes and size_bytes % size == 0:
            return f"{size_bytes // size:,} {unit}"
    return f"{size_bytes:,} bytes"


def _fields(model: type[Declared], above: Key = ()) -> dict[Key, FieldInfo]:
    found: dict[Key, FieldInfo] = {}
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Declared):
            found |= _fields(annotation, (*above, name))
        else:
            found[*above, name] = field
    return found


# Every key of a policy, with its description.
KEYS: Mapping[Key, FieldInfo] = _fields(WarehousePolicy)
