"""`lakewright up`: the workspace in the Dagster UI."""

from __future__ import annotations

from pathlib import Path

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.options import FROM_1
from lakewright.cli.upkeep.policies import policy_options


@command(
    "up",
    of_table=False,
    of_form=False,
    notes="""
Serves the declared tables, and with policies all tables of the warehouse; without either, the
Dagster project of this folder. The Dagster home is $DAGSTER_HOME, or dagster_home in this folder.
The page that the asset warehouse_report writes is served on the next port, or on a free one.
""",
    examples="""
lakewright up --port 3001
lakewright up --tables tables
lakewright up --warehouse s3://lake/warehouse --policy policy.yaml
""",
)
@policy_options(of_project=False)
@click.option("--port", metavar="N", type=FROM_1, default=3000, show_default=True)
def up(call: Call, *, policy: tuple[Path, ...], tables: tuple[Path, ...], port: int) -> None:
    """Open the workspace in the Dagster UI."""
    from lakewright.project.serve import serve

    serve(call.warehouse, tables, policy, port)
