"""Texts of a database's server as values of a declared type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lakewright.storage.codec.value_limits import unfit_value
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import AtomicType, DataField


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
        return _judged(typed(values), field)
    except (pa.ArrowException, ValueError):
        for at in range(len(values)):
            try:
                _judged(typed(values[at : at + 1]), field)
            except (pa.ArrowException, ValueError):
                value = values[at].as_py() if isinstance(values, pa.Array) else values[at]
                raise InvalidRows(
                    f"column {field.name} of {owner}: {value!r:.200} is no {field.type}; "
                    "declare the column as STRING, or change the value and begin anew",
                    column=field.name,
                ) from None
        raise


def _judged(column: pa.Array, field: DataField) -> pa.Array:
    """The column, if its values are those of its type: MySQL has a year 0."""
    unfit = unfit_value(column, field.type) if isinstance(field.type, AtomicType) else None
    if unfit is not None:
        raise ValueError(unfit)
    return column
