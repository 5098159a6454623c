"""Opens a declared table: creates it if it is missing, and refuses it if rows would not fit."""

from __future__ import annotations

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.managed_life import created
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.schema_drift import SchemaDrift, Writing, schema_drift
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidSchema


def open_declared(
    catalog: Catalog, declaration: TableDeclaration, writing: Writing | None = None
) -> tuple[Table, SchemaDrift]:
    """The declared table, created if it is missing, and how it differs for a run that writes it."""
    name, spec = declaration.table, declaration.schema_spec
    if catalog.table_exists(name):
        table = catalog.table(name)
    else:
        with created(ExternalTables(catalog), name, spec) as settled:
            table = catalog.create_table(name, settled, if_not_exists=True)
    return table, schema_drift(declaration, table, writing)


def check_rows_fit(drift: SchemaDrift) -> None:
    """Check that declared rows fit the table.

    They fit a table that another client altered ahead of its declaration if the other columns allow
    null, and rows are appended, update partially, or replace rows without values there.

    Raises:
        InvalidSchema: declared rows do not fit the table; the message names every difference.
    """
    if drift.reasons:
        ways = []
        if drift.misfits or drift.found.others:
            ways.append(
                f"`lakewright evolve-schema {drift.table}` (evolve_schema in the job upkeep)"
            )
        if drift.found.keys is not None:
            keys = ",".join(drift.found.keys.keys)
            ways.append(
                f"`lakewright respec {drift.table} --keys {keys}` (respec in the job upkeep)"
            )
        raise InvalidSchema(
            f"table {drift.table} is not as declared, and differs by: {'; '.join(drift.reasons)}; "
            f"run {' and '.join(ways)}, which makes the table as declared, or change the "
            "declaration to what the table has"
        )
