"""Rows printed as a table, JSON lines or CSV, batch by batch: what `read` and `inspect` end in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from lakewright.cli.layout import (
    NULL,
    TextColumn,
    column_widths,
    counted,
    cut,
    header_lines,
    printable,
    row_lines,
    shown_text,
)
from lakewright.cli.row_values import Plain, plain_rows
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot

# Rows turned into text at a time; the first batch sets the widths of a table.
_BATCH_ROWS = 2048
# What a value may take of a line in a table; json and csv print all of it.
_MAX_WIDTH = 60

_JSON = json.JSONEncoder(ensure_ascii=False)

Batches = Iterator[list[tuple[Plain, ...]]]


def print_rows(
    form: str, fields: Sequence[DataField], pieces: Iterable[pa.Table], *, limit: int | None
) -> None:
    """Print pieces of rows whose columns are `fields`; no piece beyond the limit is asked for."""
    for line in _FORMATS[form](fields, _batches(fields, pieces, limit)):
        sys.stdout.write(line + "\n")


def _batches(fields: Sequence[DataField], pieces: Iterable[pa.Table], limit: int | None) -> Batches:
    left = limit
    if left == 0:
        return
    for rows in pieces:
        for start in range(0, rows.num_rows, _BATCH_ROWS):
            count = _BATCH_ROWS if left is None else min(_BATCH_ROWS, left)
            found = plain_rows(rows.slice(start, count), fields)
            left = None if left is None else left - len(found)
            yield found
            if left == 0:
                return


def _json_lines(fields: Sequence[DataField], batches: Batches) -> Iterator[str]:
    names = [field.name for field in fields]
    for rows in batches:
        for row in rows:
            yield _JSON.encode(dict(zip(names, row, strict=True)))


def _csv_lines(fields: Sequence[DataField], batches: Batches) -> Iterator[str]:
    yield ",".join(_csv_cell(field.name) for field in fields)
    for rows in batches:
        for row in rows:
            yield ",".join(_csv_cell(value) for value in row)


def _csv_cell(value: Plain) -> str:
    if value is None:
        return ""
    text = _text(value)
    if text and not any(char in text for char in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _table_lines(fields: Sequence[DataField], batches: Batches) -> Iterator[str]:
    columns = [TextColumn(printable(field.name), _is_number(field)) for field in fields]
    first = next(batches, [])
    widths = column_widths(columns, map(_cells, first))
    yield from header_lines(columns, widths)
    count = 0
    for rows in chain([first], batches):
        count += len(rows)
        yield from row_lines(columns, widths, map(_cells, rows))
    yield f"({counted(count, 'row')})"


def _cells(row: Sequence[Plain]) -> list[str]:
    return [_cell(value) for value in row]


def _cell(value: Plain) -> str:
    if value is None:
        return NULL
    # Shortened before it is looked at char by char: a value may be megabytes long.
    return cut(shown_text(_text(value)[: 4 * _MAX_WIDTH]), _MAX_WIDTH)


def _text(value: Plain) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case list() | dict():
            return _JSON.encode(value)
        case _:
            return str(value)


def _is_number(field: DataField) -> bool:
    if not isinstance(field.type, AtomicType):
        return False
    root = field.type.root
    return root.is_integer or root.is_floating or root is TypeRoot.DECIMAL


_FORMATS: dict[str, Callable[[Sequence[DataField], Batches], Iterator[str]]] = {
    "table": _table_lines,
    "json": _json_lines,
    "csv": _csv_lines,
}
