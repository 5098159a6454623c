"""`lakewright relay`: publishes what was committed to a table in its log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer, said
from lakewright.platform.upkeep.words import counted

if TYPE_CHECKING:
    from lakewright.connectors.log import Relayed


@command(
    "relay",
    notes="""
Statements of `lakewright sql` do so after each commit, and the job `relay` of Dagster for declared
tables. This command is for tables that other clients write. Several processes may relay a table:
each commit is published once.
--anew deletes the topic and makes it again, with all present rows; its readers begin anew too.
""",
    examples="""
lakewright relay shop.orders
lakewright relay shop.orders --follow
""",
)
@click.option("--follow", is_flag=True, help="Continue with later commits.")
@click.option("--anew", is_flag=True, help="Make the topic again, with all present rows.")
def relay(call: Call, *, follow: bool, anew: bool) -> Answer:
    """Publish what was committed in the table's log."""
    from lakewright.connectors import log

    check_one_of(follow=follow or None, anew=anew or None)
    table = call.table()
    if not follow:
        return _answer(log.relay(table, anew=anew))
    for each in log.follow(call.table):
        _answer(each).print(call.form)
        sys.stdout.flush()
    raise AssertionError("it ends when it is interrupted")


def _answer(done: Relayed) -> Answer:
    commits = counted(done.commits, "commit")
    return said(
        f"{done.table}: {commits} published, up to snapshot {done.snapshot_id}",
        table=done.table,
        commits=done.commits,
        snapshot=done.snapshot_id,
    )
