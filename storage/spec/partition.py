"""Partitions: the values that rows share, the folder they lie in, and how it is escaped.

Source: Paimon specification, chapter Partition, and `PartitionPathUtils`. A
folder is where files lie; which partition a file belongs to is said by the
bytes in its manifest entry, since two partitions (null and '') may share a folder.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, DataField, DataType, TypeRoot
from lakewright.storage.spec.number_text import float_text, fraction_text
from lakewright.storage.spec.partition_text import partition_text, read_partition_text, shown_value
from lakewright.storage.spec.partition_words import describe_partition, name_partition
from lakewright.storage.spec.values import (
    NANOS_PER_SECOND,
    Value,
    from_python,
    order_key,
    same_value,
    to_python,
)

_SECONDS_A_DAY = 86_400
# After 400 years the calendar repeats.
_DAYS_A_CYCLE = 146_097

DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"

_ESCAPED = frozenset(chr(code) for code in range(0x20)) | frozenset("\x7f\"#%'*/:=?\\{}[]^")


class Place(NamedTuple):
    """A bucket: the row of its partition, as manifests hold it, and its number."""

    partition: bytes
    bucket: int


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The partition keys of one version of a table's schema, and how the folders are named."""

    schema_id: int
    fields: tuple[DataField, ...]
    default_name: str = DEFAULT_PARTITION_NAME
    legacy_name: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(field.type for field in self.fields)

    def values_of(self, text: str) -> tuple[Value, ...]:
        """The stored values of a partition from its text.

        Raises:
            InvalidRequestError: the text names other columns, or a value is not of its type.
        """
        return read_partition_text(text, self.fields)

    def stored(self, spec: Mapping[str, object], *, table: str) -> dict[str, Value]:
        """What a caller gave for some of the keys, as stored values in the order of the keys.

        Raises:
            InvalidRequestError: a name is not a partition key, or a value is not of its type.
        """
        if not isinstance(spec, Mapping):
            raise InvalidRequestError(
                f"{spec!r:.100} names no partition of {table}; give keys with values, as a dict"
            )
        for name in spec:
            if name not in self.names:
                have = ", ".join(self.names) or "none, it is not partitioned"
                raise InvalidRequestError(
                    f"{name!r} is not a partition key of {table}; its partition keys are {have}"
                )
        return {
            field.name: from_python(spec[field.name], field.type)
            for field in self.fields
            if field.name in spec
        }


@dataclass(frozen=True, eq=False)
class Partition:
    """The values of a table's partition keys, with the schema of those keys.

    Two partitions are equal if their keys and the bytes of their rows are equal, also under
    different schemas: -0.0, 0.0 and each NaN are different partitions. `row` is the row in
    manifests, `values` are its decoded values.
    """

    keys: PartitionKeys
    row: bytes
    values: tuple[Value, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return self.row == other.row and self.keys.names == other.keys.names

    def __hash__(self) -> int:
        return hash(self.row)

    @property
    def schema_id(self) -> int:
        return self.keys.schema_id

    @property
    def stored(self) -> dict[str, Value]:
        """The values by key, as the format stores them."""
        return dict(zip(self.keys.names, self.values, strict=True))

    @property
    def spec(self) -> dict[str, object]:
        """The values by key, as Python users know them."""
        return {
            field.name: to_python(value, field.type)
            for field, value in zip(self.keys.fields, self.values, strict=True)
        }

    @cached_property
    def path(self) -> str:
        """The folder of its files below the table's, `k1=v1/k2=v2`; empty without keys."""
        return partition_path(
            self.keys.fields,
            self.values,
            default_name=self.keys.default_name,
            legacy_name=self.keys.legacy_name,
        )

    @property
    def text(self) -> str:
        """The values as one text, which `PartitionKeys.values_of` reads back."""
        return partition_text(self.values, self.keys.fields)

    @property
    def words(self) -> str:
        """The values as messages tell them, and options take them; keys have `text`."""
        return describe_partition(self._shown)

    @property
    def named(self) -> str:
        """`partition dt=2026-01-31`, or `the only partition`."""
        return name_partition(self._shown)

    @property
    def _shown(self) -> dict[str, object]:
        return {
            field.name: shown_value(value, field.type)
            for field, value in zip(self.keys.fields, self.values, strict=True)
        }

    @property
    def order(self) -> tuple[Any, ...]:
        """A key that sorts partitions by their values; null comes before all others."""
        # Nothing is compared with what stands for null.
        values = (
            (value is not None, None if value is None else order_key(value))
            for value in self.values
        )
        return (self.keys.names, *values)

    def is_named(self, spec: Mapping[str, Value]) -> bool:
        """Whether it has the stored values of a spec, which may leave keys out."""
        own = self.stored
        return all(name in own and same_value(own[name], spec[name]) for name in spec)


def escape_path(text: str) -> str:
    """The text with every character that paths cannot hold as %XX."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


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
        text = partition_value_text(value, field, legacy_name=legacy_name)
        name = escape_path(text) if text is not None and text.strip() else default_name
        parts.append(f"{escape_path(field.name)}={name}")
    return "/".join(parts)


def partition_value_text(value: Value, field: DataField, *, legacy_name: bool = True) -> str | None:
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
