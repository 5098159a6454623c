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
    from lakewright.cli.output.external_table_report import (
        external_table_json,
        external_table_text,
    )
    from lakewright.cli.output.format_table_report import (
        format_table_json,
        format_table_text,
        report_format_table,
    )
    from lakewright.cli.output.table_report import report_json, report_table, report_text
    from lakewright.connectors.external_tables import ExternalTables
    from lakewright.storage import FormatTable
    from lakewright.storage.operations.format_tables.format_spec import is_format_table

    externals = ExternalTables(call.catalog())
    if externals.has(call.table_name):
        external = externals.resolved(call.table_name)
        return Answer(
            text=lambda: external_table_text(external), value=lambda: external_table_json(external)
        )
    table = call.table_of_any_type()
    if is_format_table(table.schema):
        found = report_format_table(FormatTable(table.table_files))
        return Answer(text=lambda: format_table_text(found), value=lambda: format_table_json(found))
    report = report_table(table)
    return Answer(text=lambda: report_text(report), value=lambda: report_json(report))
