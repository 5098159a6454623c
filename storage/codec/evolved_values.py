"""Casts of values that were written under an older column type to the present type.

The results equal those of Java Paimon (`CastExecutors`), in the releases that agree with the
newest. Where a time zone matters, it is the machine's, as in Java: two machines may read different
texts of the same moments.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec import java_text
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.spec.data_types import INTEGER_BITS, STRING, AtomicType, TypeRoot
from lakewright.storage.spec.number_text import float_text, fraction_text

_Numbers: TypeAlias = np.ndarray[Any, Any]

_MS_PER_DAY = 86_400_000
_NANOS_PER_MS = 1_000_000
_EPOCH = dt.datetime(1970, 1, 1)
# Moments whose wall clock time in every zone is a date that Python can represent.
_FIRST_MS = (dt.datetime(1, 1, 3) - _EPOCH) // dt.timedelta(milliseconds=1)
_LAST_MS = (dt.datetime(9999, 12, 29) - _EPOCH) // dt.timedelta(milliseconds=1)
_YEAR_0_SECONDS = int(np.datetime64("0000-01-01", "s").astype(np.int64))
# Unscaled decimals of up to this many digits are 64-bit integers in Java.
_COMPACT_DIGITS = 18
_MOST_SHOWN = 40


def is_same_type(old: AtomicType, new: AtomicType) -> bool:
    """Whether the types differ at most in their nullability."""
    return replace(old, nullable=True) == replace(new, nullable=True)


def evolved(array: pa.Array, old: AtomicType, new: AtomicType, *, shown: bool = False) -> pa.Array:
    """Cast values from the Arrow type of `old` to that of `new`.

    A decimal that is too wide for its new type becomes null. Arrow texts cannot hold bytes that are
    no UTF-8: with `shown`, for output only, replacement characters stand for them. Java keeps the
    bytes.

    Raises:
        pa.ArrowInvalid: a value cannot be cast, as it cannot in Java.
        pa.ArrowNotImplementedError: Java does not cast between these types.
    """
    if is_same_type(old, new):
        return array
    cast = _shown_texts if shown and old.root.is_bytes and new.root.is_text else _cast_of(old, new)
    if cast is None:
        raise pa.ArrowNotImplementedError(f"no client casts {old} to {new}")
    result = cast(array, old, new)
    return result.cast(to_arrow_type(new))


_Cast: TypeAlias = Callable[[pa.Array, AtomicType, AtomicType], pa.Array]


def _cast_of(old: AtomicType, new: AtomicType) -> _Cast | None:
    source, target = _kind(old.root), _kind(new.root)
    if (source, target) not in _CASTS:
        return None
    if target == "text" and source in ("date", "time", "timestamp"):
        # Java casts these types to STRING, and not to CHAR(n) or VARCHAR(n).
        return _CASTS[source, target] if is_same_type(new, STRING) else None
    whole_seconds = {TypeRoot.INT, TypeRoot.BIGINT}
    if (source, target) == ("integer", "timestamp") and old.root not in whole_seconds:
        return None
    if (source, target) == ("timestamp", "integer") and new.root not in whole_seconds:
        return None
    return _CASTS[source, target]


def _kind(root: TypeRoot) -> str:
    if root.is_integer:
        return "integer"
    if root.is_floating:
        return "floating"
    if root.is_text:
        return "text"
    if root.is_bytes:
        return "bytes"
    return "timestamp" if root.is_timestamp else root.value.lower()


# --- numbers -----------------------------------------------------------------------------------


def _numbers(array: pa.Array) -> _Numbers:
    """The values as numbers, with zeros in place of nulls."""
    filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    values: _Numbers = filled.to_numpy(zero_copy_only=False)
    return values


def _where_valid(values: _Numbers, array: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind, mask=array.is_null().to_numpy(zero_copy_only=False))


def _integer_type(new: AtomicType) -> np.dtype[Any]:
    return np.dtype(f"i{INTEGER_BITS[new.root] // 8}")


def _wrapped(values: Iterable[int], new: AtomicType) -> list[int]:
    bits = INTEGER_BITS[new.root]
    half = 1 << (bits - 1)
    return [(value + half) % (1 << bits) - half for value in values]


def _integers_to_integers(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return _where_valid(_numbers(array).astype(_integer_type(new)), array, to_arrow_type(new))


def _floats_to_integers(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    # Java casts to 32 or 64 bits first, which clamps to the nearest bound; narrower types then wrap
    # around.
    wide = np.dtype("i8") if new.root is TypeRoot.BIGINT else np.dtype("i4")
    values, bounds = _numbers(array).astype(np.float64), np.iinfo(wide)
    with np.errstate(invalid="ignore"):
        cut = np.trunc(np.nan_to_num(values, nan=0.0)).astype(wide)
    cut = np.where(values >= float(bounds.max), bounds.max, cut)
    cut = np.where(values <= float(bounds.min), bounds.min, cut)
    return _where_valid(cut.astype(_integer_type(new)), array, to_arrow_type(new))


def _decimals_to_integers(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    present = array.drop_null().to_pylist()
    values = np.zeros(len(array), _integer_type(new))
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    values[valid] = _wrapped((int(each) for each in present), new)
    return _where_valid(values, array, to_arrow_type(new))


def _to_floating(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    wanted = np.float32 if new.root is TypeRoot.FLOAT else np.float64
    with np.errstate(over="ignore"):
        values = _numbers(array).astype(wanted)
    return _where_valid(values, array, to_arrow_type(new))


def _decimals_to_floating(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    def double(value: Decimal) -> float:
        if old.precision > _COMPACT_DIGITS:
            return float(value)
        return float(int(value.scaleb(old.scale))) / float(10**old.scale)

    wide = _each(array, double, pa.float64())
    return _to_floating(wide, old, new)


def _to_decimal(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    def decimal(value: Any) -> Decimal | None:
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if not exact.is_finite():
            raise ValueError(value)
        return java_text.fitted_decimal(exact, new.precision, new.scale)

    return _each(array, decimal, to_arrow_type(new), named=str(new))


def _to_boolean(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return _where_valid(_numbers(array) != 0, array, to_arrow_type(new))


def _each(
    array: pa.Array, convert: Callable[[Any], Any], kind: pa.DataType, *, named: str = ""
) -> pa.Array:
    """Convert each value; an error names a value that `convert` refuses, and the type `named`."""
    result: list[Any] = []
    for value in array.to_pylist():
        try:
            result.append(None if value is None else convert(value))
        except (ValueError, OverflowError) as error:
            shown = repr(value)[:_MOST_SHOWN]
            raise pa.ArrowInvalid(f"{shown} cannot be read as {named}") from error
    return pa.array(result, kind)


# --- texts and bytes -----------------------------------------------------------------------------


def _fitted_texts(texts: pa.Array, new: AtomicType) -> pa.Array:
    """Cut texts to the length of the type, and pad CHAR with blanks."""
    if (pc.max(pc.utf8_length(texts)).as_py() or 0) > new.length:
        texts = pc.utf8_slice_codeunits(texts, 0, new.length)
    return pc.utf8_rpad(texts, new.length) if new.root is TypeRoot.CHAR else texts


def _texts_to_texts(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return _fitted_texts(array, new)


def _plain_to_texts(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return _fitted_texts(array.cast(pa.string()), new)


def _decimals_to_texts(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return _fitted_texts(_each(array, lambda value: format(value, "f"), pa.string()), new)


def _floats_to_texts(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    narrow = old.root is TypeRoot.FLOAT
    shortest = array.cast(pa.string()).to_pylist()
    texts = [
        None if text is None else float_text(value, single=narrow, shortest=text)
        for value, text in zip(array.to_pylist(), shortest, strict=True)
    ]
    return _fitted_texts(pa.array(texts, pa.string()), new)


def _shown_texts(array: pa.Array, _: AtomicType, __: AtomicType) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return _each(array, lambda value: value.decode("utf-8", "replace"), pa.string())


def _bytes_to_texts(array: pa.Array, _: AtomicType, __: AtomicType) -> pa.Array:
    # Java ignores the length of the new type here.
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(
            "bytes that are not UTF-8 can be shown as text, but cannot be rewritten as text; "
            "alter the column back to BYTES first"
        ) from error


def _to_bytes(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    values = array.cast(pa.binary())
    if (pc.max(pc.binary_length(values)).as_py() or 0) > new.length:
        values = pc.binary_slice(values, 0, new.length)
    if new.root is TypeRoot.BINARY:
        return _each(values, lambda value: value.ljust(new.length, b"\0"), pa.binary())
    return values


def parsed(text: str, new: AtomicType) -> Any:
    """The value of a text; a timestamp is its milliseconds since 1970 and its nanoseconds.

    Raises:
        ValueError, OverflowError: the text is no value of the type.
    """
    match _kind(new.root):
        case "boolean":
            return java_text.parse_boolean(text)
        case "integer":
            return java_text.parse_integer(text, INTEGER_BITS[new.root])
        case "floating":
            narrow = new.root is TypeRoot.FLOAT
            return java_text.parse_float(text) if narrow else java_text.parse_double(text)
        case "decimal":
            return java_text.parse_decimal(text, new.precision, new.scale)
        case "date":
            return java_text.parse_date(text)
        case "time":
            return java_text.parse_time(text)
    if text.isascii() and text.isdigit() and new.root is not TypeRoot.TIMESTAMP_LTZ:
        return java_text.parse_epoch(text, new.precision)
    return java_text.parse_timestamp(text, new.precision)


def _parse_texts(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    return _each(array, lambda text: parsed(text, new), to_arrow_type(new), named=str(new))


def _texts_to_timestamps(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    zoned = new.root is TypeRoot.TIMESTAMP_LTZ
    pairs = _each(array, lambda text: parsed(text, new), pa.list_(pa.int64(), 2), named=str(new))
    millis, nanos = (_numbers(pc.list_element(pairs, index)) for index in (0, 1))
    return _timestamps(_to_moments(millis) if zoned else millis, nanos, array, new)


# --- dates and times ---------------------------------------------------------------------------


def _dates_to_texts(array: pa.Array, _: AtomicType, __: AtomicType) -> pa.Array:
    days = _numbers(array.cast(pa.int32())).astype(np.int64)
    texts = [text[:10] for text in _clock_texts(days * 86_400)]
    return _where_valid(np.array(texts, dtype=object), array, pa.string())


def _clock_texts(seconds: _Numbers) -> list[str]:
    """Dates and times such as 2024-01-02 03:04:05."""
    if np.any(seconds < _YEAR_0_SECONDS):
        raise pa.ArrowInvalid("a date before the year 0 has no text")
    texts: list[str] = np.datetime_as_string(seconds.astype("M8[s]")).tolist()
    # Java writes the last four digits of a year.
    return [text[-19:].replace("T", " ") for text in texts]


def _timestamps_to_texts(array: pa.Array, old: AtomicType, _: AtomicType) -> pa.Array:
    millis, nanos = _split(array)
    if old.root is TypeRoot.TIMESTAMP_LTZ:
        millis = _to_wall_clock(millis)
    fractions = (millis % 1000) * _NANOS_PER_MS + nanos
    texts = [
        text + fraction_text(fraction, old.precision)
        for text, fraction in zip(_clock_texts(millis // 1000), fractions.tolist(), strict=True)
    ]
    return _where_valid(np.array(texts, dtype=object), array, pa.string())


def _times_to_texts(array: pa.Array, old: AtomicType, _: AtomicType) -> pa.Array:
    millis = array.cast(pa.int32())
    return _each(millis, lambda each: java_text.time_text(each, old.precision), pa.string())


def _timestamps_to_timestamps(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    millis, nanos = _split(array)
    if old.root is not new.root:
        zoned = new.root is TypeRoot.TIMESTAMP_LTZ
        millis = _to_moments(millis) if zoned else _to_wall_clock(millis)
    if new.precision < old.precision:
        if new.precision <= 3:
            # Rounded toward 1970, as in Java, also before 1970.
            unit = 10 ** (3 - new.precision)
            cut = np.fix(millis / unit).astype(np.int64) * unit if unit > 1 else millis
            millis, nanos = cut, np.zeros_like(nanos)
        else:
            nanos = nanos - nanos % 10 ** (9 - new.precision)
    return _timestamps(millis, nanos, array, new)


def _timestamps_to_dates(array: pa.Array, old: AtomicType, _: AtomicType) -> pa.Array:
    millis = _split(array)[0]
    if old.root is TypeRoot.TIMESTAMP_LTZ:
        days = _to_wall_clock(millis) // _MS_PER_DAY
    else:
        # Java's division rounds toward 1970: the last day of 1969 becomes day 0.
        days = np.where(millis < 0, -(-millis // _MS_PER_DAY), millis // _MS_PER_DAY)
    return _where_valid(days.astype(np.int32), array, pa.int32())


def _timestamps_to_times(array: pa.Array, old: AtomicType, _: AtomicType) -> pa.Array:
    millis = _split(array)[0]
    if old.root is TypeRoot.TIMESTAMP_LTZ:
        millis = _to_wall_clock(millis)
    return _where_valid((millis % _MS_PER_DAY).astype(np.int32), array, pa.int32())


def _timestamps_to_integers(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    millis = _split(array)[0]
    seconds = np.where(millis < 0, -(-millis // 1000), millis // 1000)
    return _where_valid(seconds.astype(_integer_type(new)), array, to_arrow_type(new))


def _dates_to_timestamps(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    millis = _numbers(array.cast(pa.int32())).astype(np.int64) * _MS_PER_DAY
    if new.root is TypeRoot.TIMESTAMP_LTZ:
        millis = _to_moments(millis)
    return _timestamps(millis, np.zeros_like(millis), array, new)


def _times_to_timestamps(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    millis = _numbers(array.cast(pa.int32())).astype(np.int64)
    return _timestamps(millis, np.zeros_like(millis), array, new)


def _integers_to_timestamps(array: pa.Array, _: AtomicType, new: AtomicType) -> pa.Array:
    millis = _numbers(array).astype(np.int64) * 1000
    if new.root is TypeRoot.TIMESTAMP_LTZ:
        # Java uses the wall clock time as if it were the moment.
        millis = _to_wall_clock(millis)
    return _timestamps(millis, np.zeros_like(millis), array, new)


def _split(array: pa.Array) -> tuple[_Numbers, _Numbers]:
    """Milliseconds since 1970, and the remaining nanoseconds."""
    ticks = _numbers(array.cast(pa.int64()))
    match array.type.unit:
        case "ms":
            return ticks, np.zeros_like(ticks)
        case "us":
            return ticks // 1000, ticks % 1000 * 1000
        case _:
            return ticks // _NANOS_PER_MS, ticks % _NANOS_PER_MS


def _timestamps(millis: _Numbers, nanos: _Numbers, array: pa.Array, new: AtomicType) -> pa.Array:
    kind = to_arrow_type(new)
    per_ms = {"ms": 1, "us": 1000, "ns": _NANOS_PER_MS}[kind.unit]
    reach = np.iinfo(np.int64).max // per_ms - 1
    if np.any((millis > reach) | (millis < -reach)):
        raise pa.ArrowInvalid(f"a timestamp is too far from 1970 for {new}")
    ticks = millis * per_ms + nanos // (_NANOS_PER_MS // per_ms)
    return _where_valid(ticks, array, pa.int64()).cast(kind)


# --- the machine's zone ------------------------------------------------------------------------


def _to_wall_clock(millis: _Numbers) -> _Numbers:
    """The machine's wall clock times at some moments, encoded as if they were UTC."""

    def shift(seconds: int) -> int:
        moment = (_EPOCH + dt.timedelta(seconds=seconds)).replace(tzinfo=dt.UTC)
        return (moment.astimezone().utcoffset() or dt.timedelta()) // dt.timedelta(seconds=1)

    return _shifted(millis, shift)


