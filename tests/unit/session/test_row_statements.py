"""DELETE, UPDATE, MERGE INTO and TRUNCATE do what their text says in DuckDB's SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

from lakewright.session import Session
from lakewright.session.settings import Settings
from lakewright.storage import Catalog
from lakewright.storage.errors import (
    InvalidRequestError,
    InvalidRows,
    InvalidStatement,
    StorageError,
)
from tests.support.tables.invariants import assert_only_reachable_files

ROWS = "SELECT id, day, price FROM t ORDER BY ALL"


@pytest.fixture
def session(catalog: Catalog) -> Session:
    made = Session(catalog, Settings())
    list(
        made.run(
            """
            CREATE DATABASE IF NOT EXISTS db; USE db;
            CREATE TABLE t (id INT, day STRING, price DECIMAL(10, 2)) PARTITIONED BY (day);
            INSERT INTO t BY NAME SELECT i::INT AS id, CASE WHEN i < 3 THEN 'a' ELSE 'b' END AS day,
                i * 10 AS price FROM range(6) r(i);
            CREATE TABLE s (id INT, price DECIMAL(10, 2), gone BOOLEAN);
            INSERT INTO s VALUES (1, 99, false), (4, 0, true), (8, 80, false)
            """
        )
    )
    return made


def held(session: Session) -> list[tuple[object, ...]]:
    rows = session.sql(ROWS).rows
    assert rows is not None
    return [(row["id"], row["day"], float(row["price"])) for row in rows.to_pylist()]


@pytest.mark.mission("MT18")
@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("id = 3", [0, 1, 2, 4, 5]),
        ("day = 'a'", [3, 4, 5]),
        ("price > 5 AND NOT id = 2", [0, 2]),
        ("upper(day) = 'B' OR id % 2 = 1", [0, 2]),
        # DuckDB's quotes are names, and its texts have no escapes.
        ("\"day\" = 'a' AND t.id < 2", [2, 3, 4, 5]),
        ("day = 'a\\n'", [0, 1, 2, 3, 4, 5]),
        ("id IN (SELECT 3 UNION ALL SELECT 4)", [0, 1, 2, 5]),
        ("id IN (SELECT id FROM s)", [0, 2, 3, 5]),
        ("EXISTS (SELECT * FROM db.s WHERE s.id = t.id AND NOT gone)", [0, 2, 3, 4, 5]),
        ("id = 2 -- the last word", [0, 1, 3, 4, 5]),
        # DuckDB compares these as DOUBLE, our filters exactly.
        ("price = 1e1", [0, 2, 3, 4, 5]),
        ("price >= 10.000000000000000000000000000000000000000001", [0]),
    ],
)
@pytest.mark.sampled(4)
def test_a_delete_takes_the_rows_that_the_same_query_returns(
    session: Session, where: str, left: list[int]
) -> None:
    rows = session.sql(f"SELECT id FROM t WHERE NOT coalesce({where}\n, false)").rows
    assert rows is not None
    assert sorted(rows.column("id").to_pylist()) == left
    session.sql(f"DELETE FROM t WHERE {where}")
    assert [row[0] for row in held(session)] == left


def test_a_subquery_reads_the_table_itself_by_another_name(session: Session) -> None:
    with pytest.raises(InvalidStatement, match="name the row by AS"):
        session.sql("DELETE FROM t WHERE id = (SELECT max(id) FROM t)")
    session.sql("DELETE FROM t AS x WHERE x.id = (SELECT max(id) FROM t)")
    session.sql("UPDATE t AS x SET price = (SELECT sum(price) FROM s) WHERE x.id < 2")
    assert held(session) == [
        (0, "a", 179.0),
        (1, "a", 179.0),
        (2, "a", 20.0),
        (3, "b", 30.0),
        (4, "b", 40.0),
    ]


def test_a_delete_without_a_condition_takes_all_rows(session: Session) -> None:
    assert session.sql("DELETE FROM t").facts["deleted"] == 6
    assert held(session) == []


@pytest.mark.mission("MT18")
def test_an_update_gives_new_values_by_expressions(session: Session) -> None:
    done = session.sql("UPDATE t AS x SET price = x.price * 1.5, day = 'z' WHERE x.id = 2")
    assert done.facts["updated"] == 1
    assert (2, "z", 30.0) in held(session)
    session.sql("UPDATE t SET price = 0 WHERE length(day) = 1 AND id < 2")
    assert [row[2] for row in held(session)][:2] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "value", "becomes"),
    [
        # Literals alone are those of VALUES.
        ("INT", "'5'", 5),
        ("DATE", "'2024-01-31'", dt.date(2024, 1, 31)),
        ("TIMESTAMP(9)", "TIMESTAMP '2024-01-31 00:00:00.123456789'",
         pd.Timestamp("2024-01-31 00:00:00.123456789")),
        ("BIGINT", "1e3", 1000),
        ("INT", "1.5", "it is not a whole number"),
        ("STRING", "5", "text is expected"),
        ("VARCHAR(3)", "'abcd'", "is 4 long"),
        # Results are those of INSERT … SELECT.
        ("INT", "id + 0.0", 1),
        ("ARRAY<DOUBLE>", "[1.5, id]", [1.5, 1.0]),
        ("INT", "id + 0.5", "CAST it in an expression"),
        ("INT", "id / 1", "CAST it in an expression"),
        ("INT", "CAST(id + 0.5 AS INT)", 2),
        ("DECIMAL(5, 2)", "id * 1.005", "CAST it in an expression"),
        ("DECIMAL(5, 2)", "round(id * 1.004, 2)", Decimal("1.00")),
        ("BOOLEAN", "id + 0", "hold int32"),
        ("DATE", "DATE '2024-01-31' + INTERVAL 1 DAY", "hold timestamp"),
        ("DOUBLE", "9007199254740992 + id", "does not fit"),
        ("DOUBLE", "9007199254740992::HUGEINT + id", "no DOUBLE is equal to 9007199254740993"),
        ("ARRAY<INT>", "[id, 2.5]", "CAST it in an expression"),
        ("TIMESTAMP(9)", "TIMESTAMP '2024-01-31 00:00:00.123456789' + INTERVAL 0 DAY",
         "more than six digits below the second"),
    ],
)  # fmt: skip
@pytest.mark.sampled(8)
def test_a_new_value_is_exact_or_refused_unless_the_statement_casts_it(
    session: Session, kind: str, value: str, becomes: object
) -> None:
    session.sql(f"CREATE TABLE u (id INT, x {kind})")
    session.sql("INSERT INTO u VALUES (1, NULL)")

    def written(statement: str) -> object:
        session.sql(statement)
        rows = session.sql("SELECT x FROM u").rows
        assert rows is not None
        return rows.column("x").to_pylist()[-1]

    merge = "MERGE INTO u USING (SELECT 1 AS k) s ON u.id = s.k WHEN MATCHED THEN"
    for statement in (
        f"UPDATE u SET x = {value}",
        f"{merge} UPDATE SET x = {value}",
    ):
        if isinstance(becomes, str):
            with pytest.raises((InvalidRequestError, InvalidRows), match=becomes):
                written(statement)
        else:
            assert written(statement) == becomes


def test_a_column_of_a_query_is_merged_as_an_insert_takes_it(session: Session) -> None:
    session.sql("CREATE TABLE u (id INT, n BIGINT, day DATE)")
    session.sql("CREATE TABLE v (id INT, n DOUBLE)")
    session.sql("INSERT INTO v VALUES (1, 1.5), (2, 2)")
    done = session.sql(
        """MERGE INTO u USING (SELECT id, sum(id) AS n FROM v GROUP BY id) s ON u.id = s.id
        WHEN NOT MATCHED THEN INSERT *"""
    )
    assert done.facts["inserted"] == 2
    into = "MERGE INTO u USING v ON u.id = v.id WHEN"
    for clause in ("MATCHED THEN UPDATE SET *", "MATCHED THEN UPDATE SET n = v.n"):
        with pytest.raises(InvalidRows, match="column n is BIGINT, and the rows hold double"):
            session.sql(f"{into} {clause}")
    # A value that no clause takes is not judged.
    session.sql(f"{into} MATCHED AND v.n = 9 THEN UPDATE SET n = v.n")
    session.sql(f"{into} MATCHED THEN UPDATE SET n = CAST(v.n AS BIGINT) + 1")
    rows = session.sql("SELECT id, n FROM u ORDER BY id").rows
    assert rows is not None
    assert rows.to_pylist() == [{"id": 1, "n": 3}, {"id": 2, "n": 3}]


def test_a_literal_whose_digits_would_be_cut_is_refused_in_a_query(session: Session) -> None:
    literal = "TIMESTAMP '2024-01-31 00:00:00.123456789'"
    with pytest.raises(InvalidStatement, match=r"line 1, column 8.*write TIMESTAMP_NS '2024"):
        session.sql(f"SELECT {literal}")
    with pytest.raises(InvalidRequestError, match="more than six digits"):
        session.sql(f"DELETE FROM t WHERE now() < {literal}")
    rows = session.sql("SELECT TIMESTAMP '2024-01-31 00:00:00.123456000' AS at").rows
    assert rows is not None
    assert rows.num_rows == 1


@pytest.mark.mission("MT18")
def test_a_merge_updates_deletes_and_inserts_at_once(session: Session) -> None:
    done = session.sql(
        """MERGE INTO t USING s ON t.id = s.id
        WHEN MATCHED AND s.gone THEN DELETE
        WHEN MATCHED THEN UPDATE SET price = s.price + 1
        WHEN NOT MATCHED THEN INSERT (id, day, price) VALUES (s.id, 'new', s.price)
        WHEN NOT MATCHED BY SOURCE AND t.day = 'b' THEN UPDATE SET price = -1"""
    )
    assert {name: done.facts[name] for name in ("deleted", "updated", "inserted")} == {
        "deleted": 1,
        "updated": 3,
        "inserted": 1,
    }
    assert held(session) == [
        (0, "a", 0.0),
        (1, "a", 100.0),
        (2, "a", 20.0),
        (3, "b", -1.0),
        (5, "b", -1.0),
        (8, "new", 80.0),
    ]


def test_a_merge_takes_a_query_and_the_columns_by_name(session: Session) -> None:
    session.sql(
        """MERGE INTO t AS a USING (SELECT id, max(price) AS price, 'q' AS day FROM s GROUP BY id) b
        ON a.id = b.id AND a.price < b.price
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert [row for row in held(session) if row[1] == "q"] == [
        (1, "q", 99.0),
        (4, "q", 0.0),
        (8, "q", 80.0),
    ]


