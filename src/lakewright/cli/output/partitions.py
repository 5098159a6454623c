"""Partitions as cells of tables, and as JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell
from lakewright.storage.spec.partition_words import value_word

if TYPE_CHECKING:
    from lakewright.storage import TableSchema


def plain_spec(spec: Mapping[str, object]) -> dict[str, object]:
    """Partition values as JSON holds them: dates and times in ISO, decimals and bytes as text."""
    return {name: plain_value(value) for name, value in spec.items()}


def plain_value(value: object) -> object:
    """A value as JSON holds it."""
    match value:
        case dt.datetime() if value.tzinfo is not None:
            return value.replace(tzinfo=None).isoformat() + "Z"
        case dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def partition_columns(schema: TableSchema) -> list[TextColumn]:
    """A column for each partition key; a table without partition keys has one column too."""
    return [TextColumn(key) for key in schema.partition_keys] or [TextColumn("partition")]


def partition_cells(spec: Mapping[str, object]) -> list[Cell]:
    """The cells of those columns."""
    if not spec:
        return ["(unpartitioned)"]
    return [None if value is None else value_word(value) for value in spec.values()]
