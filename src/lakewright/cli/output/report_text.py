"""The report of a verb, as text for people and as facts for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewright.cli.output.partitions import (
    partition_cells,
    partition_columns,
    plain_value,
    typing_notes,
)
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell, iso_time
from lakewright.platform.upkeep.procedure import NamedPartition
from lakewright.platform.upkeep.words import size_text
from lakewright.storage import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakewright.platform.upkeep.procedure import Report, Rows
    from lakewright.storage import TableSchema

# A plan lists every part; people see the first parts, programs all of them.
_MOST_LINES = 40
_TITLES = {"bytes": "size", "reason": "why"}
# Columns of text, which begin at the left.
_TEXTS = {
    *("column", "min", "max", "reason", "file", "severity", "rule", "message", "way_out"),
    *("partition", "becomes"),
    *("folder", "drift", "folder_or_reason"),
}


def report_text(report: Report, schema: TableSchema) -> list[Block]:
    """Figures before and after, the summary, the first rows of detail, and the notes."""
    is_idle = report.is_empty or report.was_beaten
    blocks = [] if is_idle else _before_and_after(report.facts)
    blocks.append(report.summary)
    rows = next(filter(None, report.tables.values()), None)
    if rows is not None:
        blocks += ["", _table(rows, schema), *_more(len(rows))]
        told = _typing_notes(rows, schema)
        blocks += [""] if report.notes or told else []
        blocks += [f"  {note}" for note in told]
    notes = [f"  {note}" for note in report.notes[:_MOST_LINES]]
    return [*blocks, *notes, *_more(len(report.notes))]


def report_record(report: Report) -> dict[str, object]:
    """The same for programs."""
    values = report.facts if report.record is None else report.record
    return {name: plain(value) for name, value in values.items()}


def plain(value: object) -> object:
    """A value of a report as JSON holds it."""
    match value:
        case Snapshot():
            return {"id": value.id, "time": iso_time(value.time_millis)}
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return plain_value(value)


def _before_and_after(facts: Mapping[str, object]) -> list[Block]:
    rows = []
    for name, before in facts.items():
        what = name.removesuffix("_before")
        after = facts.get(f"{what}_after")
        if what != name and isinstance(before, int) and isinstance(after, int):
            rows.append((_title(what), _figure(what, before), _figure(what, after)))
    columns = [TextColumn(""), TextColumn("before", right=True), TextColumn("after", right=True)]
    return [TextTable(columns, rows), ""] if rows else []


def _table(rows: Rows, schema: TableSchema) -> TextTable:
    columns, keys = [], partition_columns(schema)
    for name, value in rows[0].items():
        if isinstance(value, NamedPartition):
            columns += keys
        else:
            columns.append(TextColumn(_title(name), right=name not in _TEXTS))
    cells = [
        [cell for each in row.items() for cell in _cells(*each, keys=len(keys))]
        for row in rows[:_MOST_LINES]
    ]
    return TextTable(columns, cells)


def _typing_notes(rows: Rows, schema: TableSchema) -> list[str]:
    shown = (value for row in rows[:_MOST_LINES] for value in row.values())
    named = (each.spec for each in shown if isinstance(each, NamedPartition))
    return typing_notes((each for each in named if each is not None), schema)


def _cells(name: str, value: object, *, keys: int) -> list[Cell]:
    match value:
        case NamedPartition():
            return ["-"] * keys if value.spec is None else partition_cells(value.spec)
        case None:
            return ["-"]
        case int() if name != "bucket":
            return [_figure(name, value)]
        case _:
            return [str(value)]


def _figure(name: str, value: int) -> str:
    return size_text(value) if name == "bytes" else f"{value:,}"


def _title(name: str) -> str:
    return _TITLES.get(name, name).replace("_", " ")


def _more(count: int) -> list[Block]:
    if count <= _MOST_LINES:
        return []
    return [f"… and {count - _MOST_LINES:,} more; --format json has them all"]