def test_a_merge_matches_columns_that_are_named_in_backticks(session: Session) -> None:
    session.sql(
        """MERGE INTO t USING (SELECT 3 AS `my id`, 'b' AS `d` UNION ALL SELECT 1, 'b') s
        ON t.`id` = s.`my id` AND s.`d` <> '`' AND t.`day` SIMILAR TO 'b|`'
        WHEN MATCHED THEN DELETE"""
    )
    assert [row[0] for row in held(session)] == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("alias", ["others", "files", "query", "count", "self"])
@pytest.mark.sampled(2)
def test_a_table_may_have_any_name(session: Session, alias: str) -> None:
    session.sql(f"UPDATE t AS {alias} SET price = {alias}.price + 1 WHERE {alias}.id % 2 = 0")
    session.sql(
        f"MERGE INTO t AS {alias} USING s AS tables ON {alias}.id = TABLES.id "
        "WHEN MATCHED THEN DELETE"
    )
    assert [row[::2] for row in held(session)] == [(0, 1.0), (2, 21.0), (3, 30.0), (5, 50.0)]


def test_brackets_hold_commas(session: Session) -> None:
    session.sql("UPDATE t SET price = [1, 2][2], day = {'a': 'x', 'b': 'y'}['b'] WHERE id = 0")
    assert held(session)[0] == (0, "y", 2.0)


