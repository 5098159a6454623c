"""`lakewright up`: the workspace in the Dagster UI."""

from __future__ import annotations

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import FROM_1


@command(
    "up",
    of_table=False,
    of_form=False,
    examples="lakewright up --port 3001\nLAKEWRIGHT_TABLES=tables lakewright up",
)
@click.option("--port", metavar="N", type=FROM_1, default=3000, show_default=True)
def up(call: Call, *, port: int) -> None:
    """Open the workspace in the Dagster UI."""
    from lakewright.demo import run_up

    run_up(call.warehouse, port)
