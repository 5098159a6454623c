"""Timestamps in Arrow columns, at any depth: their texts, and what their types hold of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_cast import map_entries, map_leaves, plain_lists
from lakewright.storage.errors import InvalidRows, UnfitValues

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_MOST = 2**63 - 1
NANOS_PER_DAY = 86_400 * 10**9


class OutOfRange(Exception):
    """A type of timestamps holds a value not at all (`is_far`), or not with all of its digits."""

    def __init__(self, value: str, kind: pa.TimestampType, *, is_far: bool) -> None:
        super().__init__(f"{value} is no {kind}")
        self.value, self.kind, self.is_far = value, kind, is_far


def holds_timestamps(arrow_type: pa.DataType, *, unit: str | None = None) -> bool:
    """Whether a type is a timestamp (of a unit) or has one inside."""
    if pa.types.is_timestamp(arrow_type):
        return unit is None or bool(arrow_type.unit == unit)
    inner = (arrow_type.field(index).type for index in range(arrow_type.num_fields))
    return any(holds_timestamps(each, unit=unit) for each in inner)


def holds_moments(arrow_type: pa.DataType) -> bool:
    """Whether a type is of dates or timestamps, or has some inside."""
    if pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type):
        return True
    inner = (arrow_type.field(index).type for index in range(arrow_type.num_fields))
    return any(map(holds_moments, inner))


def moment_text(value: pa.Scalar) -> str:
    """A date or a timestamp as messages show it, of any year."""
    if pa.types.is_date(value.type):
        return str(np.datetime64(value.value, "D"))
    text = str(np.datetime64(value.value, value.type.unit)).replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def unfit_timestamp(error: OutOfRange, *, column: str, path: str) -> UnfitValues:
    """The error of a column of a data file whose declared type does not hold a value."""
    if error.is_far:
        years = "the years 1677 to 2262" if error.kind.unit == "ns" else "no such year"
        why = f"{_UNIT_NAMES[error.kind.unit]} of 64 bits hold {years}"
        way_out = "let the column be TIMESTAMP(6), which holds the years 1 to 9999"
    else:
        why = f"{_UNIT_NAMES[error.kind.unit]} do not hold all of its digits"
        way_out = "let the column be TIMESTAMP(9)"
    return UnfitValues(
        f"column {column} of data file {path} holds {error.value}, and {why}; {way_out} (alter the "
        "table, or declare it so), or leave the column out",
        path=path,
        column=column,
        value=error.value,
    )


def timestamps_as_declared(
    column: pa.ChunkedArray,
    declared: pa.DataType,
    *,
    of_utc: bool = False,
    unfit_stay: bool = False,
) -> pa.ChunkedArray:
    """The column with its timestamps in the units of a declared type, where both have some.

    With `of_utc`, timestamps without a zone are moments where moments are declared. With
    `unfit_stay`, a column with values that the declared type does not hold keeps its units.

    Raises:
        OutOfRange: a declared type does not hold a value.
    """
    if not holds_timestamps(column.type):
        return column
    kinds = plain_lists(column.type), plain_lists(declared)
    try:
        return _as(_with_declared(*kinds, of_utc=of_utc), column)
    except OutOfRange:
        if not unfit_stay:
            raise
    return _as(_with_declared(*kinds, of_utc=of_utc, in_unit=False), column)


def _as(target: pa.DataType, column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if target.equals(column.type) else map_leaves(column, target, _in_unit)


def _with_declared(
    kind: pa.DataType, declared: pa.DataType, *, of_utc: bool, in_unit: bool = True
) -> pa.DataType:
    def inner(field: pa.Field, other: pa.DataType) -> pa.Field:
        return field.with_type(_with_declared(field.type, other, of_utc=of_utc, in_unit=in_unit))

    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(declared):
        unit = declared.unit if in_unit else kind.unit
        return pa.timestamp(unit, declared.tz if of_utc else kind.tz)
    if pa.types.is_struct(kind) and pa.types.is_struct(declared):
        others = {field.name: field.type for field in declared}
        return pa.struct([inner(field, others.get(field.name, field.type)) for field in kind])
    if pa.types.is_map(kind) and pa.types.is_map(declared):
        keys = inner(kind.key_field, declared.key_type)
        return pa.map_(keys, inner(kind.item_field, declared.item_type))
    if pa.types.is_list(kind) and pa.types.is_list(declared):
        return pa.list_(inner(kind.value_field, declared.value_type))
    return kind


def _in_unit(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type.equals(target):
        return array
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        own, other = _NANOSECONDS[array.type.unit], _NANOSECONDS[target.unit]
        values = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        is_far = own > other
        if is_far:
            most = _MOST // (own // other)
            unfit = (values > most) | (values < -most)
        else:
            unfit = values % (other // own) != 0
        value = moment_text(array[int(np.argmax(unfit))])
        raise OutOfRange(value, target, is_far=is_far) from None


def have_days(moments: pa.Array, days: pa.Array) -> bool:
    """Whether timestamps are on these days since 1970; whole numbers stand in their places.

    Other values of both are not compared.
    """
    if pa.types.is_timestamp(moments.type) and pa.types.is_int64(days.type):
        if not moments.is_valid().equals(days.is_valid()):
            return False
        per_day = NANOS_PER_DAY // _NANOSECONDS[moments.type.unit]
        found, due = (each.cast(pa.int64()).fill_null(0).to_numpy() for each in (moments, days))
        return bool(np.array_equal(found // per_day, due))
    if pa.types.is_struct(moments.type):
        pairs = zip(moments.flatten(), days.flatten(), strict=True)
        return all(have_days(*pair) for pair in pairs)
    if pa.types.is_map(moments.type):
        entries = zip(map_entries(moments), map_entries(days), strict=True)
        return all(have_days(*pair) for pair in entries)
    if pa.types.is_list(moments.type):
        return have_days(moments.flatten(), days.flatten())
    return True


def check_fits_nanoseconds(rows: pa.Table, what: str) -> None:
    """Refuse timestamps that 64 bits of nanoseconds do not reach; `what` cannot hold them.

    Raises:
        InvalidRows: names the column.
    """
    limits = np.iinfo(np.int64)
    for name, array in _named_timestamps(rows):
        per_unit = _NANOSECONDS[array.type.unit]
        bounds = pc.min_max(array.cast(pa.int64())).as_py()
        for value in (bounds["min"], bounds["max"]):
            if value is not None and not limits.min <= value * per_unit <= limits.max:
                raise InvalidRows(
                    f"column {name} holds a timestamp outside of the years 1677 to 2262; "
                    f"{what} cannot hold it"
                )


def check_whole_seconds_before_1970(rows: pa.Table, what: str) -> None:
    """Refuse timestamps before 1970 with a fraction of a second; `what` cannot hold them.

    Raises:
        InvalidRows: names the column.
    """
    for name, array in _named_timestamps(rows):
        values = array.drop_null().cast(pa.int64()).to_numpy()
        early = values[values < 0]
        if np.any(early % (10**9 // _NANOSECONDS[array.type.unit])):
            raise InvalidRows(
                f"column {name} holds a timestamp before 1970 with a fraction of a second; "
                f"{what} cannot hold it"
            )


def _named_timestamps(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if holds_timestamps(column.type):
            for chunk in column.chunks:
                yield from ((name, array) for array in _timestamps(chunk))


def _timestamps(array: pa.Array) -> Iterator[pa.Array]:
    """An array of timestamps, or those nested in another."""
    if pa.types.is_timestamp(array.type):
        yield array
    elif pa.types.is_map(array.type):
        entries = array.filter(array.is_valid())
        yield from _timestamps(entries.keys)
        yield from _timestamps(entries.items)
    elif pa.types.is_list(array.type):
        yield from _timestamps(array.flatten())
    elif pa.types.is_struct(array.type):
        for member in array.filter(array.is_valid()).flatten():
            yield from _timestamps(member)
