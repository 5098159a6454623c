"""Text for people: cells, sizes, counts, times."""

from __future__ import annotations

import datetime as dt
import unicodedata

from rich.cells import cell_len, set_cell_size

NULL = "null"
GAP = "  "

Cell = str | int | None


def cell_text(cell: Cell) -> str:
    """A cell as it is printed: counts with separators, no line breaks or control codes."""
    if cell is None:
        return NULL
    if isinstance(cell, int):
        return f"{cell:,}"
    return printable(cell)


def printable(text: str) -> str:
    """The text on one line; characters that would control a terminal are written as codes."""
    if text.isprintable():
        return text
    return "".join(char if _is_shown(char) else _code(char) for char in text)


def shown_text(text: str) -> str:
    """A text beside other values: on one line, and in quotes if it would look like null."""
    return repr(text) if text == NULL else printable(text)


def _is_shown(char: str) -> bool:
    # Spaces of other scripts and joiners between letters are not control characters.
    return char.isprintable() or unicodedata.category(char) == "Zs" or char == "\u200d"


def _code(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits before an ellipsis."""
    # Only as many characters as can fit are checked.
    if len(text) <= width and cell_len(text) <= width:
        return text
    return set_cell_size(text[: 4 * width], width - 1).rstrip() + "…"


def time_text(time_ms: int) -> str:
    """A moment to the millisecond, in UTC; `--as-of` accepts it."""
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=time_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def iso_time(time_ms: int) -> str:
    """The same moment in ISO form, for scripts."""
    return time_text(time_ms).replace(" ", "T") + "Z"
