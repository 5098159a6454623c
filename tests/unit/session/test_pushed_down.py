"""Queries of one table of a database: what goes there, and that the answer is that of the rows."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lakewright.session import Session
from lakewright.storage.errors import InvalidRows
from tests.unit.session.conftest import rows_of

_MAKE = """
CREATE TABLE items (id INTEGER, tiny INTEGER, n INTEGER, name TEXT, nick TEXT COLLATE NOCASE,
  ok INTEGER, x REAL, moment TEXT, price TEXT)
"""
_COLUMNS = """
  id BIGINT, tiny TINYINT, n INT, name STRING, nick STRING, ok BOOLEAN, x DOUBLE,
  moment TIMESTAMP(6), price DECIMAL(10, 2), twice AS n * 2
"""
_TEXTS = ("a", "A", "b ", "", "ü", None)


def drawn_rows(drawn: random.Random, count: int) -> list[tuple[object, ...]]:
    return [
        (
            drawn.choice([at, -(2**63), 2**63 - 1, None]),
            drawn.choice([-128, 0, 1, 2, 127, None]),
            drawn.choice([-(2**29), 5, 6, 7, 2**29, None]),
            drawn.choice(_TEXTS),
            drawn.choice(_TEXTS),
            drawn.choice([0, 1, None]),
            drawn.choice([0.5, -0.0, 1e300, None]),
            drawn.choice(["2024-01-01 00:00:00", "0001-01-01 00:00:00", None]),
            drawn.choice(["1.50", "-3", None]),
        )
        for at in range(count)
    ]


@pytest.fixture
def shop(session: Session, tmp_path: Path) -> Session:
    session.sql(f"""
        CREATE TABLE items ({_COLUMNS}) WITH (
          'connector' = 'jdbc', 'url' = 'sqlite:///{tmp_path}/shop.db', 'table-name' = 'items',
          'scan.partition.column' = 'id')
    """)
    return session


def fill(place: Path, rows: list[tuple[object, ...]]) -> None:
    with sqlite3.connect(place / "shop.db") as connection:
        connection.execute("DROP TABLE IF EXISTS items")
        connection.execute(_MAKE)
        connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.close()


def over_rows(rows: pa.Table, query: str) -> pa.Table:
    """The answer to a query over rows of the table."""
    with duckdb.connect() as connection:
        connection.register("items", rows)
        found: pa.Table = connection.sql(query.replace("db.", "")).to_arrow_table()
    return found


def pushed(session: Session, query: str) -> str:
    """What the source was given of a query."""
    told = rows_of(session, f"EXPLAIN {query}")
    return "\n".join(str(value) for what, value in told if what == "connector")


_TO_DATABASE = [
    "SELECT count(*) FROM items",
    "SELECT count(), count(id), count(n) AS c FROM items AS i",
    "SELECT min(id), max(id), min(tiny), max(tiny), sum(tiny), min(n), max(n), sum(n) FROM items",
    "SELECT sum(n) / 2, max(n) + 1, 'x', max(n) FROM items WHERE id > 3 AND 5 <= n",
    "SELECT count(*), sum(tiny) FROM items WHERE n IN (5, 6) AND tiny BETWEEN -1 AND 2",
    "SELECT count(*) FROM items WHERE n IS NULL",
    "SELECT count(*) c FROM db.items WHERE items.n IS NOT NULL AND items.n <> 7 AND id <= 1",
    "SELECT max(n) FROM items WHERE n = 8",
    "SELECT n, count(*) FROM items GROUP BY n",
    "SELECT name, count(*), min(i.id) FROM items i GROUP BY i.name",
    "SELECT nick, count(*) FROM items GROUP BY 1",
    "SELECT count(n), ok, nick, tiny FROM items GROUP BY nick, ok, items.tiny",
    "SELECT upper(name) AS u, sum(n) s FROM items GROUP BY name HAVING count(*) > 2 AND u <> ''",
    "SELECT name, sum(n) FROM items WHERE n < 7 GROUP BY name ORDER BY sum(n), name LIMIT 2",
    "SELECT count(*) FROM items GROUP BY n ORDER BY 1 DESC, n LIMIT 3 OFFSET 1",
    "SELECT n AS m, max(tiny) FROM items GROUP BY n ORDER BY m NULLS LAST",
    "SELECT CASE WHEN count(*) > 3 THEN 'many' END, count(*) FROM items GROUP BY n HAVING n > 5",
]
_FROM_ROWS = [
    "SELECT avg(n), count(*) FROM items",
    "SELECT sum(id) FROM items",
    "SELECT count(name) FROM items",
    "SELECT max(name), min(nick) FROM items",
    "SELECT max(x), sum(x), count(x) FROM items",
    "SELECT max(moment), min(price), sum(price), max(ok) FROM items",
    "SELECT max(twice), sum(n + 1) FROM items",
    "SELECT count(DISTINCT n) FROM items",
    "SELECT count(*) FILTER (WHERE n > 5) FROM items",
    "SELECT count(*) FROM items WHERE name = 'a'",
    "SELECT count(*) FROM items WHERE n > 5 OR id > 3",
    "SELECT count(*) FROM items WHERE n > 5.5",
    "SELECT count(*) FROM items WHERE n < 99999999999",
    "SELECT count(*) FROM items WHERE NOT n > 5",
    "SELECT count(*) FROM items WHERE twice > 5",
    "SELECT count(*) FROM items WHERE id % 2 = 1",
    "SELECT x, count(*) FROM items GROUP BY x",
    "SELECT price, moment, count(*) FROM items GROUP BY price, moment",
    "SELECT n + 1, count(*) FROM items GROUP BY n + 1",
    "SELECT n, count(*) FROM items GROUP BY ROLLUP (n)",
    "SELECT n, count(*) FROM items GROUP BY ALL",
    "SELECT n AS name, count(*) FROM items GROUP BY n ORDER BY name",
    "SELECT count(*) OVER () FROM items",
    "SELECT n, sum(count(*)) OVER () FROM items GROUP BY n",
    "SELECT DISTINCT count(*) FROM items GROUP BY n",
    "SELECT n, (SELECT max(n)) FROM items GROUP BY n",
    "SELECT n, avg(tiny), count(*) FROM items GROUP BY n",
    "SELECT count(*) FROM items i, items j",
    "SELECT count(*) FROM (SELECT * FROM items)",
    "WITH items AS (SELECT 1 AS n) SELECT count(*) FROM items",
    "SELECT n FROM items GROUP BY n",
    "SELECT string_agg(name, ',' ORDER BY id, name), count(*) FROM items WHERE n = 5",
]


@pytest.mark.mission("CN22")
@pytest.mark.parametrize("count", [0, 40])
@pytest.mark.sampled(1)
def test_aggregates_are_those_of_the_rows_wherever_they_are_made(
    shop: Session, tmp_path: Path, count: int
) -> None:
    fill(tmp_path, drawn_rows(random.Random(count), count))
    rows = shop.sql("SELECT * FROM items ORDER BY ALL").rows
    for query in (*_TO_DATABASE, *_FROM_ROWS):
        found, expected = shop.sql(query).rows, over_rows(rows, query)
        assert found is not None
        assert found.schema == expected.schema, query
        answers = [list(map(repr, each.to_pylist())) for each in (found, expected)]
        assert sorted(answers[0]) == sorted(answers[1]), query
        assert answers[0] == answers[1] or " ORDER BY" not in query, query
        assert ("AggregatePushDown" in pushed(shop, query)) == (query in _TO_DATABASE), query


@pytest.mark.parametrize(
    ("column", "value", "query"),
    [
        ("n", "many", "SELECT sum(n) FROM items"),
        ("n", 1.5, "SELECT min(n) FROM items"),
        ("n", 2**31, "SELECT min(n) FROM items"),
        ("tiny", 128, "SELECT n, count(tiny) FROM items GROUP BY n"),
        ("tiny", "many", "SELECT count(*) FROM items WHERE tiny > 1"),
        ("n", b"x", "SELECT count(*), n FROM items GROUP BY n"),
        ("name", b"x", "SELECT count(*), name FROM items GROUP BY name"),
        ("ok", 2, "SELECT count(*), ok FROM items GROUP BY ok"),
    ],
)
def test_a_value_that_the_rows_would_refuse_is_refused_of_aggregates(
    shop: Session, tmp_path: Path, column: str, value: object, query: str
) -> None:
    fill(tmp_path, drawn_rows(random.Random(1), 9))
    assert "AggregatePushDown" in pushed(shop, query)
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute(f"INSERT INTO items ({column}) VALUES (?)", [value])
    connection.close()
    for asked in (query, f"SELECT * FROM items WHERE {column} IS NOT NULL"):
        with pytest.raises(InvalidRows, match=f"column {column} is"):
            shop.sql(asked)


_LIMITED = {
    "SELECT * FROM items LIMIT 3": 3,
    "SELECT id % 3, name FROM items i LIMIT 2 OFFSET 5": 7,
    "SELECT name FROM items WHERE n IN (5, 6) AND tiny IS NOT NULL LIMIT 4": 4,
    "SELECT twice FROM items LIMIT 100": 100,
}
_UNLIMITED = [
    "SELECT id FROM items ORDER BY n, id LIMIT 3",
    "SELECT DISTINCT n FROM items LIMIT 2",
    "SELECT name FROM items WHERE name = 'a' LIMIT 2",
    "SELECT n FROM items WHERE n > 5 OR n < 0 LIMIT 2",
    "SELECT unnest([n, tiny]) FROM items LIMIT 3",
    "SELECT n FROM items LIMIT 10%",
    "SELECT n FROM items LIMIT 0",
    "SELECT i.n FROM items i, items j LIMIT 3",
    "SELECT n, count(x) FROM items GROUP BY n LIMIT 2",
]


@pytest.mark.mission("CN22")
def test_a_limit_goes_to_the_database_where_each_row_of_it_is_one_of_the_answer(
    shop: Session, tmp_path: Path
) -> None:
    fill(tmp_path, drawn_rows(random.Random(1), 60))
    rows = shop.sql("SELECT * FROM items ORDER BY ALL").rows
    for query in (*_LIMITED, *_UNLIMITED):
        told = pushed(shop, query)
        assert ("LimitPushDown" in told) == (query in _LIMITED), query
        if query in _LIMITED:
            assert told.splitlines()[0].endswith(f" LIMIT {_LIMITED[query]}"), query
        found = rows_of(shop, query)
        assert len(found) == over_rows(rows, query).num_rows, query
        every = over_rows(rows, query.partition(" LIMIT")[0]).to_pylist()
        assert all(map([tuple(each.values()) for each in every].__contains__, found)), query


def test_a_limit_of_rows_that_are_filtered_here_counts_what_is_left(
    session: Session, tmp_path: Path
) -> None:
    # SQLite compares the numbers of such a column as texts, so it is not asked to.
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE items (n TEXT)")
        connection.executemany("INSERT INTO items VALUES (?)", [(at,) for at in range(30)])
    connection.close()
    session.sql(f"""
        CREATE TABLE items (n INT) WITH ('connector' = 'jdbc', 'table-name' = 'items',
          'url' = 'sqlite:///{tmp_path}/shop.db')
    """)
    query = "SELECT n FROM items WHERE n >= 9 LIMIT 4"
    told = pushed(session, query)
    assert "at most 4 rows" in told
    assert " LIMIT 4" not in told
    assert rows_of(session, query) == [(9,), (10,), (11,), (12,)]


def test_a_compiled_query_keeps_what_the_database_does(shop: Session, tmp_path: Path) -> None:
    fill(tmp_path, drawn_rows(random.Random(1), 30))
    for query, ability in (
        (
            "SELECT ok, count(*) FROM items WHERE id > 3 GROUP BY ok ORDER BY ok",
            "AggregatePushDown",
        ),
        ("SELECT id FROM items LIMIT 3", "LimitPushDown"),
    ):
        plan = shop.compile(query)
        assert ability in {each["type"] for each in plan.tables[0].abilities}
        *_, last = shop.run_compiled(plan)
        assert last.rows == shop.sql(query).rows


def test_a_limit_ends_a_source_without_end(session: Session) -> None:
    session.sql("CREATE TABLE made (id BIGINT) WITH ('connector' = 'datagen')")
    assert len(rows_of(session, "SELECT id FROM made LIMIT 3")) == 3
