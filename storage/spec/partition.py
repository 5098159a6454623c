"""Partition folders: the text of partition values and how it is escaped.

Source: Paimon specification, chapter Partition, and `PartitionPathUtils`. A
folder is where files lie; which partition a file belongs to is said by the
bytes in its manifest entry, since two partitions (null and '') may share a folder.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from urllib.parse import unquote

from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.number_text import float_text, fraction_text
from lakewright.storage.spec.values import (
    NANOS_PER_SECOND,
    Value,
    to_python,
)

_SECONDS_A_DAY = 86_400
# After 400 years the calendar repeats.
_DAYS_A_CYCLE = 146_097

DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"

_ESCAPED = frozenset(chr(code) for code in range(0x20)) | frozenset("\x7f\"#%'*/:=?\\{}[]^")


def escape_path(text: str) -> str:
    """The text with every character that paths cannot hold as %XX."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def unescape_path(text: str) -> str:
    """The inverse of `escape_path`."""
    return unquote(text)


def partition_path(
    fields: Sequence[DataField],
    values: Sequence[Value],
    *,
    default_name: str = DEFAULT_PARTITION_NAME,
    legacy_name: bool = True,
) -> str:
    """`k1=v1/k2=v2` in the order of the partition keys, empty for unpartitioned tables."""
    parts = []
    for field, value in zip(fields, values, strict=True):
        text = partition_text(value, field, legacy_name=legacy_name)
        name = escape_path(text) if text is not None and text.strip() else default_name
        parts.append(f"{escape_path(field.name)}={name}")
    return "/".join(parts)


def partition_text(value: Value, field: DataField, *, legacy_name: bool = True) -> str | None:
    """How a partition value is written; `legacy_name` writes dates as days since the epoch."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    assert isinstance(field.type, AtomicType)
    root = field.type.root
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, float):
        return float_text(value, single=root is TypeRoot.FLOAT)
    if isinstance(value, Decimal):
        return format(value, "f")
    if root.is_timestamp:
        assert isinstance(value, int)
        return _timestamp_text(value, field.type, legacy_name=legacy_name)
    if root is TypeRoot.DATE and not legacy_name:
        assert isinstance(value, int)
        return _date_text(value)
    if root is TypeRoot.TIME and not legacy_name:
        moment = to_python(value, field.type)
        assert isinstance(moment, dt.time)
        return moment.isoformat()
    return str(value)


def _timestamp_text(nanos: int, data_type: AtomicType, *, legacy_name: bool) -> str:
    """ISO local date-time as `LocalDateTime.toString` prints it, or the text SQL casts it to."""
    days, second = divmod(nanos // NANOS_PER_SECOND, _SECONDS_A_DAY)
    time = (dt.datetime(1970, 1, 1) + dt.timedelta(seconds=second)).time()
    fraction = nanos % NANOS_PER_SECOND
    if not legacy_name:
        seconds = time.isoformat("seconds")
        return f"{_date_text(days)} {seconds}{fraction_text(fraction, data_type.precision)}"
    if fraction:
        digits = f"{fraction:09d}".removesuffix("000").removesuffix("000")
        return f"{_date_text(days)}T{time.isoformat('seconds')}.{digits}"
    return f"{_date_text(days)}T{time.isoformat('seconds' if time.second else 'minutes')}"


def _date_text(days: int) -> str:
    """Days since the epoch as `LocalDate.toString` prints them, in any year."""
    try:
        return (dt.date(1970, 1, 1) + dt.timedelta(days=days)).isoformat()
    except OverflowError:
        cycles, rest = divmod(days, _DAYS_A_CYCLE)
        near = dt.date(1970, 1, 1) + dt.timedelta(days=rest)
        year = near.year + 400 * cycles
        sign = "-" if year < 0 else "+" if year > 9999 else ""
        return f"{sign}{abs(year):04d}{near:-%m-%d}"
