"""Partition schemes: the partitions of an asset, and the form of their keys.

A scheme has one dimension, or two. A dimension is a span of time, a fixed list, or the values found
in the data. Its keys are the asset's keys in Dagster. A time dimension formats them in its own
format; keys of other dimensions are percent-encoded.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from zoneinfo import ZoneInfo

from lakewright.platform.tables.partition_keys import (
    InvalidPartitionKeyError,
    PartitionColumn,
    decode_partition,
    encode_partition,
)
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.values import from_python, to_python

# The separator that Dagster puts between the keys of two dimensions.
_DIMENSION_SEPARATOR = "|"
# A zone may get a new rule for its clocks after the span began. Without an end, a span is checked
# up to this long after today.
_LOOKED_AHEAD = dt.timedelta(days=5 * 366)


class Cadence(Enum):
    """The length of the partitions of a time dimension."""

    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"

    def begins_at(self, moment: dt.datetime) -> bool:
        """Whether a partition can begin at a moment; weeks begin on Monday."""
        if self is Cadence.WEEKLY:
            return moment.weekday() == 0
        return self is not Cadence.HOURLY or moment.minute == 0

    @property
    def key_format(self) -> str:
        """The format of keys; each cadence has its own, so no key is valid under two cadences."""
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
    """A partition column that holds a moment, and the format of its values."""

    column: PartitionColumn
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeDimension:
    """Partitions by time, from `start` up to but excluding `end`, or to the present.

    They begin by the clocks of `timezone`, which keys and columns show; a column TIMESTAMP WITH
    LOCAL TIME ZONE holds the moment itself.
    """

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
        return tuple(column.column.name for column in self.columns)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def key_form(self) -> str:
        return self.start.strftime(self.cadence.key_format)

    def key_of(self, spec: Mapping[str, object]) -> str:
        moment = self._moment_in(spec)
        key = self._written(moment)
        known = {name: spec[name] for name in self.column_names}
        try:
            begins = self.cadence.begins_at(moment) and self.spec_of(key) == known
        except InvalidPartitionKeyError:
            begins = False
        if not begins:
            raise InvalidPartitionKeyError(
                f"partition {describe_partition(spec)} does not begin one of the "
                f"{self.cadence.value} partitions in {self.timezone}"
            )
        return key

    def spec_of(self, key: str) -> dict[str, object]:
        moment = self._read(key)
        spec: dict[str, object] = {}
        for each in self.columns:
            column = each.column
            assert isinstance(column.type, AtomicType)
            if column.type.root is TypeRoot.DATE:
                spec[column.name] = moment.date()
            elif column.type.root is TypeRoot.TIMESTAMP_LTZ:
                spec[column.name] = moment.astimezone(dt.UTC)
            elif column.type.root is TypeRoot.TIMESTAMP:
                spec[column.name] = moment.replace(tzinfo=None, fold=0)
            else:
                text = moment.strftime(each.format)
                spec[column.name] = to_python(from_python(text, column.type), column.type)
        return spec

    def _moment_in(self, spec: Mapping[str, object]) -> dt.datetime:
        """The moment that a partition holds, by the clocks of the zone."""
        texts, formats = [], []
        for column in self.columns:
            value = spec.get(column.column.name)
            if value is None:
                raise InvalidPartitionKeyError(
                    f"partition {describe_partition(spec)} names no moment: {column.column.name} "
                    "is null"
                )
            if isinstance(value, dt.datetime) and value.tzinfo is not None:
                return value.astimezone(self.zone)
            texts.append(
                value.strftime(column.format) if isinstance(value, dt.date) else str(value)
            )
            formats.append(column.format)
        try:
            return self._local(_read_moment(" ".join(texts), " ".join(formats)))
        except ValueError as err:
            raise InvalidPartitionKeyError(
                f"partition {describe_partition(spec)} is not of the format {' '.join(formats)}"
            ) from err

    def _local(self, moment: dt.datetime) -> dt.datetime:
        if moment.tzinfo is None:
            return moment.replace(tzinfo=self.zone)
        return moment.astimezone(self.zone)

    def _written(self, moment: dt.datetime) -> str:
        """The key of a moment; Dagster marks the second of two equal hours by its offset.

        Equal hours occur when clocks are put back.
        """
        key = moment.strftime(self.cadence.key_format)
        if self.cadence is not Cadence.HOURLY or not moment.fold:
            return key
        first = moment.replace(fold=0)
        return key if first.utcoffset() == moment.utcoffset() else key + moment.strftime("%z")

    def _read(self, key: str) -> dt.datetime:
        layouts = [self.cadence.key_format]
        if self.cadence is Cadence.HOURLY:
            layouts.append(f"{self.cadence.key_format}%z")
        for layout in layouts:
            try:
                moment = self._local(_read_moment(key, layout))
            except ValueError:
                continue
            shown = moment.astimezone(dt.UTC).astimezone(self.zone)
            if self.cadence is Cadence.HOURLY and shown.hour != moment.hour:
                raise InvalidPartitionKeyError(
                    f"{key!r} is not an hour of {self.timezone}, whose clocks skip it"
                )
            return moment
        raise InvalidPartitionKeyError(
            f"{key!r} is not a {self.cadence.value} partition key; write one such as "
            f"{self.start.strftime(self.cadence.key_format)}"
        )

    def hours_in_conflict(self) -> str | None:
        """Why some hours of the span cannot have their own partitions; None if all can.

        When clocks are put back, an hour occurs twice, and most column types hold it only once.
        """
        if self.cadence is not Cadence.HOURLY:
            return None
        for before, after in self._clock_changes():
            change = _offset(after) - _offset(before)
            if change % dt.timedelta(hours=1):
                return (
                    f"clocks in {self.timezone} change by {abs(change)} at "
                    f"{after:%Y-%m-%d %H:%M}, after which hours begin at another minute; use "
                    "timezone UTC"
                )
            first, second = (after.replace(fold=fold) for fold in (0, 1))
            if change < dt.timedelta(0) and (
                self.spec_of(self._written(first)) == self.spec_of(self._written(second))
            ):
                names = ", ".join(self.column_names)
                return (
                    f"clocks in {self.timezone} show {after:%Y-%m-%d %H:%M} twice, and {names} "
                    "would hold both hours as one partition, so the run of one hour would "
                    "replace or repeat the rows of the other; use timezone UTC, a column "
                    "TIMESTAMP WITH LOCAL TIME ZONE, or text with %z in its format"
                )
        return None

    def _clock_changes(self) -> Iterator[tuple[dt.datetime, dt.datetime]]:
        """Each change of clocks in the span: the last minute before it, and the first after it."""
        before = self.start.replace(tzinfo=self.zone).astimezone(dt.UTC)
        today = dt.datetime.fromtimestamp(SystemEnv().now_ms() / 1000, dt.UTC)
        end = max(before, today) + _LOOKED_AHEAD
        if self.end is not None:
            end = self.end.replace(tzinfo=self.zone).astimezone(dt.UTC)
        while before < end:
            after = before + dt.timedelta(days=1)
            if _offset(before.astimezone(self.zone)) != _offset(after.astimezone(self.zone)):
                low, high = 0, 24 * 60
                while high - low > 1:
                    middle = (low + high) // 2
                    moment = (before + dt.timedelta(minutes=middle)).astimezone(self.zone)
                    if _offset(moment) == _offset(before.astimezone(self.zone)):
                        low = middle
                    else:
                        high = middle
                changed = before + dt.timedelta(minutes=high)
                if changed < end:
                    minute = dt.timedelta(minutes=1)
                    yield (changed - minute).astimezone(self.zone), changed.astimezone(self.zone)
            before = after


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

    @property
    def key_form(self) -> str:
        return self.keys[0]

    def key_of(self, spec: Mapping[str, object]) -> str:
        return encode_partition(spec, (self.column,))

    def spec_of(self, key: str) -> dict[str, object]:
        return decode_partition(key, (self.column,))


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicDimension:
    """Partitions found in the data; several columns share one key."""

    columns: tuple[PartitionColumn, ...]

    @property
    def name(self) -> str:
        return "_".join(self.column_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def key_form(self) -> str:
        if len(self.columns) == 1:
            return f"<value of {self.name}>"
        return "/".join(f"{name}=…" for name in self.column_names)

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
        return tuple(name for dimension in self.dimensions for name in dimension.column_names)

    @property
    def by_name(self) -> tuple[Dimension, ...]:
        """The dimensions in the order in which Dagster joins their keys."""
        return tuple(sorted(self.dimensions, key=lambda each: each.name))

    @property
    def key_form(self) -> str:
        """How keys look, for messages: `2024-01-31|region=…/hour=…`."""
        return _DIMENSION_SEPARATOR.join(each.key_form for each in self.by_name)

    @property
    def is_found_in_data(self) -> bool:
        """Whether rows make partitions that no declaration lists."""
        return any(isinstance(dimension, DynamicDimension) for dimension in self.dimensions)

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


def _offset(moment: dt.datetime) -> dt.timedelta:
    return moment.utcoffset() or dt.timedelta(0)


def _read_moment(text: str, layout: str) -> dt.datetime:
    # A moment without an offset is local to the zone of the dimension.
    return dt.datetime.strptime(text, layout)  # noqa: DTZ007


def default_formats(cadence: Cadence, columns: Sequence[PartitionColumn]) -> tuple[str, ...]:
    """The default formats of columns: `2013-12-03` for a date, and `07` for an hour."""
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
