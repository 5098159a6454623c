"""Queries on DuckDB: rows, names, moments, what is pushed down and what is refused."""

from __future__ import annotations

import datetime as dt

import pytest

from lakewright.session import Session
from lakewright.storage import StorageError
from lakewright.storage.errors import InvalidRows, InvalidStatement
from tests.unit.session.conftest import rows_of


@pytest.fixture
def numbers(session: Session) -> Session:
    session.sql(
        """CREATE TABLE t (a INT, b INT, f DOUBLE, many ARRAY<INT>, named MAP<STRING, INT>);
        INSERT INTO t (a, b, f) VALUES
          (1, 30, 1.5), (2, 20, 'nan'), (3, 10, NULL), (4, 40, 'inf'), (5, 50, -1.0)"""
    )
    return session


def test_nan_is_the_greatest_and_null_the_last(numbers: Session) -> None:
    ascending = [5, 1, 4, 2, 3]
    assert rows_of(numbers, "SELECT a FROM t ORDER BY f") == [(each,) for each in ascending]
    assert rows_of(numbers, "SELECT a FROM t WHERE f > 5 ORDER BY a") == [(2,), (4,)]
    assert rows_of(numbers, "SELECT a FROM t WHERE f = 'nan'::DOUBLE") == [(2,)]


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
        ("SELECT X'6'", InvalidStatement, "line 1, column 1: .* even number of hex digits"),
        ("SELECT *", InvalidStatement, "without FROM"),
        ("SELECT a FROM t LIMIT -1", InvalidStatement, "cannot be negative"),
        ("SELECT t.a FROM t AS x", InvalidStatement, 'table "t" not found! Candidate tables: "x"'),
        ("SELECT a FROM w.x.y", InvalidStatement, "column 15: .* has more than two parts"),
        ("SELECT a FROM t VERSION AS OF b", InvalidStatement, "column 31: expected the id of a sn"),
        ("SELECT a FROM t AT (VERSION => 1)", InvalidStatement, "write VERSION AS OF 3"),
        ("SELECT FROM t", InvalidStatement, "without selection list"),
        ("SELECT f::DATE FROM t", InvalidStatement, r"column 9: .* cast \(DOUBLE -> DATE\)"),
        ("SELECT INTERVAL 1 DAY", InvalidStatement, "no type of a table: .* CAST it to VARCHAR"),
        ("SELECT '\ud800'", InvalidStatement, "half of a surrogate pair"),
        ("INSERT INTO t (a) VALUES (DEFAULT)", InvalidStatement, "leave the column out"),
        ("INSERT INTO t (a) VALUES (x)", InvalidStatement, "a text stands in quotes: 'x'"),
        ("INSERT INTO t (a) VALUES (INTERVAL '1' DAY)", InvalidStatement, "which no column holds"),
        ("INSERT INTO t (a) VALUES (200Y)", InvalidStatement, "does not fit in 8 bits"),
        ("INSERT INTO t (named) VALUES (STRUCT(1))", InvalidRows, "it is a struct; write MAP"),
        ("INSERT INTO t (a) SELECT 'x' FROM t", InvalidRows, "a is INT, and the rows hold string"),
        ("INSERT INTO t (a) SELECT 3000000000 FROM t", InvalidRows, "3000000000 not in range"),
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
        ("SELECT a FROM t WHERE", r"line 1, column 17: .* syntax error at or near \"WHERE\""),
        ("SHOW TABLES; SELECT é, a b c FROM t", r"line 1, column 28: .* at or near \"c\""),
        ("SELECT a\nFROM t x y", r"line 2, column 10: .* at or near \"y\""),
        ("SELECT a\nFROM t VERSION AS OF 1 x y", r"line 2, column 26: .* at or near \"y\""),
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
    session.sql(
        "CREATE TABLE v (a BIGINT, f DOUBLE); INSERT INTO v VALUES (-(1L), -1.5), (- -2, 1);"
        "INSERT INTO v VALUES (3 + 4, 2.5), (8, 1) LIMIT 1"
    )
    assert rows_of(session, "SELECT * FROM v ORDER BY a") == [(-1, -1.5), (2, 1.0), (7, 2.5)]


def test_hints_change_nothing(numbers: Session) -> None:
    assert rows_of(numbers, "SELECT /*+ BROADCAST(t) */ a FROM t WHERE a = 1") == [(1,)]


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
