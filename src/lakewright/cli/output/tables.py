"""Tables for people: on a terminal fitted to its width, elsewhere as wide as their cells.

A pipe gets lines that do not depend on any width, so that programs find the same text anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len

from lakewright.cli.output.terminal import console_of, is_terminal, styled
from lakewright.cli.output.text import GAP, Cell, cell_text, printable


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a printed table."""

    title: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows below titles."""

    columns: Sequence[TextColumn]
    rows: Sequence[Sequence[Cell]]
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with what they are, those without a value left out."""

    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Heading:
    """A line above what belongs to it."""

    text: str


# What people are told, from top to bottom.
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
    """The lines of a block where no width limits them."""
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
    """Header, rule and rows, each column as wide as its widest cell."""
    cells = [[cell_text(cell) for cell in row] for row in rows]
    widths = column_widths(columns, cells)
    return [*header_lines(columns, widths), *row_lines(columns, widths, cells)]


def column_widths(columns: Sequence[TextColumn], cells: Iterable[Sequence[str]]) -> list[int]:
    """How wide each column must be for its title and these cells."""
    widths = [cell_len(column.title) for column in columns]
    for row in cells:
        widths = [max(width, cell_len(cell)) for width, cell in zip(widths, row, strict=True)]
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
            padding = " " * (width - cell_len(cell))
            parts.append(padding + cell if column.right else cell + padding)
        yield GAP.join(parts).rstrip()


def _print_fitted(block: TextTable | Facts) -> None:
    """Print for a terminal: what is too wide for it goes on in the next line of its column."""
    from rich.box import SIMPLE_HEAD
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if isinstance(block, Facts):
        indent = 2
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, text in block.facts.items():
            if text:
                table.add_row(name, Text(printable(text)))
    else:
        indent = block.indent
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for column in block.columns:
            side: Literal["left", "right"] = "right" if column.right else "left"
            table.add_column(column.title, justify=side, overflow="fold", no_wrap=column.right)
        for row in block.rows:
            table.add_row(*(Text(cell_text(cell)) for cell in row))
    console_of(sys.stdout).print(Padding(table, (0, 0, 0, indent), expand=False))
