"""`lakewright undo`: take back all that a run did."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import click

from lakewright.cli.exit_codes import CONFLICT, INVALID_REQUEST
from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import TableName, command
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.progress import shown_steps
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.cli.upkeep.dagster_home import known_instance
from lakewright.cli.upkeep.project_paths import known_tables
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.undo.parts import Undo
from lakewright.platform.undo.undo import plan_undo, run_undo
from lakewright.platform.undo.undoable import Undoable, list_undoable
from lakewright.platform.upkeep.procedure import Work

if TYPE_CHECKING:
    import dagster as dg

    from lakewright.storage import Catalog


@command(
    "undo",
    of_table=False,
    notes="""
RUN is the id of a Dagster run, or its first 8 digits or more; or what `lakewright snapshots` shows
as the user of a command's commits, or the 8 digits in it. Snapshots are taken back until they
expire, deletions until they are collected. What cannot be undone is reported with the
reason, and nothing else waits for it. Where upkeep has rewritten files of the run since, its
rewrites are taken back in the same commit; rows that others wrote stay. The exit code is 5 if
nothing is undone, or if later work stands in the way of a part, and 2 if --dry-run finds so. A
table that cannot be read is only a note if the ledger says that the
run did not work on it. `lakewright condemned put-back` takes a single deletion back.
""",
    examples="""
lakewright undo 1f0c2d3e --dry-run
lakewright undo 1f0c2d3e --table nyc.flights
""",
)
@click.argument("run", required=False)
@click.option(
    "--table",
    "tables",
    metavar="TABLE",
    type=TableName(),
    multiple=True,
    help="Undo it in this table only. May be given several times.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done; write nothing.")
def undo(call: Call, *, run: str | None, tables: tuple[str, ...]) -> Answer:
    """Undo a run: revert its snapshots, and put back what it deleted until that is collected.

    Without RUN, list what can be undone, the latest first: in this order nothing stands in the way.
    """
    catalog = call.catalog()
    if run is None:
        return _listed(catalog, tables)
    # Told after the progress, which has the terminal to itself.
    warnings: list[str] = []
    with shown_steps() as steps:
        steps.begin(f"looking for run {run}")
        undone = plan_undo(catalog, run, tables=tables or None)
    with known_instance() as instance, shown_steps() as steps:
        if instance is not None:
            _check_ended(instance, undone)
        if not call.dry_run:
            work = Work(run=f"lakewright undo ({catalog.env.new_id()[:8]})", session=_no_session)
            undone = run_undo(
                catalog,
                undone,
                work,
                recorder=Recorder.of(catalog, warn=warnings.append),
                told=lambda part: steps.begin(f"undo: {part.summary}"),
            )
        if instance is not None and not call.dry_run:
            _tell(instance, catalog, undone, warnings.append)
    for warning in warnings:
        sys.stderr.write(f"lakewright: warning: {warning}\n")
    return Answer(
        text=lambda: _text(undone, is_plan=call.dry_run),
        value=lambda: _record(undone),
        records=lambda: _records(undone),
        code=0 if undone.is_whole else INVALID_REQUEST if call.dry_run else CONFLICT,
    )


def _listed(catalog: Catalog, tables: tuple[str, ...]) -> Answer:
    found, unread = list_undoable(catalog, tables or None)
    for each in unread:
        sys.stderr.write(f"lakewright: warning: {each}\n")

    def text() -> list[Block]:
        if not found:
            return ["nothing can be undone: no run of Dagster or of a command left anything"]
        return [TextTable(_UNDOABLE, [_cells(each) for each in found])]

    def records() -> list[dict[str, object]]:
        return [
            {
                "run": each.run,
                "table": each.table,
                "what": each.what,
                "at": iso_time(each.at_ms),
                "until": None if each.until_ms is None else iso_time(each.until_ms),
                "after": each.after or None,
            }
            for each in found
        ]

    return Answer(text=text, value=records)


_UNDOABLE = [
    TextColumn("run"),
    TextColumn("table"),
    TextColumn("what"),
    TextColumn("at (UTC)"),
    TextColumn("until (UTC)"),
    TextColumn("undo first"),
]


def _cells(each: Undoable) -> list[Cell]:
    until = "they expire" if each.until_ms is None else time_text(each.until_ms)
    return [each.run, each.table, each.what, time_text(each.at_ms), until, each.after or "-"]


def _check_ended(instance: dg.DagsterInstance, found: Undo) -> None:
    from lakewright.platform.orchestration.undo_reports import check_ended

    check_ended(instance, found.run)


def _tell(
    instance: dg.DagsterInstance, catalog: Catalog, found: Undo, warn: Callable[[str], object]
) -> None:
    """Show on the pages of the assets what was undone, as the job does."""
    from lakewright.platform.ingest.inferred_columns import with_columns_of_source
    from lakewright.platform.orchestration.names import AssetKeys, UpkeepNames, usual_key
    from lakewright.platform.orchestration.rejects_reports import rejects_key
    from lakewright.platform.orchestration.undo_reports import shows_table, tell_undone
    from lakewright.platform.tables.declarations import rejects_name
    from lakewright.platform.tables.workspace import read_right

    declared = read_right(known_tables(), infer=with_columns_of_source).declarations
    rejects = {rejects_name(each.table): rejects_key(usual_key(each.table)) for each in declared}
    names = UpkeepNames(keys=AssetKeys(rejects))
    # Another project of this Dagster may have an asset of the same key.
    shown = [
        part
        for part in found.parts
        if shows_table(instance, catalog.table(part.table), names.keys.of(part.table))
    ]
    tell_undone(
        instance,
        catalog,
        replace(found, parts=tuple(shown)),
        {each.table: each for each in declared},
        names,
        tell=instance.report_runless_asset_event,
        warn=warn,
    )


def _no_session() -> NoReturn:
    raise AssertionError("an undo copies files and starts no Spark session")


def _text(found: Undo, *, is_plan: bool) -> list[Block]:
    blocks: list[Block] = [f"run {found.run}"]
    blocks += [part.summary for part in found.parts]
    if found.left_alone:
        columns = [TextColumn("table"), TextColumn("skipped"), TextColumn("why")]
        blocks.append(
            TextTable(columns, [(each.table, each.what, each.why) for each in found.left_alone])
        )
    blocks += [
        f"note: {each.table} cannot be read; by the ledger, the run changed nothing there: "
        f"{each.why}"
        for each in found.unread
    ]
    if is_plan:
        blocks.append("dry run: nothing was written")
    return blocks


def _record(found: Undo) -> dict[str, object]:
    unread = [{"table": each.table, "told": each.why} for each in found.unread]
    return {"run": found.run, "parts": _records(found), "unread": unread}


def _records(found: Undo) -> list[dict[str, object]]:
    parts: list[dict[str, object]] = [
        {"table": part.table, "what": part.what, "verb": part.verb, "told": part.summary}
        for part in found.parts
    ]
    return parts + [
        {"table": each.table, "what": each.what, "verb": None, "told": each.why}
        for each in found.left_alone
    ]
