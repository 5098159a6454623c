"""What every subcommand opens: the warehouse, a table, a filter."""

from __future__ import annotations

import argparse
import shlex

from lakewright.cli.arguments import WAREHOUSE_VARIABLE
from lakewright.storage import Catalog, Table, TableSchema
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.operations.inspection.system_tables import check_system_table
from lakewright.storage.operations.references.branches import BRANCH_MARK
from lakewright.storage.spec.predicate import Predicate


def open_catalog(parsed: argparse.Namespace) -> Catalog:
    """The warehouse that was named, which must exist.

    Raises:
        NotFoundError: it does not, so nothing in it does.
    """
    catalog = Catalog.open(parsed.warehouse)
    if not catalog.fs.exists(catalog.root):
        raise NotFoundError(
            f"no warehouse at {catalog.uri}; name one with --warehouse or ${WAREHOUSE_VARIABLE}"
        )
    return catalog


def open_table(parsed: argparse.Namespace) -> Table:
    """The table that was named.

    Raises:
        InvalidRequestError: it is a system table; the message says what prints it.
    """
    catalog = open_catalog(parsed)
    name, mark, last = parsed.table.rpartition("$")
    is_plain = not mark or f"{mark}{last}".startswith(BRANCH_MARK)
    # A folder may bear such a name.
    if not is_plain and not catalog.table_exists(parsed.table):
        check_system_table(catalog.table(name).files, last)
        raise InvalidRequestError(
            f"{parsed.table} is a system table; print it with "
            f"`lakewright inspect {shlex.quote(name)} {last}`"
        )
    return catalog.table(parsed.table)


def filter_of(parsed: argparse.Namespace, schema: TableSchema) -> Predicate | None:
    """What `--where` says."""
    if parsed.where is None:
        return None
    # The parser is only loaded by those who filter.
    from lakewright.storage.sql import parse_where

    return parse_where(parsed.where, schema)
