"""`lakewright metrics`: what the ledger holds, for Prometheus."""

from __future__ import annotations

import sys

import click

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.grammar.values import age_ms


@command(
    "metrics",
    of_table=False,
    of_form=False,
    examples="lakewright metrics\nlakewright metrics --since 30d",
    notes="""
The text format of Prometheus, for the textfile collector of node_exporter or for a scrape. Counters
begin anew when rows leave the ledger, or the time of --since.
""",
)
@click.option(
    "--since", "since_ms", type=age_ms, metavar="AGE", help="Only actions since then (30d)."
)
def metrics(call: Call, *, since_ms: int | None) -> None:
    """Print runs, time, bytes and benefit of each table and verb as metrics."""
    from lakewright.cli.output.ledger_text import actions_since
    from lakewright.platform.ledger.metrics import metrics_text

    sys.stdout.write(metrics_text(actions_since(call, table=None, verb=None, since_ms=since_ms)))
