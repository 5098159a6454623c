"""What a subcommand prints: lines, aligned tables, one JSON value."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from lakewright.cli.layout import Cell, TextColumn, shown_text, table_lines
from lakewright.storage.spec.schema import TableSchema


def print_json(value: object) -> None:
    """One JSON value."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Text for people."""
    for line in lines:
        sys.stdout.write(line + "\n")


def print_table(
    columns: Sequence[TextColumn], rows: Sequence[Sequence[Cell]], *, empty: str
) -> None:
    """An aligned table, or what to say when it has no row."""
    print_lines(table_lines(columns, rows) if rows else [empty])


def plain_spec(spec: Mapping[str, object]) -> dict[str, object]:
    """Partition values as JSON holds them: dates and times in ISO, decimals and bytes as text."""
    return {name: _plain(value) for name, value in spec.items()}


def _plain(value: object) -> object:
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
    """A column for each partition key, one that says so where there is none."""
    return [TextColumn(key) for key in schema.partition_keys] or [TextColumn("partition")]


def partition_cells(spec: Mapping[str, object]) -> list[Cell]:
    """The cells of those columns."""
    if not spec:
        return ["(unpartitioned)"]
    return [None if value is None else _spec_text(value) for value in plain_spec(spec).values()]


def _spec_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Blank text looks like nothing otherwise.
    return shown_text(str(value)) if str(value).strip() else repr(value)
