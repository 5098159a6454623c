"""The connector `jdbc` against a real PostgreSQL: the suites, exact values, and push-down."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from lakewright.connectors.jdbc.connector import Jdbc
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.testing import KeyedSinkSuite, SourceSuite
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError
from tests.support.stores.servers import SECRET, postgres_server

pytestmark = pytest.mark.servers

_COLUMNS = {
    "id": "BIGINT",
    "name": "STRING",
    "price": "DECIMAL(30, 5)",
    "day": "DATE",
    "at": "TIMESTAMP(6)",
    "zoned": "TIMESTAMP_LTZ(6)",
    "ok": "BOOLEAN",
    "bytes": "BYTES",
}
_MAKE = """
DROP TABLE IF EXISTS items;
CREATE TABLE items (id BIGINT PRIMARY KEY, name TEXT, price NUMERIC(30, 5), day DATE,
  at TIMESTAMP, zoned TIMESTAMPTZ, ok BOOLEAN, bytes BYTEA)
"""
_ROWS: Sequence[Mapping[str, Any]] = [
    {
        "id": 1,
        "name": 'ann\'s "a" \\ ü',
        "price": Decimal("1234567890123456789012345.12345"),
        "day": dt.date(1582, 10, 4),
        "at": dt.datetime(2024, 1, 31, 12, 0, 0, 5),
        "zoned": dt.datetime(2024, 1, 31, 12, 0, 0, 5, dt.UTC),
        "ok": True,
        "bytes": b"\x00\xff",
    },
    {name: 2 if name == "id" else None for name in _COLUMNS},
    {
        "id": -3,
        "name": "",
        "price": Decimal("-0.00001"),
        "day": dt.date(1969, 12, 31),
        "at": dt.datetime(1969, 12, 31, 23, 59, 59),
        "zoned": dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
        "ok": False,
        "bytes": b"",
    },
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        # It listens before it is ready.
        for _ in range(100):
            if subprocess.run(["pg_isready", "-q", "-d", url], check=False).returncode == 0:
                break
            time.sleep(0.1)
        yield url


def statement(url: str, text: str) -> str:
    ran = subprocess.run(
        ["psql", url, "-v", "ON_ERROR_STOP=1", "-qtA", "-c", text],
        env={**os.environ, "PGPASSWORD": SECRET},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


class _OnPostgres:
    url: str
    factory = Jdbc()
    columns = _COLUMNS
    primary_key: ClassVar[Sequence[str]] = ("id",)
    rows = _ROWS

    @pytest.fixture(autouse=True)
    def _made(self, server: str) -> None:
        self.url = server
        statement(server, _MAKE)

    def given_options(self) -> Mapping[str, str]:
        return {"url": f"jdbc:{self.url}", "table-name": "public.items", "password": SECRET}

    def written(self) -> Sequence[Mapping[str, Any]]:
        planned = plan_scan(self.context(), ScanRequest())  # type: ignore[attr-defined]
        return [row for piece in planned.rows() for row in piece.to_pylist()]


class TestPostgresSink(_OnPostgres, KeyedSinkSuite):
    """Upserts and deletions."""


class TestPostgresSource(_OnPostgres, SourceSuite):
    """Rows that its sink wrote."""

    @pytest.fixture(autouse=True)
    def _filled(self, _made: None) -> None:
        sink = TestPostgresSink()
        sink.url = self.url
        sink.planned().write([sink.table(_ROWS)])

    def given_options(self) -> Mapping[str, str]:
        ranges = {"scan.partition.column": "id", "scan.partition.num": "3"}
        return {**super().given_options(), **ranges}


def test_a_query_makes_a_table_and_filters_go_to_the_server(
    server: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_PASSWORD", SECRET)
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    options = f"'connector' = 'jdbc', 'url' = '{server}', 'password' = '${{env:PG_PASSWORD}}'"
    session.sql(f"""
        CREATE DATABASE db; USE db;
        CREATE TABLE kept (id BIGINT, at TIMESTAMP(3), price DECIMAL(10, 2));
        INSERT INTO kept VALUES (1, TIMESTAMP '2024-01-31 12:00:00', 1.5), (2, NULL, NULL);
        CREATE TABLE made WITH ({options}, 'table-name' = 'made') AS SELECT * FROM kept
    """)
    assert statement(server, "SELECT * FROM made ORDER BY id") == "1|2024-01-31 12:00:00|1.50\n2||"
    asked = "SELECT id FROM made WHERE id >= 2"
    told = session.sql(f"EXPLAIN {asked}").rows
    assert '"id" >= 2' in str(told.column("value").to_pylist())
    found = session.sql(asked).rows
    assert found.to_pylist() == [{"id": 2}]
    monkeypatch.setenv("PG_PASSWORD", "wrong")
    with pytest.raises(InvalidRequestError) as refused:
        session.sql("SELECT * FROM made")
    assert "wrong" not in refused.value.message.replace("wrong password", "")
    assert SECRET not in refused.value.message
