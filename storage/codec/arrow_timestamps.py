"""Timestamps in Arrow columns, at any depth, and whether they fit into nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import InvalidRows

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def holds_timestamps(arrow_type: pa.DataType, *, unit: str | None = None) -> bool:
    """Whether a type is a timestamp (of a unit) or has one inside."""
    if pa.types.is_timestamp(arrow_type):
        return unit is None or bool(arrow_type.unit == unit)
    inner = (arrow_type.field(index).type for index in range(arrow_type.num_fields))
    return any(holds_timestamps(each, unit=unit) for each in inner)


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
