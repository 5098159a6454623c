"""Rows as a table, JSON lines, CSV or Parquet, one batch after another."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from lakewright.cli.grammar.call import Form
from lakewright.cli.output.csv_lines import csv_line, plain_text
from lakewright.cli.output.row_values import Plain, plain_rows
from lakewright.cli.output.tables import (
    TextColumn,
    column_widths,
    fitted_widths,
    header_lines,
    row_lines,
)
from lakewright.cli.output.terminal import styled, width_of_terminal
from lakewright.cli.output.text import NULL, cut, printable, shown_text
from lakewright.platform.upkeep.words import counted
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot

# Rows converted to text at a time; so many first rows set the widths of a table.
_BATCH_ROWS = 2048
# The widest text of a value in a table; json and csv print all of it.
_MAX_WIDTH = 60
# On a narrow terminal, no column becomes narrower than this.
_MIN_WIDTH = 8

_JSON = json.JSONEncoder(ensure_ascii=False)

Batches = Iterator[list[tuple[Plain, ...]]]


def print_rows(
    form: Form,
    fields: Sequence[DataField],
    pieces: Iterable[pa.Table],
    *,
    limit: int | None,
    whole: bool = False,
) -> None:
    """Print pieces of rows whose columns are `fields`; no piece after the limit is read.

    A table shows the beginnings of long values, unless they are to be printed `whole`.
    """
    batches = _batches(fields, pieces, limit)
    lines = _table_lines(fields, batches, whole=True) if whole and form == "table" else None
    for line in lines or _FORMATS[form](fields, batches):
        sys.stdout.write(line + "\n")


def write_rows(
    path: Path,
    form: Form,
    fields: Sequence[DataField],
    pieces: Iterable[pa.Table],
    limit: int | None,
) -> None:
    """Write pieces of rows to a file, which has its name only once it is whole.

    Raises:
        InvalidRequestError: the file cannot be written.
    """
    try:
        with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            begun = Path(folder, path.name)
            if form == "parquet":
                # Other forms need none of it.
                import pyarrow.parquet as pq

                schema = to_arrow_schema(fields)
                with pq.ParquetWriter(begun, schema) as writer:
                    for rows in _limited(pieces, limit):
                        writer.write_table(rows.cast(schema))
            else:
                with begun.open("w", encoding="utf-8") as file:
                    for line in _FORMATS[form](fields, _batches(fields, pieces, limit)):
                        file.write(line + "\n")
            begun.replace(path)
    except OSError as error:
        raise InvalidRequestError(f"{path} cannot be written: {error.strerror}") from error


def _batches(fields: Sequence[DataField], pieces: Iterable[pa.Table], limit: int | None) -> Batches:
    for rows in _limited(pieces, limit):
        for start in range(0, rows.num_rows, _BATCH_ROWS):
            yield plain_rows(rows.slice(start, _BATCH_ROWS), fields)


def _limited(pieces: Iterable[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    left = limit
    if left == 0:
        return
    for rows in pieces:
        yield rows.slice(0, left)
        if left is not None:
            left = max(left - rows.num_rows, 0)
        if left == 0:
            return


def _json_lines(fields: Sequence[DataField], batches: Batches) -> Iterator[str]:
    names = [field.name for field in fields]
    for rows in batches:
        for row in rows:
            yield _JSON.encode(dict(zip(names, row, strict=True)))


def _csv_lines(fields: Sequence[DataField], batches: Batches) -> Iterator[str]:
    yield csv_line(field.name for field in fields)
    for rows in batches:
        for row in rows:
            yield csv_line(row)


def _table_lines(
    fields: Sequence[DataField], batches: Batches, *, whole: bool = False
) -> Iterator[str]:
    cells = _whole_cells if whole else _cells
    columns = [TextColumn(printable(field.name), _is_number(field)) for field in fields]
    first = _first_rows(batches)
    widths = column_widths(columns, map(cells, first))
    room = None if whole else width_of_terminal(sys.stdout)
    if room is not None:
        least = [min(width, _MIN_WIDTH) for width in widths]
        widths = fitted_widths(widths, least, room) or least
    names = _cut_to(widths, [column.title for column in columns], room)
    columns = [TextColumn(name, each.right) for name, each in zip(names, columns, strict=True)]
    titles, rule = header_lines(columns, widths)
    yield from (styled(titles, sys.stdout, bold=True), rule)
    count = 0
    for rows in chain([first], batches):
        count += len(rows)
        yield from row_lines(columns, widths, (_cut_to(widths, cells(row), room) for row in rows))
    yield f"({counted(count, 'row')})"


def _first_rows(batches: Batches) -> list[tuple[Plain, ...]]:
    """The first rows, of as many batches as it takes: a read gives one batch for each file."""
    rows: list[tuple[Plain, ...]] = []
    while len(rows) < _BATCH_ROWS:
        batch = next(batches, None)
        if batch is None:
            break
        rows += batch
    return rows


def _cut_to(widths: Sequence[int], cells: Sequence[str], room: int | None) -> list[str]:
    if room is None:
        return list(cells)
    return [cut(cell, width) for cell, width in zip(cells, widths, strict=True)]


def _cells(row: Sequence[Plain]) -> list[str]:
    return [_cell(value) for value in row]


def _whole_cells(row: Sequence[Plain]) -> list[str]:
    return [NULL if value is None else shown_text(plain_text(value)) for value in row]


def _cell(value: Plain) -> str:
    if value is None:
        return NULL
    # Shortened before each character is checked: a value may have megabytes.
    return cut(shown_text(plain_text(value)[: 4 * _MAX_WIDTH]), _MAX_WIDTH)


def _is_number(field: DataField) -> bool:
    if not isinstance(field.type, AtomicType):
        return False
    root = field.type.root
    return root.is_integer or root.is_floating or root is TypeRoot.DECIMAL


_FORMATS: dict[Form, Callable[[Sequence[DataField], Batches], Iterator[str]]] = {
    "table": _table_lines,
    "json": _json_lines,
    "csv": _csv_lines,
}
