"""Partition keys of Dagster: the text that storage has for the values of a partition, and back.

Dagster does not accept every text as a partition key: `|` separates dimensions, `...` makes a
range, control characters and empty keys break pages and queries, and `[ ] ,` separate lists of
keys. The text of storage has none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import DataType
from lakewright.storage.spec.partition_text import partition_text, read_partition_text
from lakewright.storage.spec.values import from_python, order_key, to_python

# So many names stand in a message.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column of a table."""

    name: str
    type: DataType


class InvalidPartitionKeyError(ValueError):
    """A text that is not a partition key, or values that have no key."""


def encode_partition(spec: Mapping[str, object], columns: Sequence[PartitionColumn]) -> str:
    """The key of a partition.

    Raises:
        InvalidPartitionKeyError: a column has no value, or a value is not of its type.
    """
    values = []
    for column in columns:
        if column.name not in spec:
            raise InvalidPartitionKeyError(f"partition {dict(spec)} has no value for {column.name}")
        try:
            values.append(from_python(spec[column.name], column.type))
        except InvalidRequestError as err:
            raise InvalidPartitionKeyError(f"{column.name}: {err}") from err
    return partition_text(values, columns)


def decode_partition(key: str, columns: Sequence[PartitionColumn]) -> dict[str, object]:
    """The values of a partition from its key.

    Raises:
        InvalidPartitionKeyError: the key names other columns, or a value is not of its type.
    """
    try:
        values = read_partition_text(key, columns)
    except InvalidRequestError as err:
        raise InvalidPartitionKeyError(str(err)) from err
    return {
        column.name: to_python(value, column.type)
        for column, value in zip(columns, values, strict=True)
    }


def partition_identity(spec: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    """Equal for the values of one partition only: NaN equals itself, and 0.0 is not -0.0."""
    return tuple(
        (name, order_key(value) if isinstance(value, float) else value)
        for name, value in sorted(spec.items())
    )


def first_few(names: Sequence[str], *, between: str = "; ") -> str:
    """The first five names of a list for messages, and the number of the others."""
    more = len(names) - _MOST_NAMED
    return between.join([*names[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
