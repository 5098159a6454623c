"""Streams that join other tables by keys: a batch looks its keys up, and finds all of them."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.connectors.factories import Context, DynamicTableFactory
from lakewright.connectors.runtime import AsyncLookup, BoundedScan, Split
from lakewright.connectors.sources import LookupTableSource, ScanTableSource
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRows, InvalidStatement, UnsupportedError
from lakewright.storage.table import Table
from tests.unit.session.conftest import rows_of


def database(place: Path, make: str, rows: Iterable[Sequence[object]] = ()) -> None:
    with sqlite3.connect(place) as connection:
        connection.execute(make)
        for row in rows:
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO items VALUES ({marks})", row)
    connection.close()


def define(session: Session, place: Path, columns: str, more: str = "") -> None:
    session.sql(f"""
        CREATE TABLE items ({columns}) WITH (
          'connector' = 'jdbc', 'url' = 'sqlite:///{place}', 'table-name' = 'items'{more})
    """)


def streamed(session: Session, query: str) -> Any:
    """The batches of an INSERT INTO kept, in a session that follows tables."""
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    return session.run(f"INSERT INTO kept {query}")


@pytest.fixture
def shop(session: Session, tmp_path: Path) -> Session:
    """Orders of items 1 and 2; item 3 has a price that is none, so that no read of all succeeds."""
    place = tmp_path / "shop.db"
    make = "CREATE TABLE items (id INTEGER, name TEXT, price INTEGER)"
    database(place, make, [(1, "a", 10), (2, "b", 20), (3, "c", "none"), (4, "d", 40)])
    define(session, place, "id BIGINT, name STRING, price INT, twice AS price * 2")
    session.sql("""
        CREATE TABLE orders (n INT, item INT, id BIGINT, at AS PROCTIME(), now AS n + 1);
        CREATE TABLE kept (n INT, price INT);
        INSERT INTO orders VALUES (1, 1, 1), (2, 2, 2), (3, null, null), (4, 9, 9)
    """)
    return session


_TIMED = "items FOR SYSTEM_TIME AS OF o.at"
_BY_KEY = [
    "SELECT n, price FROM orders o JOIN items i ON o.item = i.id",
    "SELECT n, price FROM orders JOIN items ON items.id = item",
    "SELECT n, price FROM orders JOIN db.items ON orders.ID = items.id AND price < 15",
    f"SELECT n, i.price FROM orders AS o JOIN {_TIMED} AS i ON o.item = i.id",
    f"SELECT n, items.price FROM db.orders o LEFT JOIN {_TIMED} ON o.item = items.id",
    "SELECT n, price FROM items FOR SYSTEM_TIME AS OF at JOIN orders o ON o.item = items.id",
    "SELECT n, price FROM orders JOIN items USING (id)",
    "SELECT n, price FROM orders o, items i WHERE o.item = i.id AND i.name > 'a'",
    "SELECT n, twice FROM orders o JOIN items i ON o.item = i.id AND o.n = o.item",
    "SELECT n, price FROM orders o JOIN items i ON o.item = i.id WHERE i.price + n IN (11, 12)",
    "SELECT n, price FROM orders o CROSS JOIN (SELECT 1) LEFT JOIN items i ON o.item = i.id",
]
_SIDE_BY_SIDE = "(orders o CROSS JOIN items i) POSITIONAL JOIN kept"
_WHOLE = [
    "SELECT n, price FROM orders o JOIN items i ON o.item >= i.id",
    "SELECT n, price FROM orders o JOIN items i ON o.item IS NOT DISTINCT FROM i.id",
    "SELECT n, price FROM orders o JOIN items i ON o.item = i.id OR o.n = i.price",
    "SELECT n, price FROM orders o RIGHT JOIN items i ON o.item = i.id",
    "SELECT n, price FROM items i LEFT JOIN orders o ON o.item = i.id",
    "SELECT n, price FROM orders o FULL JOIN items i ON o.item = i.id",
    "SELECT n, price FROM orders o JOIN items i ON o.item + 0 = i.id",
    "SELECT n, price FROM orders o JOIN items i ON o.item = i.twice AND o.now = i.id",
    "SELECT n, price FROM orders o NATURAL JOIN items i",
    "SELECT n, price FROM orders o SEMI JOIN items i ON o.item = i.id JOIN items j ON n = j.id",
    f"SELECT o.n, i.price FROM {_SIDE_BY_SIDE} WHERE o.item = i.id",
    "SELECT n, i.price FROM orders o JOIN items i ON o.item = i.id JOIN items j ON j.price = n",
    "SELECT n, i.price FROM orders o JOIN items i(x, y, price) ON o.item = i.x",
    "SELECT n, price FROM orders o JOIN (SELECT * FROM items) i ON o.item = i.id",
    "SELECT n, price FROM orders FULL JOIN (SELECT 1 id) s USING (id), items i WHERE id = i.id",
]


@pytest.mark.mission("CN24", "CN25")
@pytest.mark.parametrize("query", _BY_KEY)
@pytest.mark.sampled(4)
def test_a_batch_reads_the_rows_of_its_keys_alone(shop: Session, query: str) -> None:
    told = streamed(shop, query)
    next(told)
    told.close()
    shop.sql("RESET 'execution.runtime-mode'; DELETE FROM orders WHERE false")
    found = rows_of(shop, "SELECT * FROM kept ORDER BY n")
    assert found == _expected(query)


def _expected(query: str) -> list[tuple[object, ...]]:
    """What SQLite has for the same query over the same rows."""
    with sqlite3.connect(":memory:") as connection:
        connection.executescript("""
            CREATE TABLE orders (n, item, id, now); CREATE TABLE items (id, name, price, twice);
            INSERT INTO orders VALUES (1, 1, 1, 2), (2, 2, 2, 3), (3, null, null, 4), (4, 9, 9, 5);
            INSERT INTO items VALUES (1, 'a', 10, 20), (2, 'b', 20, 40), (4, 'd', 40, 80);
        """)
        plain = query.replace(" FOR SYSTEM_TIME AS OF o.at", "")
        plain = plain.replace(" FOR SYSTEM_TIME AS OF at", "").replace("db.", "")
        return sorted(connection.execute(plain).fetchall())


@pytest.mark.parametrize("query", _WHOLE)
@pytest.mark.sampled(5)
def test_a_join_that_may_need_other_rows_reads_all(shop: Session, query: str) -> None:
    with pytest.raises(InvalidRows, match="price"):
        next(streamed(shop, query))


@pytest.mark.parametrize(
    "moment",
    ["o.n", "o.now", "n", "at.at", "CURRENT_TIMESTAMP", "i.at"],
)
def test_rows_are_joined_as_of_the_time_at_which_a_row_is_processed(
    shop: Session, moment: str
) -> None:
    query = f"SELECT n, price FROM orders o JOIN items FOR SYSTEM_TIME AS OF {moment} i ON n = i.id"
    with pytest.raises(InvalidStatement, match=r"is no column AS PROCTIME\(\) of a table"):
        next(streamed(shop, query))
    with pytest.raises(InvalidStatement, match=r"is no column AS PROCTIME\(\) of a table"):
        shop.sql(f"SET 'execution.runtime-mode' = 'batch'; {query}")


@pytest.mark.mission("CN26", "RS21")
@pytest.mark.parametrize(
    ("options", "price"),
    [
        ("", 11),
        (", 'lookup.cache' = 'PARTIAL'", 10),
        (", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.expire-after-write' = '1 ms'", 11),
        (", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.expire-after-access' = '1 ms'", 11),
        (", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.expire-after-access' = '1 h'", 10),
        (", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '1'", 11),
    ],
)
def test_a_cache_serves_later_batches_as_its_options_say(
    session: Session, tmp_path: Path, options: str, price: int
) -> None:
    place = tmp_path / "shop.db"
    database(place, "CREATE TABLE items (id INTEGER, price INTEGER)", [(1, 10), (2, 20)])
    define(session, place, "id BIGINT, price INT", options)
    session.sql("""
        CREATE TABLE orders (n INT, item BIGINT); CREATE TABLE kept (n INT, price INT);
        INSERT INTO orders VALUES (1, 1), (2, 2)
    """)
    told = streamed(session, "SELECT n, price FROM orders JOIN items ON item = id")
    next(told)
    with sqlite3.connect(place) as connection:
        connection.execute("UPDATE items SET price = 11 WHERE id = 1")
    connection.close()
    other = Session(session.catalog)
    other.sql("USE db; INSERT INTO orders VALUES (3, 1)")
    next(told)
    told.close()
    assert rows_of(other, "SELECT price FROM kept WHERE n = 3") == [(price,)]


@pytest.mark.parametrize(("kept", "found"), [("true", []), ("false", [(10,)])])
def test_that_a_key_has_no_row_is_kept_if_the_option_says_so(
    session: Session, tmp_path: Path, kept: str, found: list[object]
) -> None:
    place = tmp_path / "shop.db"
    database(place, "CREATE TABLE items (id INTEGER, price INTEGER)")
    more = f", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.cache-missing-key' = '{kept}'"
    define(session, place, "id BIGINT, price INT", more)
    session.sql("""
        CREATE TABLE orders (n INT, item BIGINT); CREATE TABLE kept (n INT, price INT);
        INSERT INTO orders VALUES (1, 1)
    """)
    told = streamed(session, "SELECT n, price FROM orders JOIN items ON item = id")
    next(told)
    with sqlite3.connect(place) as connection:
        connection.execute("INSERT INTO items VALUES (1, 10)")
    connection.close()
    other = Session(session.catalog)
    other.sql("USE db; INSERT INTO orders VALUES (2, 1)")
    next(told)
    told.close()
    assert rows_of(other, "SELECT price FROM kept") == found


def test_a_table_that_is_defined_anew_is_looked_up_where_it_is_now(
    session: Session, tmp_path: Path
) -> None:
    for name, price in (("old", 10), ("new", 11)):
        make = "CREATE TABLE items (id INTEGER, price INTEGER)"
        database(tmp_path / name, make, [(1, price)])
    define(session, tmp_path / "old", "id BIGINT, price INT", ", 'lookup.cache' = 'PARTIAL'")
    session.sql("""
        CREATE TABLE orders (n INT, item BIGINT); CREATE TABLE kept (n INT, price INT);
        INSERT INTO orders VALUES (1, 1)
    """)
    told = streamed(session, "SELECT n, price FROM orders JOIN items ON item = id")
    next(told)
    other = Session(session.catalog)
    other.sql(f"""
        USE db; ALTER TABLE items SET ('url' = 'sqlite:///{tmp_path}/new');
        INSERT INTO orders VALUES (2, 1)
    """)
    next(told)
    told.close()
    assert rows_of(other, "SELECT * FROM kept ORDER BY n") == [(1, 10), (2, 11)]


_TEXTS = ("a", "A", "a ", "", "it's", "\\", "\\'", "a\0b", "a\0", "ü", "%", "--", None)
# A type of SQLite, one that is declared, and values of such a column.
_KINDS: dict[str, tuple[str, str, Sequence[object]]] = {
    "texts": ("TEXT", "STRING", _TEXTS),
    "texts of any case": ("VARCHAR(3) COLLATE NOCASE", "STRING", _TEXTS),
    "short texts": ("TEXT", "VARCHAR(2)", [each for each in _TEXTS if len(each or "") <= 2]),
    "texts as anything": ("", "STRING", ("7", "07", None)),
    "small numbers": ("INTEGER", "TINYINT", (7, -128, 127, None)),
    "large numbers": ("INT8", "BIGINT", (7, -(2**63), 2**63 - 1, None)),
    "flags": ("INTEGER", "BOOLEAN", (0, 1, None)),
    "floats": ("REAL", "DOUBLE", (0.5, 7.0, None)),
    "bytes": ("BLOB", "BYTES", (b"", b"a\0", b"'", None)),
}
_OF_STREAM = {
    "STRING": (*_TEXTS, "7", "-1", "07", "abcdef"),
    "BIGINT": (7, -1, 2**63 - 1, -(2**63), 300, None),
    "TINYINT": (7, -1, -128, None),
    "BOOLEAN": (True, False, None),
    "DOUBLE": (0.5, 7.0, float("nan"), None),
    "BYTES": (b"", b"a\0", b"a", None),
}


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
@pytest.mark.sampled(6)
def test_a_stream_joins_the_rows_that_a_query_joins(
    session: Session, tmp_path: Path, kind: str, join: str
) -> None:
    make, declared, values = _KINDS[kind]
    drawn = random.Random(kind)
    rows = [(drawn.choice(values), drawn.randrange(3), at) for at in range(20)]
    database(tmp_path / "d", f"CREATE TABLE items (k {make}, l INTEGER, m INTEGER)", rows)
    define(session, tmp_path / "d", f"k {declared}, l INT, m INT", ", 'lookup.cache' = 'PARTIAL'")
    of_stream = {"VARCHAR(2)": "STRING"}.get(declared, declared)
    others = {"TINYINT": "BIGINT", "BIGINT": "TINYINT"}.get(of_stream, of_stream)
    session.sql(f"CREATE TABLE orders (n INT, k {others}, l INT); CREATE TABLE kept (n INT, m INT)")
    table = session.catalog.table("db.orders")
    asked = f"SELECT n, m FROM orders o {join} items i ON o.k = i.k AND o.l = i.l"
    told = streamed(session, asked)
    for _ in range(2):
        ordered = [
            {"n": at, "k": drawn.choice(_OF_STREAM[others]), "l": drawn.choice([0, 1, 9, None])}
            for at in range(30)
        ]
        table.write(pa.Table.from_pylist(ordered, table.arrow_schema))
        next(told)
    told.close()
    session.sql("RESET 'execution.runtime-mode'")
    by_row = " ORDER BY n, m"
    assert rows_of(session, f"SELECT * FROM kept{by_row}") == rows_of(session, asked + by_row)


@pytest.mark.mission("CN24")
def test_a_table_of_the_warehouse_is_looked_up_by_its_whole_key(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("""
        CREATE TABLE items (day DATE NOT NULL, id INT NOT NULL, price INT, twice AS price * 2,
          PRIMARY KEY (day, id) NOT ENFORCED) PARTITIONED BY (day);
        CREATE TABLE orders (n INT, item BIGINT, day DATE); CREATE TABLE kept (n INT, price INT);
        INSERT INTO items (day, id, price) VALUES
          (DATE '2024-01-01', 1, 10), (DATE '2024-01-02', 1, 20);
        INSERT INTO orders VALUES (1, 1, DATE '2024-01-02'), (2, 99999999999, DATE '2024-01-01'),
          (3, null, DATE '2024-01-01')
    """)
    asked: list[list[dict[str, Any]]] = []
    look_up = Table.lookup

    def noting(self: Table, keys: Any, **more: Any) -> pa.Table:
        asked.append(keys.to_pylist())
        return look_up(self, keys, **more)

    monkeypatch.setattr(Table, "lookup", noting)
    by_key = "SELECT n, twice FROM orders o LEFT JOIN items i ON o.item = i.id AND o.day = i.day"
    told = streamed(session, by_key)
    next(told)
    other = Session(session.catalog)
    other.sql("""
        USE db; UPDATE items SET price = 11 WHERE price = 10;
        INSERT INTO orders VALUES (4, 1, DATE '2024-01-01')
    """)
    next(told)
    told.close()
    found = [(1, 40), (2, None), (3, None), (4, 22)]
    assert rows_of(other, "SELECT * FROM kept ORDER BY n") == found
    assert [[str(key["day"]) for key in keys] for keys in asked] == [["2024-01-02"], ["2024-01-01"]]
    asked.clear()
    next(streamed(session, "SELECT n, price FROM orders o JOIN items i ON o.item = i.id"))
    assert asked == []


class _Names(AsyncLookup):
    """Names of even numbers, from a system that answers one of them slowly."""

    async def lookup(self, keys: pa.Table) -> pa.Table:
        async def name_of(number: int) -> dict[str, object]:
            await asyncio.sleep(0.01 if number == 2 else 0)
            return {"id": number, "name": f"number {number}"}

        known = [each for each in keys.column("id").to_pylist() if each % 2 == 0]
        return pa.Table.from_pylist(
            list(await asyncio.gather(*map(name_of, known))),
            pa.schema([("id", pa.int64()), ("name", pa.string())]),
        )


class _NamesSource(LookupTableSource):
    def lookup_keys(self, columns: Sequence[str]) -> Sequence[str]:
        return [each for each in columns if each == "id"]

    def lookup(self, keys: Sequence[str]) -> AsyncLookup:
        return _Names()


class _NamesTables(DynamicTableFactory):
    identifier = "names"

    def create_source(self, context: Context) -> _NamesSource:
        return _NamesSource()


def _with_names(catalog: Catalog, tables: DynamicTableFactory) -> Session:
    catalog = replace(catalog, factories=(tables,))
    catalog.create_database("db")
    session = Session(catalog)
    session.sql("""
        USE db;
        CREATE TABLE names (id BIGINT, name STRING) WITH ('connector' = 'names');
        CREATE TABLE orders (n INT); CREATE TABLE kept (n INT, name STRING);
        INSERT INTO orders VALUES (1), (2), (4)
    """)
    return session


@pytest.mark.mission("CN19", "CN26")
def test_a_table_that_can_only_be_looked_up_and_answers_later_is_joined(catalog: Catalog) -> None:
    session = _with_names(catalog, _NamesTables())
    told = streamed(session, "SELECT n, name FROM orders LEFT JOIN names ON n = id")
    next(told)
    told.close()
    session.sql("RESET 'execution.runtime-mode'")
    found = [(1, None), (2, "number 2"), (4, "number 4")]
    assert rows_of(session, "SELECT * FROM kept ORDER BY n") == found
    with pytest.raises(UnsupportedError, match="can only be looked up by keys, not scanned"):
        session.sql("SELECT * FROM names")


class _UnsureSource(_NamesSource, ScanTableSource):
    """It cannot look up today, and can be read."""

    def lookup(self, keys: Sequence[str]) -> AsyncLookup:
        raise UnsupportedError("not today")

    def scan(self) -> BoundedScan:
        return _EveryName()


class _EveryName(BoundedScan):
    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        ids, names = pa.array([2, 3], pa.int64()), pa.array(["two", "three"], pa.string())
        yield pa.record_batch([ids, names], ["id", "name"])


class _UnsureTables(_NamesTables):
    def create_source(self, context: Context) -> _UnsureSource:
        return _UnsureSource()


def test_a_table_that_cannot_be_looked_up_for_a_moment_is_read(catalog: Catalog) -> None:
    session = _with_names(catalog, _UnsureTables())
    told = streamed(session, "SELECT n, name FROM orders LEFT JOIN names ON n = id")
    next(told)
    told.close()
    session.sql("RESET 'execution.runtime-mode'")
    assert rows_of(session, "SELECT * FROM kept ORDER BY n") == [(1, None), (2, "two"), (4, None)]