def _to_moments(millis: _Numbers) -> _Numbers:
    """The moments at which the machine's wall clock showed some times; the earlier one of two.

    A time that the clock skipped is converted with the offset before the skip, as in Java.
    """

    def shift(seconds: int) -> int:
        return int((_EPOCH + dt.timedelta(seconds=seconds)).timestamp()) - seconds

    return _shifted(millis, shift)


def _shifted(millis: _Numbers, shift: Callable[[int], int]) -> _Numbers:
    """Times shifted by the seconds that `shift` returns for each."""
    # Beyond the years that Python can represent, the offset of the nearest such year is used.
    seconds, index = np.unique(np.clip(millis, _FIRST_MS, _LAST_MS) // 1000, return_inverse=True)
    shifts = np.array([shift(each) for each in seconds.tolist()], np.int64)
    return millis + shifts[index] * 1000


_CASTS: dict[tuple[str, str], _Cast] = {
    ("integer", "integer"): _integers_to_integers,
    ("integer", "floating"): _to_floating,
    ("integer", "decimal"): _to_decimal,
    ("integer", "boolean"): _to_boolean,
    ("integer", "text"): _plain_to_texts,
    ("integer", "timestamp"): _integers_to_timestamps,
    ("floating", "integer"): _floats_to_integers,
    ("floating", "floating"): _to_floating,
    ("floating", "decimal"): _to_decimal,
    ("floating", "text"): _floats_to_texts,
    ("decimal", "integer"): _decimals_to_integers,
    ("decimal", "floating"): _decimals_to_floating,
    ("decimal", "decimal"): _to_decimal,
    ("decimal", "text"): _decimals_to_texts,
    ("boolean", "integer"): _integers_to_integers,
    ("boolean", "floating"): _to_floating,
    ("boolean", "decimal"): _to_decimal,
    ("boolean", "text"): _plain_to_texts,
    ("text", "text"): _texts_to_texts,
    ("text", "bytes"): _to_bytes,
    ("text", "boolean"): _parse_texts,
    ("text", "integer"): _parse_texts,
    ("text", "floating"): _parse_texts,
    ("text", "decimal"): _parse_texts,
    ("text", "date"): _parse_texts,
    ("text", "time"): _parse_texts,
    ("text", "timestamp"): _texts_to_timestamps,
    ("bytes", "text"): _bytes_to_texts,
    ("bytes", "bytes"): _to_bytes,
    ("date", "text"): _dates_to_texts,
    ("date", "timestamp"): _dates_to_timestamps,
    ("time", "text"): _times_to_texts,
    ("time", "timestamp"): _times_to_timestamps,
    ("timestamp", "text"): _timestamps_to_texts,
    ("timestamp", "date"): _timestamps_to_dates,
    ("timestamp", "time"): _timestamps_to_times,
    ("timestamp", "timestamp"): _timestamps_to_timestamps,
    ("timestamp", "integer"): _timestamps_to_integers,
}
