"""Text for people: aligned tables, sizes, counts, times."""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

NULL = "null"
GAP = "  "

Cell = str | int | None


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a printed table."""

    title: str
    right: bool = False


def table_lines(columns: Sequence[TextColumn], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Header, rule and rows, each column as wide as its widest cell."""
    cells = [[cell_text(cell) for cell in row] for row in rows]
    widths = column_widths(columns, cells)
    return [*header_lines(columns, widths), *row_lines(columns, widths, cells)]


def column_widths(columns: Sequence[TextColumn], cells: Iterable[Sequence[str]]) -> list[int]:
    """How wide each column must be for its title and these cells."""
    widths = [width_of(column.title) for column in columns]
    for row in cells:
        widths = [max(width, width_of(cell)) for width, cell in zip(widths, row, strict=True)]
    return widths


def header_lines(columns: Sequence[TextColumn], widths: Sequence[int]) -> list[str]:
    """The titles, and a rule under each."""
    titles = [column.title for column in columns]
    rules = ["-" * width for width in widths]
    return [*row_lines(columns, widths, [titles]), GAP.join(rules)]


def row_lines(
    columns: Sequence[TextColumn], widths: Sequence[int], cells: Iterable[Sequence[str]]
) -> Iterator[str]:
    """One line for each row; a cell wider than its column moves only its own line."""
    for row in cells:
        parts = []
        for column, width, cell in zip(columns, widths, row, strict=True):
            padding = " " * (width - width_of(cell))
            parts.append(padding + cell if column.right else cell + padding)
        yield GAP.join(parts).rstrip()


def cell_text(cell: Cell) -> str:
    """A cell as it is printed: counts with separators, no line breaks or control codes."""
    if cell is None:
        return NULL
    if isinstance(cell, int):
        return f"{cell:,}"
    return printable(cell)


def printable(text: str) -> str:
    """The text on one line, what would move a terminal's cursor or colour it written as a code."""
    if text.isprintable():
        return text
    return "".join(char if _is_shown(char) else _code(char) for char in text)


def shown_text(text: str) -> str:
    """Text among other values: on one line, and in quotes where it would look like null."""
    return repr(text) if text == NULL else printable(text)


def _is_shown(char: str) -> bool:
    # Spaces of other scripts and joiners between letters are no controls.
    return char.isprintable() or unicodedata.category(char) == "Zs" or char == "\u200d"


def _code(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def width_of(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits with an ellipsis."""
    if len(text) <= width and width_of(text) <= width:
        return text
    kept = ""
    used = 0
    for char in text:
        used += _char_width(char)
        if used > width - 1:
            break
        kept += char
    return kept + "…"


def size_text(size_bytes: int) -> str:
    """`1.4 MiB`."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        # What rounds to 1024 of a unit is one of the next.
        if round(size, 1) < 1024 or unit == "TiB":
            return f"{size_bytes} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError(size_bytes)


def duration_text(duration_ms: int) -> str:
    """`850 ms`, `12.3 s`, `4 min 5 s`."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f} s"
    minutes, seconds = divmod(round(duration_ms / 1000), 60)
    return f"{minutes} min {seconds} s"


def time_text(time_ms: int) -> str:
    """A moment to the millisecond, in UTC: what `--as-of` takes back."""
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=time_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def iso_time(time_ms: int) -> str:
    """The same for scripts."""
    return time_text(time_ms).replace(" ", "T") + "Z"


def counted(count: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{count:,} {noun if count == 1 else noun + 's'}"
