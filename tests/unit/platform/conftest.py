"""Warehouses whose tables, and their ledger, are checked afterwards."""

from tests.support.tables.fixtures import catalog, env, unchecked_catalog

__all__ = ["catalog", "env", "unchecked_catalog"]
