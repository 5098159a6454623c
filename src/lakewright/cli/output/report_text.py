"""The report of a verb, as text for people and as facts for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewright.cli.output.tables import Block, Facts, TextColumn, TextTable
from lakewright.cli.output.text import Cell, size_text

if TYPE_CHECKING:
    from lakewright.platform.upkeep.verb import Fact, Report, Rows

# A plan lists every part; people see the first parts, programs all of them.
_MOST_LINES = 40


def report_text(report: Report) -> list[Block]:
    """One sentence, the figures, the rows of detail, the notes."""
    blocks: list[Block] = [report.summary]
    if not report.is_empty:
        blocks.append(Facts({_words(name): _text(name, each) for name, each in _facts(report)}))
    for name, rows in report.tables.items():
        if rows:
            blocks += ["", f"{name}:", _table(rows)]
            if len(rows) > _MOST_LINES:
                more = f"… and {len(rows) - _MOST_LINES:,} more; --format json has them all"
                blocks.append(more)
    return [*blocks, *(f"  {note}" for note in report.notes)]


def report_facts(report: Report) -> dict[str, object]:
    """The same for programs."""
    return {
        "summary": report.summary,
        **report.facts,
        **{name.replace(" ", "_"): list(rows) for name, rows in report.tables.items()},
        "notes": list(report.notes),
        "snapshot_id": None if report.snapshot is None else report.snapshot.id,
    }


def _facts(report: Report) -> list[tuple[str, Fact]]:
    return [(name, fact) for name, fact in report.facts.items() if fact != ""]


def _table(rows: Rows) -> TextTable:
    columns = [
        TextColumn(_words(name), right=isinstance(value, int)) for name, value in rows[0].items()
    ]
    cells = [[_cell(name, row.get(name)) for name in rows[0]] for row in rows[:_MOST_LINES]]
    return TextTable(columns, cells)


def _cell(name: str, value: object) -> Cell:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return size_text(value) if value is not None and _is_size(name) else value
    return _text(name, value)


def _text(name: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int() if _is_size(name):
            return size_text(value)
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def _is_size(name: str) -> bool:
    return name == "bytes" or name.startswith("bytes_")


def _words(name: str) -> str:
    return name.replace("_", " ").replace("bytes", "size")
