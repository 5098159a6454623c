"""The answer of a command: text and tables for people, JSON or CSV for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lakewright.cli.grammar.call import Form
from lakewright.cli.output.csv_lines import csv_line
from lakewright.cli.output.tables import Block, TextColumn, TextTable, print_blocks
from lakewright.cli.output.text import Cell

Item = TypeVar("Item")
Record = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command prints; only the requested form is made.

    `value` is a JSON value. `records` are the rows of CSV if they differ from the value, or the
    items of the value if it is a list. `code` is the exit code.
    """

    text: Callable[[], Sequence[Block]]
    value: Callable[[], Record | Sequence[Record]]
    records: Callable[[], Sequence[Record]] | None = None
    code: int = 0

    def print(self, form: Form) -> int:
        """Print the answer in one of the forms; returns the exit code."""
        match form:
            case "table":
                print_blocks(self.text())
            case "json":
                print_json(self.value())
            case "csv":
                self._print_csv()
        return self.code

    def _print_csv(self) -> None:
        value = self.value() if self.records is None else self.records()
        records = [value] if isinstance(value, Mapping) else value
        if not records:
            return
        names = list(records[0])
        sys.stdout.write(csv_line(names) + "\n")
        for record in records:
            sys.stdout.write(csv_line([record.get(name) for name in names]) + "\n")


def listed(
    items: Sequence[Item],
    columns: Sequence[TextColumn],
    *,
    cells: Callable[[Item], Sequence[Cell]],
    record: Callable[[Item], dict[str, object]],
    empty: str,
    notes: Callable[[], Sequence[str]] = tuple,
) -> Answer:
    """A list: a table with notes, or a sentence if it is empty; records for programs."""

    def text() -> Sequence[Block]:
        if not items:
            return [empty]
        told = notes()
        table = TextTable(columns, [cells(item) for item in items])
        return [table, *(["", *told] if told else [])]

    return Answer(
        text=text,
        value=lambda: [record(item) for item in items],
    )


def said(*lines: str, **facts: object) -> Answer:
    """Lines for people, and the same facts for programs."""
    return Answer(text=lambda: lines, value=lambda: facts)


def print_json(value: object) -> None:
    """Print one JSON value."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