@pytest.mark.mission("MT18")
def test_a_truncate_empties_a_table_or_a_partition(session: Session, catalog: Catalog) -> None:
    session.sql("TRUNCATE TABLE t PARTITION (day = 'a')")
    assert {row[1] for row in held(session)} == {"b"}
    session.sql("TRUNCATE TABLE t")
    assert held(session) == []
    assert_only_reachable_files(catalog.table("db.t"))


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE t WHERE id = 1", r"line 1, column 8: .*write DELETE FROM t"),
        ("DELETE FROM t WHERE", "expected a condition"),
        ("DELETE FROM t USING s WHERE s.id = t.id", "line 1, column 15: write WHERE EXISTS"),
        ("DELETE FROM t WHERE nope = 1", '"nope" not found'),
        ("UPDATE t price = 1", "expected SET"),
        ("UPDATE t SET price = ", "expected an expression"),
        ("UPDATE t SET price = 1, price = 2", "price gets two values"),
        ("UPDATE t SET price = 'x'", "'x' is not: it is not a number"),
        ("UPDATE t SET day.price = 1", "day is not t, the table that changes"),
        ("DELETE FROM t WHERE price = '1,5'", "Could not convert"),
        ("MERGE INTO t USING s ON t.id > s.id WHEN MATCHED THEN DELETE", "an equality of both"),
        ("MERGE INTO t USING s ON t.id = s.id", "expected WHEN"),
        ("MERGE INTO t USING t ON t.id = t.id WHEN MATCHED THEN DELETE", "equality|both called"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN DELETE", "only be inserted"),
        (
            "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 2)",
            "1 columns and 2 values",
        ),
        (
            (
                "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN "
                "INSERT (id, price, price) VALUES (1, 2, 3)"
            ),
            "price is twice in the list",
        ),
        (
            (
                "MERGE INTO t USING (SELECT 1 AS id, 2 AS id) s ON t.id = s.id "
                "WHEN MATCHED THEN DELETE"
            ),
            "the source has two columns id",
        ),
        (
            (
                "MERGE INTO t USING (SELECT 1 AS id, 2 AS price, 3 AS price) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET *"
            ),
            "the source has two columns price",
        ),
        ("TRUNCATE t", "write TRUNCATE TABLE t"),
        ("TRUNCATE TABLE t PARTITION (day = 'a', day = 'b')", "day is twice in the list"),
        ("INSERT INTO t BY NAME SELECT 1 AS id, 2 AS id, 'a' AS day", "the query names id twice"),
        ("INSERT INTO t (id, day, id) VALUES (1, 'a', 2)", "id is twice in the list"),
    ],
)
@pytest.mark.sampled(8)
def test_a_wrong_statement_says_what_to_write(session: Session, statement: str, says: str) -> None:
    before = held(session)
    with pytest.raises((InvalidStatement, InvalidRequestError), match=says):
        session.sql(statement)
    assert held(session) == before


def test_a_condition_reads_nothing_of_the_machine(session: Session, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    before = held(session)
    for where in (
        f"id IN (SELECT a FROM read_csv('{tmp_path}/secret.csv'))",
        f"id IN (SELECT a FROM '{tmp_path}/secret.csv')",
        "day = getenv('HOME')",
    ):
        with pytest.raises(StorageError):
            session.sql(f"DELETE FROM t WHERE {where}")
    assert held(session) == before
