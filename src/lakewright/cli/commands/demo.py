"""`lakewright demo`: real flights through the whole of it."""

from __future__ import annotations

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command


@command("demo", of_table=False, of_form=False, examples="lakewright demo")
def demo(call: Call) -> None:
    """Ingest real flights through Dagster and Spark, compact, expire, and show what happened."""
    from lakewright.demo import run_demo

    run_demo(call.warehouse)
