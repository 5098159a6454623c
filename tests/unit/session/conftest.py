"""A session on a warehouse whose tables are checked when a test is over."""

from __future__ import annotations

import pytest

from lakewright.session import Session, StatementResult
from lakewright.storage import Catalog

VIEWS = """
USE db;
CREATE TABLE country_page_view (user STRING, cnt INT)
  PARTITIONED BY (`date` STRING, country STRING);
CREATE TABLE country_page_view_source (user STRING, cnt INT, `date` STRING, country STRING);
INSERT INTO country_page_view_source VALUES
  ('ann', 3, '2019-8-30', 'china'), ('bob', 5, '2019-8-30', 'peru'), ('eve', 8, '2019-8-31', 'peru')
"""


@pytest.fixture
def session(catalog: Catalog) -> Session:
    catalog.create_database("db")
    session = Session(catalog)
    session.sql("USE db")
    return session


@pytest.fixture
def views(session: Session) -> Session:
    """The tables of the worked examples, with three rows to insert."""
    session.sql(VIEWS)
    return session


def first_column(result: StatementResult) -> list[object]:
    assert result.rows is not None
    found: list[object] = result.rows.column(0).to_pylist()
    return found


def rows_of(session: Session, text: str) -> list[tuple[object, ...]]:
    rows = session.sql(text).rows
    assert rows is not None
    return [tuple(each.values()) for each in rows.to_pylist()]
