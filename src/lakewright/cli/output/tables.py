"""Tables for people: fitted to the width of a terminal, elsewhere as wide as their cells.

Lines in a pipe do not depend on a width, so programs find the same text everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from lakewright.cli.output.terminal import console_of, is_terminal, styled, width_of_terminal
from lakewright.cli.output.text import GAP, Cell, cell_text, printable

if TYPE_CHECKING:
    from rich.table import Table

# A moment has 23 characters; a value up to this length is not broken over lines, if there is room.
# In a narrow terminal a moment is broken between its day and its time.
_MOST_WHOLE = (24, 12)
# A cell that would need more lines than this in its column makes each row a block of its own.
_MOST_LINES = 4
# A longer rule below the last title is no help.
_MOST_RULED = 60
# In a column of fewer characters no name can be read.
_LEAST = 4


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a printed table; a minor one is left out where a terminal is too narrow for it.

    A table with minor columns stays a table at any width; its cells take more lines.
    """

    title: str
    right: bool = False
    minor: bool = False


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows below titles."""

    columns: Sequence[TextColumn]
    rows: Sequence[Sequence[Cell]]
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values; names without a value are left out."""

    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Heading:
    """A line above the blocks of a section."""

    text: str


# The parts of a text for people, from top to bottom.
Block = str | Heading | TextTable | Facts


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print lines and tables."""
    for block in blocks:
        if is_terminal(sys.stdout) and isinstance(block, TextTable | Facts):
            _print_fitted(block)
            continue
        bold = isinstance(block, Heading)
        for line in block_lines(block):
            sys.stdout.write(styled(line, sys.stdout, bold=bold) + "\n")


def block_lines(block: Block) -> list[str]:
    """The lines of a block without a width limit."""
    match block:
        case str():
            return [block]
        case Heading(text):
            return [text]
        case TextTable(columns, rows, indent):
            return [" " * indent + line for line in table_lines(columns, rows)]
        case Facts(facts):
            width = max(map(len, facts), default=0)
            return [f"  {name:<{width}}  {printable(text)}" for name, text in facts.items() if text]


def table_lines(columns: Sequence[TextColumn], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """The header, a rule and the rows; each column is as wide as its widest cell."""
    cells = [[cell_text(cell) for cell in row] for row in rows]
    widths = column_widths(columns, cells)
    return [*header_lines(columns, widths), *row_lines(columns, widths, cells)]


def column_widths(columns: Sequence[TextColumn], cells: Iterable[Sequence[str]]) -> list[int]:
    """The width of each column for its title and these cells."""
    widths = [cell_len(column.title) for column in columns]
    for row in cells:
        widths = [max(width, cell_len(cell)) for width, cell in zip(widths, row, strict=True)]
    return widths


def header_lines(columns: Sequence[TextColumn], widths: Sequence[int]) -> list[str]:
    """The titles, and a rule under each."""
    titles = [column.title for column in columns]
    rules = ["-" * width for width in widths]
    # Long reasons stand in the last column, and no line there ends below its rule.
    rules[-1:] = [rule[:_MOST_RULED] for rule in rules[-1:]]
    return [*row_lines(columns, widths, [titles]), GAP.join(rules)]


def row_lines(
    columns: Sequence[TextColumn], widths: Sequence[int], cells: Iterable[Sequence[str]]
) -> Iterator[str]:
    """One line for each row; a cell wider than its column shifts the rest of its own line only."""
    for row in cells:
        parts = []
        for column, width, cell in zip(columns, widths, row, strict=True):
            padding = " " * (width - cell_len(cell))
            parts.append(padding + cell if column.right else cell + padding)
        yield GAP.join(parts).rstrip()


def _print_fitted(block: TextTable | Facts) -> None:
    """Print for a terminal; long text continues on the next line, in its own column.

    Short values stay whole. If they or long texts leave too little room, each row is printed as
    facts.
    """
    from rich.padding import Padding

    if isinstance(block, Facts):
        drawn, indent = _drawn_facts(block.facts), len(GAP)
    else:
        indent = block.indent
        cells = [[cell_text(cell) for cell in row] for row in block.rows]
        room = (width_of_terminal(sys.stdout) or 0) - indent
        columns, rows = _without_empty(block.columns, cells, room)
        stays = any(column.minor for column in block.columns)
        columns, rows, fitted = _without_minor(columns, rows, room)
        if fitted is None and stays:
            fitted = fitted_widths(column_widths(columns, rows), [_LEAST] * len(columns), room)
        if fitted is None:
            _print_rows_as_facts(columns, rows)
            return
        drawn = _drawn_table(columns, fitted, rows)
    console_of(sys.stdout).print(Padding(drawn, (0, 0, 0, indent), expand=False))


def _without_empty(
    columns: Sequence[TextColumn], cells: Sequence[Sequence[str]], room: int
) -> tuple[Sequence[TextColumn], Sequence[Sequence[str]]]:
    """The table without its empty columns, where there is no room for all."""
    widths = column_widths(columns, cells)
    kept = [at for at, _ in enumerate(columns) if any(row[at] for row in cells)]
    if not kept or sum(widths) + len(GAP) * (len(widths) - 1) <= room:
        return columns, cells
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in cells]


def _without_minor(
    columns: Sequence[TextColumn], cells: Sequence[Sequence[str]], room: int
) -> tuple[Sequence[TextColumn], Sequence[Sequence[str]], list[int] | None]:
    """The table with as many of its minor columns, from the left, as there is room for."""
    while (fitted := _fitted(columns, cells, room)) is None:
        minor = [at for at, each in enumerate(columns) if each.minor]
        if not minor:
            break
        columns = [each for at, each in enumerate(columns) if at != minor[-1]]
        cells = [[each for at, each in enumerate(row) if at != minor[-1]] for row in cells]
    return columns, cells, fitted


def _fitted(
    columns: Sequence[TextColumn], cells: Sequence[Sequence[str]], room: int
) -> list[int] | None:
    """The widths of the columns for a terminal; None if each row is better a block of its own."""
    widths = column_widths(columns, cells)
    # A title or a long value may continue on the next line; a short value may not.
    words = [TextColumn(max(column.title.split(), key=len, default="")) for column in columns]
    for whole in _MOST_WHOLE:
        least = [min(width, whole) for width in column_widths(words, cells)]
        fitted = fitted_widths(widths, least, room)
        if fitted is not None and all(
            width <= _MOST_LINES * given for width, given in zip(widths, fitted, strict=True)
        ):
            return fitted
    return None


def fitted_widths(widths: Sequence[int], least: Sequence[int], room: int) -> list[int] | None:
    """The widths, the widest narrowed until all fit; None if one would fall below its minimum."""
    fitted = list(widths)
    while sum(fitted) + len(GAP) * (len(fitted) - 1) > room:
        spare = [at for at, width in enumerate(fitted) if width > least[at]]
        if not spare:
            return None
        fitted[max(spare, key=fitted.__getitem__)] -= 1
    return fitted


def _print_rows_as_facts(columns: Sequence[TextColumn], cells: Sequence[Sequence[str]]) -> None:
    titles = [column.title or "-" for column in columns]
    for number, row in enumerate(cells):
        if number:
            sys.stdout.write("\n")
        _print_fitted(Facts(dict(zip(titles, row, strict=True))))


def _drawn_table(
    columns: Sequence[TextColumn], widths: Sequence[int], cells: Sequence[Sequence[str]]
) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="fold",
            width=width,
        )
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def _drawn_facts(facts: Mapping[str, str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, len(GAP), 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts.items():
        if text:
            table.add_row(name, Text(printable(text)))
    return table
