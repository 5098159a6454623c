"""Warehouses whose tables are checked when a test is over."""

from tests.support.tables.fixtures import catalog, env, unchecked_catalog

__all__ = ["catalog", "env", "unchecked_catalog"]
