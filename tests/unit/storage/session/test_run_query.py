"""Queries of one table in this process: order, names and what is refused."""

from __future__ import annotations

import datetime as dt

import pytest

from lakewright.storage import StorageError
from lakewright.storage.errors import InvalidRows, InvalidStatement, UnsupportedError
from lakewright.storage.session import Session
from tests.unit.storage.session.conftest import rows_of


@pytest.fixture
def numbers(session: Session) -> Session:
    session.sql(
        """CREATE TABLE t (a INT, b INT, f DOUBLE, many ARRAY<INT>, named MAP<STRING, INT>);
        INSERT INTO t (a, b, f) VALUES
          (1, 30, 1.5), (2, 20, 'nan'), (3, 10, NULL), (4, 40, 'inf'), (5, 50, -1.0)"""
    )
    return session


def test_nan_is_the_greatest_and_null_the_least(numbers: Session) -> None:
    ascending = [3, 5, 1, 4, 2]
    assert rows_of(numbers, "SELECT a FROM t ORDER BY f") == [(each,) for each in ascending]
    assert rows_of(numbers, "SELECT a FROM t ORDER BY f DESC") == [
        (each,) for each in reversed(ascending)
    ]
    assert rows_of(numbers, "SELECT a FROM t ORDER BY f DESC LIMIT 1") == [(2,)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("SELECT a AS b, b AS a FROM t ORDER BY a", (3, 10)),
        ("SELECT a AS b, b AS a FROM t ORDER BY t.a", (1, 30)),
        ("SELECT a AS x FROM t ORDER BY x DESC", (5,)),
        ("SELECT a AS x FROM t ORDER BY b", (3,)),
        ("SELECT 'same' AS a, b FROM t ORDER BY a, b", ("same", 10)),
    ],
)
def test_a_name_in_order_by_means_a_column_of_the_result_first(
    numbers: Session, query: str, first: tuple[object, ...]
) -> None:
    assert rows_of(numbers, query)[0] == first


@pytest.mark.parametrize(
    ("query", "error", "said"),
    [
        ("SELECT a, b AS a FROM t ORDER BY a", InvalidStatement, "several columns a"),
        ("SELECT a FROM t ORDER BY many", UnsupportedError, "ORDER BY many, a ARRAY<INT>"),
        ("SELECT a FROM t ORDER BY named", InvalidStatement, "a MAP<STRING, INT> has no order"),
        ("SELECT now()", UnsupportedError, r"NOW\(\) needs an engine: SET 'query.engine'"),
        ("SELECT X'6'", InvalidStatement, "half a byte; write two digits"),
        ("SELECT *", InvalidStatement, r"write SELECT \* FROM t"),
        ("VALUES (1, x)", InvalidStatement, "a text stands in quotes: 'x'"),
        ("VALUES (INTERVAL '1' DAY)", InvalidStatement, "which no column holds"),
        ("VALUES (200Y)", InvalidStatement, "does not fit in 8 bits"),
        ("VALUES (2), (1) ORDER BY 1", UnsupportedError, "ORDER BY behind VALUES needs"),
        ("INSERT INTO t (a) VALUES (DEFAULT)", InvalidStatement, "leave the column out"),
        ("SELECT a FROM t LIMIT -1", InvalidStatement, "write a whole number from 0 on"),
        ("SELECT t.a FROM t AS x", UnsupportedError, "t is no name of the table, which is x"),
        ("SELECT a FROM w.x.y.z", InvalidStatement, "has more than two parts"),
        ("SELECT a FROM t VERSION AS OF 1", InvalidStatement, "lakewright read t --snapshot N"),
        ("EXPLAIN SELECT max(a) FROM t", InvalidStatement, "beyond what EXPLAIN shows"),
        ("INSERT INTO t (named) VALUES (STRUCT(1))", InvalidRows, r"a struct; write MAP\("),
        ("SELECT FROM t", InvalidStatement, "names no column"),
        ("SELECT --1", InvalidStatement, "names no column"),
        ("SELECT MAP('a')", InvalidStatement, "lacks an argument"),
        ("SELECT MAP(ARRAY(1), 2)", UnsupportedError, "needs an engine"),
        ("SELECT 1e", InvalidStatement, "1e is no number"),
        ("SELECT 1e400", InvalidStatement, "1e400 is larger than every DOUBLE"),
        ("INSERT INTO t (a) SELECT 'x' FROM t", InvalidRows, "column a is INT, and 'x' is not"),
        ("INSERT INTO t (a) SELECT 3000000000 FROM t", InvalidRows, "does not fit in 32 bits"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_what_is_wrong(
    numbers: Session, query: str, error: type[StorageError], said: str
) -> None:
    with pytest.raises(error, match=said):
        numbers.sql(query)
    assert rows_of(numbers, "SELECT count(*) FROM t") == [(5,)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT a FROM t WHERE", r"line 1, column 17: .* something is missing after 'WHERE'"),
        ("SELECT a FROM", r"line 1, column 14: .* expected table name, found the end of the"),
        ("SELECT (a FROM t", r"line 1, column 11: .* expected \), near 'FROM'"),
        ("SELECT a\nFROM t x y", r"line 2, column 10: .* 'y' is not expected here"),
        ("SHOW TABLES;\nSELECT 'it''s' FROM `t", r"line 2, column 21: a name in backticks begins"),
        ("SELECT '\\'' -- it's\n, 'a", r"line 2, column 3: a text in single quotes begins here"),
        ("SELECT 1 /* '", r"line 1, column 10: a comment begins here and does not end"),
        ("SELECT \"'\", X'zz'", r"line 1, column 13: X'…' holds hexadecimal digits alone"),
    ],
)
def test_a_query_that_cannot_be_parsed_is_refused_by_place_and_word(
    session: Session, query: str, said: str
) -> None:
    with pytest.raises(InvalidStatement, match=said):
        session.sql(query)


def test_a_limit_and_signs_hold_for_values(session: Session) -> None:
    assert rows_of(session, "VALUES (1), (2), (3) LIMIT 2") == [(1,), (2,)]
    session.sql("CREATE TABLE v (a BIGINT); INSERT INTO v VALUES (-(1L)), (- -2), (3) LIMIT 2")
    assert rows_of(session, "SELECT a FROM v ORDER BY a") == [(-1,), (2,)]


def test_hints_change_nothing(numbers: Session) -> None:
    assert rows_of(numbers, "SELECT /*+ BROADCAST(t) */ a FROM t WHERE a = 1") == [(1,)]


def test_a_limit_above_all_counts_limits_nothing(numbers: Session) -> None:
    for order in ("", "ORDER BY a"):
        query = f"SELECT a FROM t {order} LIMIT 99999999999999999999999"
        assert len(rows_of(numbers, query)) == 5


def test_a_count_has_the_name_that_the_query_gives_it(numbers: Session) -> None:
    rows = numbers.sql("SELECT count(*) AS n FROM t").rows
    assert rows is not None
    assert rows.to_pylist() == [{"n": 5}]
    numbers.sql("INSERT INTO t BY NAME SELECT count(*) AS b FROM t")
    assert rows_of(numbers, "SELECT b FROM t WHERE a IS NULL") == [(5,)]


def test_a_moment_has_the_type_that_its_keyword_says(session: Session) -> None:
    query = "SELECT DATE '2024-01-31' AS d, TIMESTAMP '2024-01-31 10:00:00' AS t, TIME '10:00:00'"
    moment = dt.datetime(2024, 1, 31, 10)
    assert rows_of(session, query) == [(moment.date(), moment, moment.time())]
