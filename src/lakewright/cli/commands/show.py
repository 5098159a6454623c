"""`lakewright show`: all that metadata says of one table."""

from __future__ import annotations

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import command
from lakewright.cli.output.answers import Answer


@command(
    "show",
    examples="""
lakewright show nyc.flights
lakewright show 'nyc.flights$branch_trial' --format json
""",
)
def show(call: Call) -> Answer:
    """Describe a table: schema, keys, options, contents, health."""
    from lakewright.cli.output.table_report import report_json, report_table, report_text

    report = report_table(call.table())
    return Answer(text=lambda: report_text(report), value=lambda: report_json(report))
