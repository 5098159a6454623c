"""`lakewright ledger`: the actions of upkeep, as they were recorded."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.values import age_ms
from lakewright.cli.output.answers import Answer, listed, said
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.storage.errors import NotFoundError, TableNotFound

if TYPE_CHECKING:
    from lakewright.platform.ledger.action import Action
    from lakewright.storage import Catalog


@command(
    "ledger",
    of_table=False,
    examples="""
lakewright ledger --create
lakewright ledger nyc.flights --since 1d
lakewright ledger --verb compact --format csv
""",
    notes="""
The ledger is a table of the warehouse, lakewright.ledger, which any client reads. Once it exists,
each command and job that changes a table for its upkeep adds a row. LAKEWRIGHT_LEDGER=off adds
none; LAKEWRIGHT_LEDGER=on also makes a missing ledger. `lakewright undo RUN` takes a run back.
`lakewright trend` prints the health of tables over time.
""",
)
@click.argument("table", metavar="[TABLE]", required=False)
@click.option(
    "--since", "since_ms", type=age_ms, metavar="AGE", help="Only actions since then (7d)."
)
@click.option("--verb", metavar="VERB", help="Only this verb, such as compact or expire_snapshots.")
@click.option("--run", metavar="RUN", help="Only what this run did.")
@click.option("--create", is_flag=True, help="Create the ledger of the warehouse.")
def ledger(
    call: Call,
    *,
    table: str | None,
    since_ms: int | None,
    verb: str | None,
    run: str | None,
    create: bool,
) -> Answer:
    """List the actions of upkeep, or of one table, oldest first."""
    from lakewright.cli.output.ledger_text import actions_since, no_ledger, short_run
    from lakewright.platform.ledger.ledger import Ledger

    catalog = call.catalog()
    if create:
        check_one_of(create=create, table=table, since=since_ms, verb=verb, run=run)
        begun = Ledger(catalog)
        there = begun.exists()
        begun.create()
        what = "has a ledger already" if there else "has a ledger from now on"
        return said(f"{catalog.uri} {what}: {begun.name}", ledger=begun.name, created=not there)
    name = verb.replace("-", "_") if verb is not None else None
    if not Ledger(catalog).exists():
        return listed([], [], cells=_cells, record=_record, empty=no_ledger(catalog))
    found = actions_since(call, table=table, verb=name, since_ms=since_ms)
    if table is not None and not found:
        _check_known(catalog, table)
    return listed(
        [each for each in found if run in (None, each.run, short_run(each.run))],
        [
            TextColumn("began (UTC)"),
            TextColumn("table"),
            TextColumn("verb"),
            TextColumn("verdict"),
            TextColumn("took", right=True),
            TextColumn("foreseen", right=True),
            TextColumn("run"),
            TextColumn("what"),
        ],
        cells=_cells,
        record=_record,
        empty="no such action is recorded",
    )


def _check_known(catalog: Catalog, table: str) -> None:
    """Check that a table without actions exists, or has been in the ledger.

    Raises:
        NotFoundError: it never was, as far as is known; the message names a similar table.
    """
    from lakewright.platform.ledger.ledger import Ledger

    try:
        catalog.table(table)
    except TableNotFound as error:
        if Ledger(catalog).actions(table=table):
            return
        listed_tables = [
            f"{database}.{name}"
            for database in catalog.list_databases()
            for name in catalog.list_tables(database)
        ]
        near = difflib.get_close_matches(table, listed_tables, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise NotFoundError(f"{error.message}; no action on it is recorded{hint}") from error


def _cells(action: Action) -> list[Cell]:
    from lakewright.cli.output.ledger_text import short_run
    from lakewright.platform.upkeep.words import duration_text

    foreseen = action.predicted_cost.milliseconds if action.predicted_cost else 0
    return [
        time_text(action.started_ms),
        action.table,
        action.verb,
        action.verdict.value.replace("_", " "),
        duration_text(action.cost.milliseconds),
        duration_text(foreseen) if foreseen else "-",
        short_run(action.run),
        # A shadow has done nothing yet, so its reason stands here.
        action.error or action.summary or action.reason,
    ]


def _record(action: Action) -> dict[str, object]:
    from lakewright.platform.ledger.action_rows import row_of

    times = {"started": iso_time(action.started_ms), "ended": iso_time(action.ended_ms)}
    return {**row_of(action), **times}
