"""The columns of a source's rows compared with the declared ones, and hints for what differs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from lakewright.platform.declare.declarations import SourceDeclaration
from lakewright.storage.errors import InvalidRows

# Delimiters that a hint may name, the most frequent first.
_DELIMITERS = (";", "\t", "|", ",")
# How much of a row is shown.
_MOST_SHOWN = 80


def check_returned_columns(
    given: Sequence[str], declared: Sequence[str], *, fixed: Sequence[str], table: str
) -> None:
    """Refuse a function's rows that lack a declared column, since its values would become null.

    `fixed` are partition columns whose value the run knows.

    Raises:
        InvalidRows: a declared column is missing.
    """
    missing = [name for name in declared if name not in given and name not in fixed]
    if missing:
        raise InvalidRows(
            f"the source of {table} returned rows that lack column {', '.join(missing)}"
            f"{_near_misses(missing, given)}; the rows have {', '.join(given) or 'no column'}; the "
            f"table declares {', '.join(declared)}: return every declared column, with nulls where "
            "it has no value; nothing was written",
            table=table,
        )


def check_file_columns(
    given: Sequence[str], declared: Sequence[str], *, path: str, source: SourceDeclaration
) -> None:
    """Refuse a file whose columns are not the declared ones, in any order.

    Raises:
        InvalidRows: a column is missing, unknown or there twice.
    """
    missing = [name for name in declared if name not in given]
    unknown = [name for name in given if name not in declared]
    if not missing and not unknown and len(set(given)) == len(given):
        return
    parts = [f"lacks column {', '.join(missing)}"] if missing else []
    parts += [f"has unknown column {', '.join(unknown)}"] if unknown else []
    parts = parts or ["has a column twice"]
    hint = _near_misses(missing, given)
    if source.csv is not None and len(given) == 1 and len(declared) > 1:
        hint = _delimiter_hint(given[0], source.delimiter, len(declared))
    raise InvalidRows(
        f"{path}: the file {' and '.join(parts)}{hint}; the file has {', '.join(given)}; the table "
        f"declares {', '.join(declared)}"
    )


def ragged_row(
    text: str, counts: tuple[int, int], *, path: str, source: SourceDeclaration, declared: int
) -> InvalidRows:
    """The error for a row of a CSV with more or fewer values than columns.

    `counts` are the columns of the file and the values of the row.
    """
    expected, actual = counts
    number = _number_of_ragged(path, source, expected)
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    where = "a row" if number is None else f"row {number}"
    columns = "the header has" if source.header else "the table declares"
    return InvalidRows(
        f"{path}: {where} has {actual} values, and {columns} {expected} columns: {shown!r}"
        f"{_delimiter_hint(text, source.delimiter, declared)}"
    )


def _near_misses(missing: Sequence[str], given: Sequence[str]) -> str:
    pairs = [
        f"; did you mean {name!r} by {each!r}? Case and blanks count"
        for name in missing
        for each in given
        if each.strip().casefold() == name.strip().casefold()
    ]
    return "".join(pairs[:1])


def _delimiter_hint(line: str, delimiter: str, columns: int) -> str:
    """The other delimiter that would divide a line into so many columns, as a hint."""
    for other in _DELIMITERS:
        if other != delimiter and columns > 1 and line.count(other) + 1 == columns:
            return f"; its delimiter may be {other!r}: declare `delimiter: {_in_yaml(other)}`"
    return ""


def _in_yaml(delimiter: str) -> str:
    return '"\\t"' if delimiter == "\t" else f'"{delimiter}"'


def _number_of_ragged(path: str, source: SourceDeclaration, columns: int) -> int | None:
    """The number of the first row without so many values, from 1 below the header.

    Arrow, which found the row, does not tell its number.
    """
    try:
        with Path(path).open(encoding=source.encoding, newline="") as file:
            number = 0 if source.header else 1
            for row in csv.reader(file, delimiter=source.delimiter):
                if not row:
                    continue
                if len(row) != columns:
                    return number
                number += 1
    except (csv.Error, OSError, UnicodeError):
        return None
    return None
