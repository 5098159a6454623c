"""`lakewright replay-rejects`: the bad rows of a table, tried again."""

from __future__ import annotations

from pathlib import Path

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.upkeep.project_paths import tables_option

_MOST_SHOWN = 20


@command(
    "replay-rejects",
    notes="""
Runs with `on_bad_row: quarantine` keep the rows that do not fit in the table TABLE__rejects. Those
that fit the present declaration are appended once, and stay there in the state `replayed`; a
replay that is stopped is finished by the next one. The job replay_rejects does the same.
""",
    examples="""
lakewright replay-rejects shop.sales --tables tables --dry-run
lakewright read shop.sales__rejects --where "state = 'open'"
""",
)
@tables_option("Files and folders of declarations")
@click.option("--dry-run", is_flag=True, help="Print what would fit; write nothing.")
def replay_rejects(call: Call, *, tables: tuple[Path, ...]) -> Answer:
    """Append kept bad rows that fit the declaration now."""
    from lakewright.platform.ingest.replay_rejects import replay_rejects as replay

    replayed = replay(call.catalog(), call.table_name, tables=tables, dry_run=call.dry_run)
    left = [{"id": each, "why": why} for each, why in replayed.left.items()]

    def text() -> list[Block]:
        lines = [[each["id"], each["why"]] for each in left[:_MOST_SHOWN]]
        shown = [TextTable([TextColumn("left"), TextColumn("why")], lines)] if lines else []
        more = [f"and {len(left) - len(lines):,} more"] if len(left) > len(lines) else []
        told = f"dry run: {replayed.summary}" if call.dry_run else replayed.summary
        run = [f"run: {replayed.run}"] if replayed.run else []
        return [*shown, *more, told, *run]

    return Answer(
        text=text,
        value=lambda: {
            "table": replayed.table,
            "run": replayed.run,
            "appended": replayed.appended,
            "left": left,
        },
        records=lambda: left,
    )
