"""`lakewright show` of an external table: what its definition says, as JSON and as text."""

from __future__ import annotations

from lakewright.cli.output.table_report import column_records, column_table
from lakewright.cli.output.tables import Block, Facts, Heading
from lakewright.connectors.model.catalog_table import CONNECTOR, ResolvedCatalogTable
from lakewright.storage.secret_texts import shown_options
from lakewright.storage.spec.flink_columns import UnstoredColumn


def external_table_json(table: ResolvedCatalogTable) -> dict[str, object]:
    """The definition for scripts."""
    definition = table.definition
    return {
        "table": table.name,
        "type": "external-table",
        "connector": definition.connector,
        "comment": definition.comment,
        "columns": column_records(table.schema),
        "unstored_columns": {each.name: _unstored(each) for each in definition.unstored},
        "primary_key": list(table.primary_keys),
        "partition_keys": list(table.partition_keys),
        "distribution": None if table.distribution is None else str(table.distribution),
        "options": shown_options(definition.options),
    }


def external_table_text(table: ResolvedCatalogTable) -> list[Block]:
    """The definition for people."""
    definition = table.definition
    facts = {
        "kind": f"external table of connector {definition.connector}",
        "comment": definition.comment,
        "primary key": ", ".join(table.primary_keys),
        "partitioned by": ", ".join(table.partition_keys),
        "distributed": "" if table.distribution is None else str(table.distribution),
    }
    text: list[Block] = [Heading(table.name), Facts(facts), ""]
    text += [Heading("columns"), column_table(table.schema), ""]
    if definition.unstored:
        unstored = Facts({each.name: _unstored(each) for each in definition.unstored})
        text += [Heading("columns that are not stored"), unstored, ""]
    options = {name: value for name, value in definition.options.items() if name != CONNECTOR}
    return [*text, Heading("options"), Facts(shown_options(options))]


def _unstored(column: UnstoredColumn) -> str:
    if column.expression is not None:
        return f"{column.type} AS {column.expression}"
    virtual = " VIRTUAL" if column.virtual else ""
    return f"{column.type} METADATA FROM '{column.metadata}'{virtual}"
