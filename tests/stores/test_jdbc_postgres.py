"""The connector `jdbc` against a real PostgreSQL: the suites, exact values, and push-down."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pytest

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.jdbc.connector import Jdbc
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan, source_of
from lakewright.connectors.runtime import Lookup
from lakewright.connectors.sources import LookupTableSource
from lakewright.connectors.testing import KeyedSinkSuite, SourceSuite
from lakewright.connectors.testing.tables import context_of
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError, InvalidRows, UnsupportedError
from lakewright.storage.spec.predicate import Leaf, Operator
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


_TYPES = """
DROP SCHEMA IF EXISTS v CASCADE; CREATE SCHEMA v; SET search_path = v, public;
CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
CREATE EXTENSION IF NOT EXISTS hstore SCHEMA public;
CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a INT, b TIMESTAMP);
CREATE DOMAIN positive AS INT CHECK (value > 0); CREATE DOMAIN moment AS TIMESTAMP
"""
_UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
# The type and the value there, the declared type, and the value that arrives.
_ARRIVE: Sequence[tuple[str, str, str, object]] = [
    ("oid", "4294967295", "BIGINT", 4294967295),
    ("xid", "'4294967295'", "BIGINT", 4294967295),
    ("xid8", "'18446744073709551615'", "DECIMAL(20, 0)", Decimal(18446744073709551615)),
    ("oid[]", "'{4294967295}'", "ARRAY<BIGINT>", [4294967295]),
    ("money", "12.34", "DECIMAL(10, 2)", Decimal("12.34")),
    ("money[]", "'{12.34}'", "ARRAY<DECIMAL(10, 2)>", [Decimal("12.34")]),
    ("positive", "5", "INT", 5),
    ("numeric", "'NaN'", "STRING", "NaN"),
    ("numeric[]", "'{1.50}'", "ARRAY<DECIMAL(10, 2)>", [Decimal("1.50")]),
    ("float8", "0.1", "STRING", "0.1"),
    ("bool", "true", "STRING", "true"),
    ("uuid", f"'{_UUID}'", "STRING", _UUID),
    ("uuid", f"'{_UUID}'", "BYTES", bytes.fromhex(_UUID.replace("-", ""))),
    ("uuid[]", f"'{{{_UUID},NULL}}'", "ARRAY<STRING>", [_UUID, None]),
    ("citext", "'Ab'", "STRING", "Ab"),
    ("mood", "'ok'", "STRING", "ok"),
    ("mood[]", "'{ok}'", "ARRAY<STRING>", ["ok"]),
    ("inet", "'10.0.0.1'", "STRING", "10.0.0.1"),
    ("inet", "'10.0.0.1/8'", "STRING", "10.0.0.1/8"),
    ("cidr", "'10.0.0.0/8'", "STRING", "10.0.0.0/8"),
    ("macaddr", "'08:00:2b:01:02:03'", "STRING", "08:00:2b:01:02:03"),
    ("interval", "'1 month 2 days 03:04:05'", "STRING", "P1M2DT3H4M5S"),
    ("xml", "'<a/>'", "STRING", "<a/>"),
    ("json", "'{\"a\": 1}'", "STRING", '{"a": 1}'),
    ("jsonb", "'{\"a\":1}'", "STRING", '{"a": 1}'),
    ("bit(3)", "B'101'", "STRING", "101"),
    ("varbit", "B'10'", "STRING", "10"),
    ("tsvector", "'a b'", "STRING", "'a' 'b'"),
    ("int4range", "'[1,3)'", "STRING", "[1,3)"),
    ("hstore", "'a=>1'", "STRING", '"a"=>"1"'),
    ("point", "'(1,2)'", "STRING", "(1,2)"),
    ("timetz", "'10:00:00+02'", "STRING", "10:00:00+02"),
    ("timestamp", "'infinity'", "STRING", "infinity"),
    ("timestamptz", "'2024-01-01 00:00:00.000001+02'", "STRING", "2023-12-31 22:00:00.000001+00"),
    ("date", "'0044-03-15 BC'", "STRING", "0044-03-15 BC"),
    ("int[]", "'{{1,2},{3,4}}'", "STRING", "{{1,2},{3,4}}"),
    ("int[]", "'{1,NULL}'", "ARRAY<INT>", [1, None]),
    ("time", "'23:59:59.999'", "TIME(3)", dt.time(23, 59, 59, 999_000)),
    ("date", "'9999-12-31'", "DATE", dt.date(9999, 12, 31)),
    ("date", "'0001-01-01'", "DATE", dt.date(1, 1, 1)),
    (
        "pair",
        "'(1,2024-01-01)'",
        "ROW<a INT, b TIMESTAMP(6)>",
        {"a": 1, "b": dt.datetime(2024, 1, 1)},
    ),
    ("pair", "'(1,infinity)'", "STRING", "(1,infinity)"),
]
# The same with what is said of a value that the declared type does not have.
_NO_MOMENT = "is outside of the years 1 to 9999"
_REFUSED: Sequence[tuple[str, str, str, str]] = [
    ("timestamp", "'infinity'", "TIMESTAMP(6)", _NO_MOMENT),
    ("timestamp", "'-infinity'", "TIMESTAMP(3)", "would lose data"),
    ("timestamptz", "'infinity'", "TIMESTAMP_LTZ(6)", _NO_MOMENT),
    ("date", "'infinity'", "DATE", _NO_MOMENT),
    ("date", "'-infinity'", "DATE", _NO_MOMENT),
    ("date", "'infinity'", "TIMESTAMP(6)", "the rows hold date32"),
    ("date", "'0044-03-15 BC'", "DATE", _NO_MOMENT),
    ("date", "'10000-01-01'", "DATE", _NO_MOMENT),
    ("timestamp", "'12345-01-01'", "TIMESTAMP(6)", _NO_MOMENT),
    ("timestamp", "'294276-12-31'", "TIMESTAMP(6)", _NO_MOMENT),
    ("timestamp[]", "'{infinity}'", "ARRAY<TIMESTAMP(6)>", _NO_MOMENT),
    ("date[]", "'{2024-01-01,infinity}'", "ARRAY<DATE>", _NO_MOMENT),
    ("moment", "'infinity'", "TIMESTAMP(6)", _NO_MOMENT),
    ("pair", "'(1,infinity)'", "ROW<a INT, b TIMESTAMP(6)>", _NO_MOMENT),
    ("time", "'24:00:00'", "TIME(3)", "is not before 24:00:00"),
    ("time[]", "'{24:00:00}'", "ARRAY<TIME(3)>", "is not before 24:00:00"),
    ("time", "'10:00:00.000001'", "TIME(3)", "would lose data"),
    ("timestamp", "'2024-01-01 00:00:00.000001'", "TIMESTAMP(3)", "would lose data"),
    ("timetz", "'10:00:00+02'", "TIME(3)", "holds '10:00:00+02'"),
    ("int[]", "'{{1,2},{3,4}}'", "ARRAY<INT>", "an array of several dimensions"),
    ("numeric", "'NaN'", "DECIMAL(10, 2)", "holds 'nan'"),
    ("numeric", "1.005", "DECIMAL(10, 2)", "holds '1.005'"),
    ("oid", "4294967295", "INT", "holds '4294967295'"),
    ("xid8", "'18446744073709551615'", "BIGINT", "holds '18446744073709551615'"),
    ("money", "12.34", "BIGINT", "holds '12.34'"),
    ("int8", "9007199254740993", "DOUBLE", "does not fit"),
    ("interval", "'1 day'", "BIGINT", "holds 'P1D'"),
    ("text", "'aa'", "BYTES", "is text in the database, which is not read as BYTES"),
    ("bit(3)", "B'101'", "BYTES", "is bit in the database, which is not read as BYTES"),
    ("hstore", "'a=>1'", "MAP<STRING, STRING>", "is hstore in the database"),
    ("json", "'[1]'", "ARRAY<INT>", "is json in the database"),
    ("pair", "'(1,2024-01-01)'", "ROW<a INT, b STRING>", "x.b is timestamp in the database"),
]


@pytest.fixture(scope="module")
def of_types(server: str, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A session with an external table for each case, `a0`, `r0` and so on."""
    statement(server, _TYPES)
    session = Session(Catalog.open(str(tmp_path_factory.mktemp("types"))))
    session.sql("CREATE DATABASE db; USE db")
    cases = [("a", at, *case[:3]) for at, case in enumerate(_ARRIVE)]
    cases += [("r", at, *case[:3]) for at, case in enumerate(_REFUSED)]
    texts = [
        f"CREATE TABLE {what}{at} (id INT, x {kind}); INSERT INTO {what}{at} VALUES (1, {value})"
        for what, at, kind, value, _ in cases
    ]
    statement(server, "SET search_path = v, public; " + "; ".join(texts))
    for what, at, _, _, declared in cases:
        session.sql(
            f"CREATE TABLE {what}{at} (id INT, x {declared}) WITH ('connector' = 'jdbc', "
            f"'url' = '{server}', 'password' = '${{env:PG_PASSWORD}}', "
            f"'table-name' = 'v.{what}{at}')"
        )
    return session


