"""Partition schemes: which partitions of a table an asset has, and how their keys read.

A scheme has one dimension, or two: a span of time, a fixed list, or whatever
turns up in the data. Its keys are those of the asset in Dagster; a time
dimension prints them in its own format, the others percent-encoded.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from lakewright.platform.partition_keys import (
    InvalidPartitionKeyError,
    PartitionColumn,
    decode_partition,
    describe_partition,
    encode_partition,
)
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.values import from_python, to_python

# What Dagster puts between the keys of two dimensions.
_DIMENSION_SEPARATOR = "|"


class Cadence(Enum):
    """How long the partitions of a time dimension last."""

    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"

    def begins_at(self, moment: dt.datetime) -> bool:
        """Whether a partition can begin then; weeks begin on Monday."""
        if self is Cadence.WEEKLY:
            return moment.weekday() == 0
        return self is not Cadence.HOURLY or moment.minute == 0

    @property
    def key_format(self) -> str:
        """The format of keys; each cadence has its own, so that changing it strands no key."""
        match self:
            case Cadence.HOURLY:
                return "%Y-%m-%d-%H:%M"
            case Cadence.DAILY:
                return "%Y-%m-%d"
            case Cadence.WEEKLY:
                return "W%Y-%m-%d"
            case Cadence.MONTHLY:
                return "%Y-%m"


@dataclass(frozen=True, slots=True)
class FormattedColumn:
    """A partition column that holds a moment, and the format it holds it in."""

    column: PartitionColumn
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeDimension:
    """Partitions by time, from `start` up to but without `end`, or to the present."""

    cadence: Cadence
    columns: tuple[FormattedColumn, ...]
    start: dt.datetime
    end: dt.datetime | None = None
    timezone: str = "UTC"

    @property
    def name(self) -> str:
        return self.columns[0].column.name

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(each.column.name for each in self.columns)

    def key_of(self, spec: Mapping[str, object]) -> str:
        texts, formats = [], []
        for each in self.columns:
            value = spec.get(each.column.name)
            if value is None:
                raise InvalidPartitionKeyError(
                    f"partition {describe_partition(spec)} is no moment: {each.column.name} is null"
                )
            texts.append(value.strftime(each.format) if isinstance(value, dt.date) else str(value))
            formats.append(each.format)
        try:
            moment = _read_moment(" ".join(texts), " ".join(formats))
        except ValueError as err:
            raise InvalidPartitionKeyError(
                f"partition {describe_partition(spec)} is not of the format {' '.join(formats)}"
            ) from err
        key = moment.strftime(self.cadence.key_format)
        known = {name: spec[name] for name in self.column_names}
        if self.spec_of(key) != known or not self.cadence.begins_at(moment):
            raise InvalidPartitionKeyError(
                f"partition {describe_partition(spec)} does not begin one of the "
                f"{self.cadence.value} partitions"
            )
        return key

    def spec_of(self, key: str) -> dict[str, object]:
        moment = self._moment(key)
        spec: dict[str, object] = {}
        for each in self.columns:
            column = each.column
            assert isinstance(column.type, AtomicType)
            if column.type.root is TypeRoot.DATE:
                spec[column.name] = moment.date()
            elif column.type.root.is_timestamp:
                utc = column.type.root is TypeRoot.TIMESTAMP_LTZ
                spec[column.name] = moment.replace(tzinfo=dt.UTC) if utc else moment
            else:
                text = moment.strftime(each.format)
                spec[column.name] = to_python(from_python(text, column.type), column.type)
        return spec

    def _moment(self, key: str) -> dt.datetime:
        try:
            return _read_moment(key, self.cadence.key_format)
        except ValueError as err:
            raise InvalidPartitionKeyError(
                f"{key!r} is no {self.cadence.value} partition key; "
                f"write one like {self.start.strftime(self.cadence.key_format)}"
            ) from err


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticDimension:
    """Partitions by a fixed list of values."""

    column: PartitionColumn
    values: tuple[object, ...]

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def column_names(self) -> tuple[str, ...]:
        return (self.column.name,)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.key_of({self.name: value}) for value in self.values)

    def key_of(self, spec: Mapping[str, object]) -> str:
        return encode_partition(spec, (self.column,))

    def spec_of(self, key: str) -> dict[str, object]:
        return decode_partition(key, (self.column,))


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicDimension:
    """Partitions that turn up in the data; of several columns they share one key."""

    columns: tuple[PartitionColumn, ...]

    @property
    def name(self) -> str:
        return "_".join(self.column_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def key_of(self, spec: Mapping[str, object]) -> str:
        return encode_partition(spec, self.columns)

    def spec_of(self, key: str) -> dict[str, object]:
        return decode_partition(key, self.columns)


Dimension = TimeDimension | StaticDimension | DynamicDimension


@dataclass(frozen=True, slots=True)
class PartitionScheme:
    """The dimensions of a table's partitions; none for a table without partitions."""

    dimensions: tuple[Dimension, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(name for each in self.dimensions for name in each.column_names)

    @property
    def by_name(self) -> tuple[Dimension, ...]:
        """In the order in which Dagster joins their keys."""
        return tuple(sorted(self.dimensions, key=lambda each: each.name))

    def key_of(self, spec: Mapping[str, object]) -> str:
        """The asset's partition key of a table partition.

        Raises:
            InvalidPartitionKeyError: the partition is outside the scheme, such as a null day.
        """
        return _DIMENSION_SEPARATOR.join(each.key_of(spec) for each in self.by_name)

    def spec_of(self, key: str) -> dict[str, object]:
        """The table partition of an asset's partition key, columns in the scheme's order.

        Raises:
            InvalidPartitionKeyError: the key is of another form.
        """
        parts = key.split(_DIMENSION_SEPARATOR) if len(self.dimensions) > 1 else [key]
        if len(parts) != len(self.dimensions):
            raise InvalidPartitionKeyError(
                f"partition key {key!r} has {len(parts)} parts, and the table is partitioned by "
                f"{', '.join(each.name for each in self.by_name) or 'nothing'}"
            )
        found: dict[str, object] = {}
        for dimension, part in zip(self.by_name, parts, strict=True):
            try:
                found |= dimension.spec_of(part)
            except InvalidRequestError as err:
                raise InvalidPartitionKeyError(f"{part!r}: {err}") from err
        return {name: found[name] for name in self.column_names}


def _read_moment(text: str, layout: str) -> dt.datetime:
    # Partition values are local moments; which zone they are local to, the dimension says.
    return dt.datetime.strptime(text, layout)  # noqa: DTZ007


def default_formats(cadence: Cadence, columns: Sequence[PartitionColumn]) -> tuple[str, ...]:
    """How columns hold moments when nothing is said: `2013-12-03`, and `07` for an hour."""
    written = {Cadence.HOURLY: "%Y-%m-%d %H", Cadence.MONTHLY: "%Y-%m"}
    first = written.get(cadence, "%Y-%m-%d")
    column_type = columns[0].type
    if isinstance(column_type, AtomicType):
        if column_type.root is TypeRoot.DATE:
            first = "%Y-%m-%d"
        elif column_type.root.is_timestamp:
            first = "%Y-%m-%dT%H:%M:%S"
        elif column_type.root.is_integer:
            compact = {Cadence.MONTHLY: "%Y%m", Cadence.HOURLY: "%Y%m%d%H"}
            first = compact.get(cadence, "%Y%m%d")
    if len(columns) == 2 and cadence is Cadence.HOURLY:
        return ("%Y%m%d" if "%Y%m%d" in first else "%Y-%m-%d", "%H")
    return (first,)
