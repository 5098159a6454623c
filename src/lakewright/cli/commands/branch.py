"""`lakewright branch`: second histories of a table, which share its files."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command, group
from lakewright.cli.grammar.options import FROM_1
from lakewright.cli.output.answers import Answer, listed, said
from lakewright.cli.output.tables import TextColumn
from lakewright.cli.output.text import Cell, iso_time, time_text
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.history import DELETE_BRANCH, FAST_FORWARD

if TYPE_CHECKING:
    from lakewright.storage import Branch, Table


@command("list", examples="lakewright branch list nyc.flights")
def _list(call: Call) -> Answer:
    """List a table's branches."""
    table = call.table()
    return listed(
        table.history.branches(),
        [
            TextColumn("branch"),
            TextColumn("created (UTC)"),
            TextColumn("earliest snapshot", right=True),
            TextColumn("latest snapshot", right=True),
            TextColumn("its table"),
        ],
        cells=lambda each: _cells(table, each),
        record=lambda each: {**asdict(each), "created": iso_time(each.created_ms)},
        empty=f"{table.name} has no branch besides main",
    )


def _cells(table: Table, branch: Branch) -> list[Cell]:
    return [
        branch.name,
        time_text(branch.created_ms),
        "-" if branch.earliest_snapshot_id is None else str(branch.earliest_snapshot_id),
        "-" if branch.latest_snapshot_id is None else str(branch.latest_snapshot_id),
        shlex.quote(table.history.at_branch(branch.name).name),
    ]


@command(
    "create",
    notes="""
A branch that begins empty has none of the rows of its table: it begins with a schema alone, and a
fast-forward to it would drop the table's history.
""",
    examples="""
lakewright branch create nyc.flights trial --tag q4
lakewright branch create nyc.flights trial --snapshot 12
""",
)
@click.argument("name", metavar="BRANCH")
@click.option("--tag", metavar="TAG", help="Begin at this tag (default: empty).")
@click.option(
    "--snapshot", metavar="N", type=FROM_1, help="Begin at this snapshot (default: empty)."
)
def _create(call: Call, *, name: str, tag: str | None, snapshot: int | None) -> Answer:
    """Begin a branch at a tag or snapshot; without --tag and --snapshot it begins empty."""
    check_one_of(tag=tag, snapshot=snapshot)
    table = call.table()
    branch = table.history.create_branch(name, tag=tag, snapshot=snapshot)
    latest = branch.history.latest_snapshot()
    where = "empty" if latest is None else f"at snapshot {latest.id}"
    # Quoted, since a shell would take what follows the dollar for a variable.
    lines = [f"branch {name} of {table.name} begins {where}: {shlex.quote(branch.name)}"]
    present = table.history.latest_snapshot()
    if latest is None and present is not None:
        quoted = shlex.quote(table.name)
        again = f"{quoted} {shlex.quote(name)}"
        lines += [
            f"  without the rows of {table.name}, whose history a fast-forward would drop",
            (
                f"  to begin where the table is instead: lakewright branch delete {again}; "
                f"lakewright branch create {again} --snapshot {present.id}"
            ),
        ]
    snapshot_id = None if latest is None else latest.id
    return said(*lines, branch=name, table=branch.name, snapshot_id=snapshot_id)


branch = group(
    "branch",
    "Keep second histories of a table, which share its files.",
    [_list, _create, verb_command(DELETE_BRANCH), verb_command(FAST_FORWARD)],
    notes="The table of a branch is 'DB.TABLE$branch_NAME', for every command.",
)
