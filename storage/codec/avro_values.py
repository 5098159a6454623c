"""Values of Avro as they are stored.

The library rounds decimals to the precision that a schema declares, takes times beyond the day for
others, and fails at dates that Python has not.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

import fastavro

from lakewright.storage.spec.values import (
    NANOS_PER_MICRO,
    NANOS_PER_MILLI,
    StoredNumber,
    time_of_day,
)

_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DAY = dt.date(1970, 1, 1)
_LOCAL = dt.datetime(1970, 1, 1)
_MOMENT = _LOCAL.replace(tzinfo=dt.UTC)
_PREFIX = "lakewright-"


def exact_schema(schema: Any) -> Any:
    """A schema whose decimals and moments are read without change; UUIDs are their texts or bytes.

    What Python has no date or time for becomes a `StoredNumber`. The schema is for readers alone.
    """
    if isinstance(schema, list):
        return [exact_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: exact_schema(value) for key, value in schema.items() if key != "logicalType"}
    logical = schema.get("logicalType")
    if logical == "decimal":
        scale = schema.get("scale", 0)
        # A logical type that is not valid counts for nothing.
        is_valid = isinstance(scale, int) and scale >= 0
        return {**made, "logicalType": f"{_PREFIX}decimal"} if is_valid else made
    if f"{schema.get('type')}-{_PREFIX}{logical}" in _READERS:
        return {**made, "logicalType": f"{_PREFIX}{logical}"}
    return made


def _decimal(data: bytes, schema: Mapping[str, Any], _: object = None) -> Decimal:
    unscaled = Decimal(int.from_bytes(data, "big", signed=True))
    return unscaled.scaleb(-schema.get("scale", 0), _EXACT)


def _date(days: int, *_: object) -> object:
    try:
        return _DAY + dt.timedelta(days=days)
    except OverflowError:
        return StoredNumber(days)


def _times(a_second: int) -> Callable[..., object]:
    """Readers of times of day in a unit that is a microsecond or longer."""
    to_micros = 1_000_000 // a_second

    def read(count: int, *_: object) -> object:
        try:
            return time_of_day(count * to_micros)
        except ValueError:
            return StoredNumber(count)

    return read


def _timestamps(epoch: dt.datetime, nanos: int) -> Callable[..., object]:
    """Readers of timestamps in a unit of so many nanoseconds."""
    to_micros = nanos // NANOS_PER_MICRO

    def read(count: int, *_: object) -> object:
        try:
            return epoch + dt.timedelta(microseconds=count * to_micros)
        except OverflowError:
            return StoredNumber(count * nanos)

    return read


_READERS: Mapping[str, Callable[..., object]] = {
    f"bytes-{_PREFIX}decimal": _decimal,
    f"fixed-{_PREFIX}decimal": _decimal,
    f"int-{_PREFIX}date": _date,
    f"int-{_PREFIX}time-millis": _times(1_000),
    f"long-{_PREFIX}time-micros": _times(1_000_000),
    **{
        f"long-{_PREFIX}{local}timestamp-{unit}": _timestamps(epoch, nanos)
        for local, epoch in (("", _MOMENT), ("local-", _LOCAL))
        for unit, nanos in (("millis", NANOS_PER_MILLI), ("micros", NANOS_PER_MICRO))
    },
}
# Names of our own: the library reads its own logical types as before.
fastavro.read.LOGICAL_READERS.update(_READERS)
