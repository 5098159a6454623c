"""Partitions as cells of tables, and as JSON."""

from __future__ import annotations

import datetime as dt
import json
import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell
from lakewright.storage.spec.partition import DEFAULT_PARTITION_NAME
from lakewright.storage.spec.partition_words import (
    needs_quotes,
    partition_object,
    value_word,
)

if TYPE_CHECKING:
    from lakewright.storage import TableSchema
    from lakewright.storage.files.table_files import TableFiles


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


def rows_title(files: TableFiles) -> str:
    """What counts of rows in files are called, of which readers may not see all."""
    options = files.options
    is_hidden = (
        files.schema.is_keyed or options.deletion_vectors_enabled or options.data_evolution_enabled
    )
    return "rows in files" if is_hidden else "rows"


def partition_columns(schema: TableSchema) -> list[TextColumn]:
    """A column for each partition key; a table without partition keys has one column too."""
    return [TextColumn(key) for key in schema.partition_keys] or [TextColumn("partition")]


def partition_cells(spec: Mapping[str, object]) -> list[Cell]:
    """The cells of those columns."""
    if not spec:
        return ["(unpartitioned)"]
    return [None if value is None else value_word(value) for value in spec.values()]


def typing_notes(specs: Iterable[Mapping[str, object]], schema: TableSchema) -> list[str]:
    """One line below listed partitions if `--partition` takes some value in other words."""
    null = quoted = None
    for spec in specs:
        null = null or next((key for key, value in spec.items() if value is None), None)
        quoted = quoted or (spec if any(map(needs_quotes, spec.values())) else None)
    ways = []
    if null is not None:
        name = schema.options.get("partition.default-name", DEFAULT_PARTITION_NAME)
        words = shlex.quote(f"{null}={name}")
        ways.append(f"null as {words} or in a JSON object: {shlex.quote(json.dumps({null: None}))}")
    if quoted is not None:
        example = shlex.quote(partition_object(quoted))
        ways.append(f"a value in quotes in a JSON object: {example}")
    return [f"--partition takes {'; '.join(ways)}"] if ways else []
