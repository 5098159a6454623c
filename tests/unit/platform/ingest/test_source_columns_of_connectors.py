"""Columns of a connector's table that a declaration lacks: told, or refused if it says so."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.platform.ingest.connector_source import columns_not_read, connector_rows
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRows


def declared(tmp_path: Path, **source: str) -> TableDeclaration:
    """A table of two columns over one of three."""
    place = tmp_path / "shop.db"
    with sqlite3.connect(place) as shop:
        shop.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER, v TEXT, note TEXT)")
    return TableDeclaration.model_validate(
        {
            "table": "db.orders",
            "columns": [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}],
            "source": {
                "connector": "jdbc",
                "options": {"url": f"sqlite:///{place}", "table-name": "orders"},
                **source,
            },
        }
    )


def test_a_column_that_is_not_declared_is_told(catalog: Catalog, tmp_path: Path) -> None:
    table = declared(tmp_path)
    catalog.create_database("db")
    Session(catalog).sql(f"""
        CREATE TABLE db.source (id BIGINT) WITH ('connector' = 'jdbc', 'table-name' = 'orders',
          'url' = 'sqlite:///{tmp_path}/shop.db')
    """)
    planned = plan_scan(ExternalTables(catalog).context("db.source"), ScanRequest())
    assert columns_not_read(table, planned) == ("note",)
    assert [each.num_rows for each in connector_rows(table, catalog, None, None)] == [0]


def test_it_ends_the_run_if_the_declaration_refuses_it(catalog: Catalog, tmp_path: Path) -> None:
    table = declared(tmp_path, extra_columns="refuse")
    with pytest.raises(InvalidRows, match=r"does not declare: note; nothing was read; declare"):
        list(connector_rows(table, catalog, None, None))
    ignoring = declared(tmp_path, extra_columns="ignore")
    assert [each.num_rows for each in connector_rows(ignoring, catalog, None, None)] == [0]
