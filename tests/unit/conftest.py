"""Warehouses whose tables are checked when a test is over."""

from tests.support.tables.fixtures import any_catalog, catalog, env, unchecked_catalog

__all__ = ["any_catalog", "catalog", "env", "unchecked_catalog"]
