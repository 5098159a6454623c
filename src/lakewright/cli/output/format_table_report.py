"""`lakewright show` of a format table: what its schema and its folders say, as JSON and as text."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from lakewright.cli.output.table_report import column_records, column_table
from lakewright.cli.output.tables import Block, Facts, Heading
from lakewright.storage import FormatTable
from lakewright.storage.operations.format_tables.format_spec import TABLE_TYPE
from lakewright.storage.secret_texts import shown_options


@dataclass(frozen=True, slots=True)
class FormatTableReport:
    """The description of a format table; no file is opened for it."""

    table: FormatTable
    partition_count: int


def report_format_table(table: FormatTable) -> FormatTableReport:
    """Describe a table of plain files.

    Raises:
        InvalidOption: an option is missing or has an unknown value.
    """
    return FormatTableReport(table, len(table.partitions()))


def format_table_json(report: FormatTableReport) -> dict[str, object]:
    """The report for scripts."""
    table, schema, spec = report.table, report.table.schema, report.table.spec
    return {
        "table": table.name,
        "type": TABLE_TYPE,
        "location": table.location,
        "comment": schema.comment,
        "file_format": spec.format,
        "schema_id": schema.id,
        "columns": column_records(schema),
        "partition_keys": list(schema.partition_keys),
        "only_values": spec.only_values,
        "registry": spec.is_registered,
        "partition_count": report.partition_count,
        "options": shown_options(schema.options),
    }


def format_table_text(report: FormatTableReport) -> list[Block]:
    """The report for people."""
    table, schema, spec = report.table, report.table.schema, report.table.spec
    keys = schema.partition_keys
    folders = "values alone" if spec.only_values else "key=value"
    known = "its registry" if spec.is_registered else "their folders"
    facts = {
        "location": table.location,
        "comment": schema.comment,
        "kind": f"format table: folders of {spec.format} files, without snapshots",
        "partitioned by": ", ".join(keys),
        "folders": f"named by {folders}" if keys else "",
        "partitions": f"{report.partition_count:,}, known by {known}" if keys else "",
        "rows": f"lakewright format-table read {shlex.quote(table.name)}",
    }
    text: list[Block] = [Heading(table.name), Facts(facts), ""]
    text += [Heading(f"columns (schema {schema.id})"), column_table(schema), ""]
    return [*text, Heading("options"), Facts(shown_options(schema.options))]
