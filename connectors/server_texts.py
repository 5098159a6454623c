"""Texts of a database's server as values of a declared type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lakewright.storage.codec.python_columns import within_years
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import DataField


def column_of_texts(
    values: Sequence[Any] | pa.Array,
    field: DataField,
    typed: Callable[[Any], pa.Array],
    owner: str,
) -> pa.Array:
    """Values of a column as `typed` makes them.

    Raises:
        InvalidRows: names the first value that is not of the type.
    """
    try:
        return _within_years(typed(values))
    except (pa.ArrowException, ValueError):
        for at in range(len(values)):
            try:
                _within_years(typed(values[at : at + 1]))
            except (pa.ArrowException, ValueError):
                value = values[at].as_py() if isinstance(values, pa.Array) else values[at]
                raise InvalidRows(
                    f"column {field.name} of {owner}: {value!r:.200} is no {field.type}; "
                    "declare the column as STRING, or change the value and begin anew",
                    column=field.name,
                ) from None
        raise


def _within_years(column: pa.Array) -> pa.Array:
    """The column, if its moments are those of types: MySQL has a year 0."""
    is_moment = pa.types.is_date32(column.type) or pa.types.is_timestamp(column.type)
    if is_moment and not within_years(column):
        raise ValueError("a moment is outside of the years 1 to 9999")
    return column
