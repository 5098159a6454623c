"""What every subcommand opens: the warehouse, a table, a filter."""

from __future__ import annotations

import argparse

from lakewright.cli.arguments import WAREHOUSE_VARIABLE
from lakewright.storage import Catalog, Table, TableSchema
from lakewright.storage.errors import NotFoundError
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
    """The table that was named."""
    return open_catalog(parsed).table(parsed.table)


def filter_of(parsed: argparse.Namespace, schema: TableSchema) -> Predicate | None:
    """What `--where` says."""
    if parsed.where is None:
        return None
    # The parser is only loaded by those who filter.
    from lakewright.storage.sql import parse_where

    return parse_where(parsed.where, schema)
