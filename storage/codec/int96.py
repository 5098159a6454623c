"""Timestamps of Parquet's type INT96: nanoseconds of a day, and the day's Julian number.

The library's own decoder counts nanoseconds in 64 bits, which wraps those that these do not reach.
Its coarser units are wrong about what Java Paimon and old versions of the library write before
1970: a day later and a negative number of nanoseconds. So the bytes are decoded here.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_timestamps import OutOfRange
from lakewright.storage.codec.hybrid_calendar import (
    UNITS_PER_DAY,
    HybridCalendar,
    proleptic_days,
)

INT96_BYTES = 12
_RAW = np.dtype([("nanos", "<i8"), ("julian_day", "<u4")])
_JULIAN_DAY_OF_1970 = 2_440_588
_NANOS_PER_DAY = UNITS_PER_DAY["ns"]
_LEAST, _MOST = -(2**63), 2**63 - 1
_NONE = np.zeros(0, bool)


def decoded_int96(
    array: pa.FixedSizeBinaryArray,
    kind: pa.TimestampType,
    calendar: HybridCalendar | None,
    *,
    cut: bool,
    column: str,
    path: str,
) -> pa.Array:
    """Bytes of INT96 as timestamps of a type; they count from 1970 in UTC.

    With `cut`, digits that the type does not hold are left out.

    Raises:
        OutOfRange: the type does not hold a value, or not all of its digits.
        UnsupportedError: the calendar does not tell which day a value is.
    """
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    days, nanos = _split(array, valid)
    if calendar is not None and calendar.int96 is not None:
        shown = pa.array(days.astype(np.int32)).view(pa.date32())
        calendar.check(calendar.int96, days, shown, column=column, path=path)
        days = proleptic_days(days)
    units_per_day = UNITS_PER_DAY[kind.unit]
    nanos_per_unit = _NANOS_PER_DAY // units_per_day
    rest = nanos if nanos_per_unit == 1 else nanos // nanos_per_unit
    outside = _outside(days, rest, units_per_day)
    too_fine = nanos != rest * nanos_per_unit if nanos_per_unit > 1 and not cut else _NONE
    for lost, is_far in ((outside, True), (too_fine, False)):
        if lost.any():
            at = int(np.argmax(lost))
            raise OutOfRange(_text(int(days[at]), int(nanos[at])), kind, is_far=is_far)
    return pa.array(days * units_per_day + rest, pa.int64(), mask=~valid).view(kind)


def _outside(days: np.ndarray, rest: np.ndarray, units_per_day: int) -> np.ndarray:
    """Which counts of units do not fit into 64 bits."""
    first, last = divmod(_LEAST, units_per_day), divmod(_MOST, units_per_day)
    if first[0] < days.min(initial=0) and days.max(initial=0) < last[0]:
        return _NONE
    found: np.ndarray = (
        (days < first[0])
        | ((days == first[0]) & (rest < first[1]))
        | (days > last[0])
        | ((days == last[0]) & (rest > last[1]))
    )
    return found


def whole_days_of_int96(
    array: pa.FixedSizeBinaryArray, calendar: HybridCalendar | None
) -> pa.Array:
    """The days of the timestamps, by arithmetic that cannot leave 64 bits."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    days, _ = _split(array, valid)
    if calendar is not None and calendar.int96 is not None:
        days = proleptic_days(days)
    return pa.array(days, pa.int64(), mask=~valid)


def _split(array: pa.FixedSizeBinaryArray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970, and nanoseconds of these days; zeros in place of nulls."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), np.int64), np.zeros(len(array), np.int64)
    raw = np.frombuffer(data, _RAW, count=len(array), offset=array.offset * INT96_BYTES)
    nanos, days = raw["nanos"].copy(), raw["julian_day"].astype(np.int64) - _JULIAN_DAY_OF_1970
    if array.null_count:
        nanos[~valid], days[~valid] = 0, 0
    if nanos.min() < 0 or nanos.max() >= _NANOS_PER_DAY:
        whole = nanos // _NANOS_PER_DAY
        return days + whole, nanos - whole * _NANOS_PER_DAY
    return days, nanos


def _text(day: int, nanos: int) -> str:
    """A timestamp as messages show it."""
    seconds, rest = divmod(nanos, 10**9)
    minutes, second = divmod(seconds, 60)
    fraction = f".{rest:09}".rstrip("0").rstrip(".")
    return f"{np.datetime64(day, 'D')} {minutes // 60:02}:{minutes % 60:02}:{second:02}{fraction}"
