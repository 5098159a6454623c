"""`lakewright reads`: how often tables are read, as far as that was counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer, listed, said
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell

if TYPE_CHECKING:
    from lakewright.platform.ledger.reads import DailyReads


@dataclass(frozen=True, slots=True)
class _Line:
    table: str
    partition: str | None
    reads_a_day: float


@command(
    "reads",
    of_table=False,
    examples="""
lakewright reads --create
lakewright sql "INSERT INTO lakewright.reads VALUES ('nyc.flights', '2013-12-02', 40, '2013-12-03')"
lakewright reads nyc.flights
""",
    notes="""
A read leaves no trace in a table. A job of yours that sums up the log of a query engine appends a
row for each day, table and partition to lakewright.reads, as any client can; the partition is null
for reads of the whole table. Upkeep starts with the tables that are read most.
""",
)
@click.argument("table", metavar="[TABLE]", required=False)
@click.option("--create", is_flag=True, help="Make the table in which reads are counted.")
def reads(call: Call, *, table: str | None, create: bool) -> Answer:
    """List how often partitions were read a day, in the last seven days that have ended."""
    from lakewright.platform.ledger.reads import Reads

    catalog = call.catalog()
    counted = Reads(catalog)
    if create:
        check_one_of(create=create, table=table)
        there = counted.exists()
        counted.create()
        what = "has a table of reads already" if there else "has a table of reads from now on"
        return said(f"{catalog.uri} {what}: {counted.name}", reads=counted.name, created=not there)
    if table is not None:
        # A mistyped name is told as such.
        catalog.table(table)
    found = counted.daily(now_ms=catalog.env.now_ms())
    lines = [
        line for name, each in found.items() if table in (None, name) for line in _lines(name, each)
    ]
    return listed(
        lines,
        [TextColumn("table"), TextColumn("partition"), TextColumn("reads a day", right=True)],
        cells=_cells,
        record=lambda each: {
            "table": each.table,
            "partition": each.partition,
            "reads_a_day": each.reads_a_day,
        },
        empty="no reads are counted: see `lakewright reads --help`",
    )


def _lines(name: str, found: DailyReads) -> list[_Line]:
    whole = [_Line(name, None, found.whole)] if found.whole else []
    return [*whole, *(_Line(name, key, mean) for key, mean in sorted(found.partitions.items()))]


def _cells(line: _Line) -> list[Cell]:
    return [line.table, line.partition or "(all)", f"{line.reads_a_day:,.3g}"]