@pytest.mark.parametrize("at", range(len(_ARRIVE)), ids=lambda at: " ".join(_ARRIVE[at][:3]))
def test_a_value_of_postgresql_arrives_as_it_is(
    of_types: Session, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_PASSWORD", SECRET)
    assert of_types.sql(f"SELECT * FROM a{at}").rows.to_pylist() == [{"id": 1, "x": _ARRIVE[at][3]}]


@pytest.mark.parametrize("at", range(len(_REFUSED)), ids=lambda at: " ".join(_REFUSED[at][:3]))
def test_a_value_that_the_declared_type_has_not_is_refused_by_name(
    of_types: Session, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_PASSWORD", SECRET)
    with pytest.raises((InvalidRows, UnsupportedError)) as refused:
        of_types.sql(f"SELECT * FROM r{at}")
    assert f"db.r{at}: column x" in refused.value.message
    assert _REFUSED[at][3] in refused.value.message


@pytest.mark.parametrize(
    ("kind", "declared", "values", "where", "ids"),
    [
        # The server would make a date of the moment, and find the first row alone.
        (
            "date",
            "TIMESTAMP(3)",
            ["'2024-01-01'", "'2024-01-02'"],
            "x < TIMESTAMP '2024-01-02 12:00:00'",
            [1, 2],
        ),
        ("date", "TIMESTAMP(3)", ["'2024-01-01'"], "x = TIMESTAMP '2024-01-01 12:00:00'", []),
        # The server has no such comparison.
        ("text", "BIGINT", ["'9'", "'100'"], "x > 15", [2]),
        ("xid", "BIGINT", ["'4294967295'", "'1'"], "x > 1", [1]),
        ("money", "DECIMAL(10, 2)", ["1.50", "2"], "x = 1.5", [1]),
        ("numeric", "BIGINT", ["1", "2"], "x >= 2", [2]),
        ("timestamp", "TIMESTAMP(6)", ["'infinity'", "'2024-01-01'"], "x < DATE '2025-01-01'", [2]),
        ("oid", "BIGINT", ["4294967295"], "x = 4294967295", [1]),
        ("uuid", "STRING", [f"'{_UUID}'"], f"x = '{_UUID}'", [1]),
        ("uuid", "STRING", [f"'{_UUID}'"], f"x = '{_UUID.upper()}'", []),
        ("citext", "STRING", ["'a'", "'A'"], "x = 'a'", [1]),
    ],
    ids=range(11),
)
def test_a_filter_means_the_same_on_the_server(
    server: str,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    declared: str,
    values: Sequence[str],
    where: str,
    ids: Sequence[int],
) -> None:
    monkeypatch.setenv("PG_PASSWORD", SECRET)
    statement(server, "CREATE EXTENSION IF NOT EXISTS citext")
    rows = ", ".join(f"({at}, {value})" for at, value in enumerate(values, start=1))
    statement(
        server,
        f"DROP TABLE IF EXISTS f; CREATE TABLE f (id INT, x {kind}); INSERT INTO f VALUES {rows}",
    )
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    session.sql(f"""
        CREATE DATABASE db; USE db;
        CREATE TABLE f (id INT, x {declared}) WITH ('connector' = 'jdbc', 'url' = '{server}',
          'password' = '${{env:PG_PASSWORD}}', 'table-name' = 'f')
    """)
    found = session.sql(f"SELECT id FROM f WHERE {where} ORDER BY id").rows
    assert found.column("id").to_pylist() == list(ids)


def test_a_moment_that_the_server_has_not_is_not_asked_of_it(server: str) -> None:
    statement(server, "DROP TABLE IF EXISTS f; CREATE TABLE f (x TIMESTAMP)")
    statement(server, "INSERT INTO f VALUES ('2024-01-01')")
    options = {"url": server, "table-name": "f", "password": SECRET}
    context = context_of(Jdbc(), {"x": "TIMESTAMP(9)"}, options)
    second = 1_704_067_200 * 1_000_000_000
    for nanos, rows in ((second + 1, []), (second, [second])):
        planned = plan_scan(context, ScanRequest(where=Leaf("x", Operator.EQ, (nanos,))))
        found = [piece.column("x").cast(pa.int64()) for piece in planned.rows()]
        assert [each for column in found for each in column.to_pylist()] == rows


def test_keys_are_looked_up_by_the_value_that_was_declared(server: str) -> None:
    statement(
        server,
        f"""
        DROP TABLE IF EXISTS keyed; CREATE TABLE keyed (id uuid, raw bytea, n INT);
        INSERT INTO keyed VALUES ('{_UUID}', '\\x00ff', 1)
        """,
    )
    columns = {"id": "STRING", "raw": "BYTES", "n": "INT"}
    options = {"url": server, "table-name": "keyed", "password": SECRET}
    source = source_of(context_of(Jdbc(), columns, options))
    assert isinstance(source, LookupTableSource)
    assert list(source.lookup_keys(["id", "raw", "n"])) == ["id", "raw", "n"]
    by_id = source.lookup(["id"])
    assert isinstance(by_id, Lookup)
    assert by_id.lookup(pa.table({"id": [_UUID]})).column("n").to_pylist() == [1]
    # The server holds it to be equal, and its text is another one.
    assert by_id.lookup(pa.table({"id": [_UUID.upper()]})).num_rows == 0
    by_bytes = source.lookup(["raw"])
    assert isinstance(by_bytes, Lookup)
    assert by_bytes.lookup(pa.table({"raw": [b"\x00\xff"]})).column("n").to_pylist() == [1]


_QUOTES = ("a", "A", "a  ", "", "it's", "\\", "\\' OR true --", "ü", "%", "abcde", None)
# A type of the server, one that is declared, values there, and those of a stream.
_KEYS: Mapping[str, tuple[str, Sequence[object], Sequence[object]]] = {
    "text": ("STRING", _QUOTES, (*_QUOTES, "a\0", "b")),
    "varchar(20)": ("STRING", _QUOTES, (*_QUOTES, "a\0", "x" * 30)),
    "char(5)": ("STRING", ("a", "abcde", "ü", None), ("a", "a    ", "abcde", "ü    ", "abcdef")),
    "name": ("STRING", ("a", "x" * 63, None), ("a", "x" * 63, "x" * 64)),
    "citext": ("STRING", ("a", "A", None), ("a", "A", "b")),
    "uuid": ("STRING", (_UUID, None), (_UUID, _UUID.upper(), f"{{{_UUID}}}", "none")),
    "mood": ("STRING", ("sad", "it's", None), ("sad", "it's", "none")),
    "int2": ("SMALLINT", (-(2**15), 7, None), (-(2**15), 7, 2**15, 2**63 - 1, None)),
    "int8": ("BIGINT", (-(2**63), 7, None), (-(2**63), 7, 2**63 - 1, None)),
    "bool": ("BOOLEAN", (True, False, None), (True, None)),
    "bytea": ("BYTES", (b"", b"\\x00", b"\0'", None), (b"", b"\0'", b"x")),
    "numeric(5, 2)": ("DECIMAL(5, 2)", (Decimal("1.50"), None), (Decimal("1.50"), Decimal(2))),
}
_READ_WHOLE = ("citext", "mood", "numeric(5, 2)")


@pytest.mark.mission("CN24")
@pytest.mark.parametrize("kind", _KEYS)
def test_a_stream_joins_the_rows_of_the_server_that_a_query_joins(
    server: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    declared, values, asked = _KEYS[kind]
    monkeypatch.setenv("PG_PASSWORD", SECRET)
    statement(
        server,
        "DROP TABLE IF EXISTS keyed; DROP TYPE IF EXISTS mood; CREATE EXTENSION IF NOT EXISTS "
        "citext; CREATE TYPE mood AS ENUM ('sad', 'it''s'); "
        f"CREATE TABLE keyed (m INT, k {kind}); INSERT INTO keyed VALUES "
        + ", ".join(f"({at}, {_in_sql(value)})" for at, value in enumerate(values)),
    )
    # Whether or not a backslash escapes there.
    statement(server, "ALTER DATABASE postgres SET standard_conforming_strings = off")
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    of_stream = {"SMALLINT": "BIGINT"}.get(declared, declared)
    session.sql(f"""
        CREATE DATABASE db; USE db;
        CREATE TABLE keyed (m INT, k {declared}) WITH ('connector' = 'jdbc', 'url' = '{server}',
          'password' = '${{env:PG_PASSWORD}}', 'table-name' = 'keyed');
        CREATE TABLE orders (n INT, k {of_stream}, now AS PROCTIME());
        CREATE TABLE kept (n INT, m INT)
    """)
    orders = session.catalog.table("db.orders")
    rows = [{"n": at, "k": value} for at, value in enumerate(asked)]
    orders.write(pa.Table.from_pylist(rows, orders.arrow_schema))
    query = "SELECT n, m FROM orders o LEFT JOIN keyed FOR SYSTEM_TIME AS OF o.now d ON o.k = d.k"
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    told = session.run(f"INSERT INTO kept {query}")
    next(told)
    told.close()  # type: ignore[attr-defined]
    session.sql("RESET 'execution.runtime-mode'")
    found = session.sql("SELECT * FROM kept ORDER BY n, m").rows
    assert found == session.sql(f"{query} ORDER BY n, m").rows
    source = source_of(ExternalTables(session.catalog).context("db.keyed"))
    assert isinstance(source, LookupTableSource)
    assert list(source.lookup_keys(["k"])) == ([] if kind in _READ_WHOLE else ["k"])
    statement(server, "ALTER DATABASE postgres RESET standard_conforming_strings")


def _in_sql(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"decode('{value.hex()}', 'hex')"
        case str():
            text = value.replace("\\", "\\\\").replace("'", "''")
            return f"E'{text}'"
    return str(value)


_AGGREGATED = """
DROP TABLE IF EXISTS items; CREATE TABLE items (id INT8, n INT4, small INT2, wide INT8, name TEXT,
  short VARCHAR(2), padded CHAR(3), ok BOOL, day DATE, moment TIMESTAMP, x FLOAT8, price NUMERIC);
INSERT INTO items SELECT CASE WHEN g % 9 > 0 THEN 9223372036854775807 - g % 3 END,
  CASE WHEN g % 7 > 0 THEN g % 5 - 2 END, g % 4, CASE WHEN g % 5 > 0 THEN g % 2 END,
  (ARRAY['a', 'A', 'b ', '', 'ü', NULL])[g % 6 + 1], (ARRAY['a', 'A', 'b', NULL])[g % 4 + 1],
  (ARRAY['a', 'b', NULL])[g % 3 + 1], (ARRAY[true, false, NULL])[g % 3 + 1],
  DATE '2024-01-01' + g % 3, TIMESTAMP '2024-01-01' + g % 3 * INTERVAL '1 us', g / 3.0, g / 8.0
  FROM generate_series(1, {count}) AS g
"""
_AT_SERVER = [
    "SELECT count(*), count(n), count(name), sum(id), sum(n), sum(small) FROM items",
    "SELECT min(id), max(id), min(n), max(n), min(small), max(small) FROM items WHERE n >= 0",
    "SELECT name, count(*), sum(id) FROM items GROUP BY name",
    "SELECT short, ok, day, n, count(name) FROM items GROUP BY short, ok, day, n",
    "SELECT name FROM items WHERE id > 5 GROUP BY name HAVING sum(n) > 0 ORDER BY max(n), 1",
]
_HERE = [
    "SELECT min(name), max(short) FROM items",
    "SELECT count(short), count(padded) FROM items",
    "SELECT sum(wide) FROM items",
    "SELECT count(*) FROM items WHERE wide = 1",
    "SELECT sum(x), max(x), sum(price), max(moment), min(day), max(ok), count(moment) FROM items",
    "SELECT padded, count(*) FROM items GROUP BY padded",
    "SELECT moment, count(*) FROM items GROUP BY moment",
    "SELECT x, price, count(*) FROM items GROUP BY x, price",
]


@pytest.mark.mission("CN22")
@pytest.mark.parametrize("count", [0, 1, 300])
def test_aggregates_of_the_server_are_those_of_its_rows(
    server: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("PG_PASSWORD", SECRET)
    statement(server, _AGGREGATED.format(count=count))
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    session.sql(f"""
        CREATE DATABASE db; USE db;
        CREATE TABLE items (id BIGINT, n BIGINT, small SMALLINT, wide INT, name STRING,
          short VARCHAR(2), padded STRING, ok BOOLEAN, day DATE, moment TIMESTAMP(6), x DOUBLE,
          price DECIMAL(10, 3)) WITH ('connector' = 'jdbc', 'url' = '{server}',
          'password' = '${{env:PG_PASSWORD}}', 'table-name' = 'items')
    """)
    rows = session.sql("SELECT * FROM items").rows
    for query in (*_AT_SERVER, *_HERE):
        found = session.sql(query).rows
        assert found is not None
        with duckdb.connect() as connection:
            connection.register("items", rows)
            expected = connection.sql(query).to_arrow_table()
        assert found.schema == expected.schema, query
        answers = [sorted(map(repr, each.to_pylist())) for each in (found, expected)]
        if "sum(x)" not in query:
            assert answers[0] == answers[1], query
        is_at_server = "AggregatePushDown" in explained(session, query)
        assert is_at_server == (query in _AT_SERVER), query
    limited = session.sql("SELECT id FROM items LIMIT 2").rows
    assert limited is not None
    assert limited.num_rows == min(count, 2)
    asked = explained(session, "SELECT id FROM items WHERE n = 1 LIMIT 2")
    assert '"items" WHERE "n" = 1 LIMIT 2' in asked


def explained(session: Session, query: str) -> str:
    rows = session.sql(f"EXPLAIN {query}").rows
    assert rows is not None
    return str(rows.to_pylist())


_FINE = "TIMESTAMP '2024-01-01 00:00:00.123456789'"
_MICROS = "TIMESTAMP '2024-01-01 00:00:00.123456'"
# The type there, the declared type, the value, and what is said of it; None if it is kept.
_WRITTEN: Sequence[tuple[str, str, str, str | None]] = [
    ("timestamp", "TIMESTAMP(9)", _FINE, "PostgreSQL has microseconds"),
    ("timestamp[]", "ARRAY<TIMESTAMP(9)>", f"ARRAY[{_FINE}]", "PostgreSQL has microseconds"),
    ("timestamp", "TIMESTAMP(9)", _MICROS, None),
    ("timestamp(3)", "TIMESTAMP(6)", _MICROS, "would keep 2024-01-01 00:00:00.123456 as 2024"),
    ("date", "TIMESTAMP(3)", "TIMESTAMP '2024-01-01 05:00:00'", "as 2024-01-01;"),
    ("date", "TIMESTAMP(3)", "TIMESTAMP '2024-01-01 00:00:00'", None),
    ("numeric(10,2)", "DECIMAL(10, 4)", "1.2345", "would keep 1.2345 as 1.23;"),
    ("numeric(10,2)", "DECIMAL(10, 4)", "1.23", None),
    ("int", "DOUBLE", "1.5", "would keep 1.5 as 2;"),
    ("float8", "BIGINT", "9007199254740993", "is double precision in the database"),
    ("real", "DOUBLE", "0.1", None),
    ("char(5)", "STRING", "'ab'", None),
]


@pytest.mark.parametrize("case", _WRITTEN, ids=lambda case: " ".join(case[:3]))
def test_a_value_is_kept_by_postgresql_or_refused(
    server: str,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, str, str, str | None],
) -> None:
    there, declared, value, said = case
    monkeypatch.setenv("PG_PASSWORD", SECRET)
    statement(server, f"DROP TABLE IF EXISTS narrow; CREATE TABLE narrow (x {there})")
    session = Session(Catalog.open(str(tmp_path)))
    session.sql(f"""
        CREATE DATABASE db; USE db;
        CREATE TABLE own (x {declared}); INSERT INTO own VALUES ({value});
        CREATE TABLE e (x {declared}) WITH ('connector' = 'jdbc', 'url' = '{server}',
          'password' = '${{env:PG_PASSWORD}}', 'table-name' = 'public.narrow')
    """)
    if said is None:
        session.sql("INSERT INTO e SELECT * FROM own")
        assert statement(server, "SELECT count(*) FROM narrow") == "1"
        return
    with pytest.raises(InvalidRows, match=r"db\.e: column x ") as refused:
        session.sql("INSERT INTO e SELECT * FROM own")
    assert said in refused.value.message
    assert statement(server, "SELECT count(*) FROM narrow") == "0"
