"""INSERT fills columns by the rules of positions and partition clauses, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.session import Session
from lakewright.storage.errors import InvalidRows, InvalidStatement, StalePlan
from lakewright.storage.spec.commit import StagedWrite
from lakewright.storage.table import Table
from tests.unit.session.conftest import first_column, rows_of

CHINA = "date='2019-8-30',country='china'"
PERU = "date='2019-8-30',country='peru'"
LATER = "date='2019-8-31',country='peru'"


def partitions(session: Session, clause: str = "") -> list[object]:
    return first_column(session.sql(f"SHOW PARTITIONS country_page_view {clause}"))


@pytest.mark.mission("PT24", "PT25", "PT30", "RS13", "SQ4", "SQ9", "SQ10")
def test_the_worked_static_insert_makes_the_partition_that_a_listing_shows(views: Session) -> None:
    done = views.sql(
        """INSERT INTO TABLE country_page_view PARTITION (date='2019-8-30', country='china')
        SELECT user, cnt FROM country_page_view_source"""
    )
    assert done.facts["rows"] == 3
    assert partitions(views) == [CHINA]
    assert rows_of(views, "SELECT * FROM country_page_view ORDER BY cnt") == [
        ("ann", 3, "2019-8-30", "china"),
        ("bob", 5, "2019-8-30", "china"),
        ("eve", 8, "2019-8-30", "china"),
    ]


@pytest.mark.mission("PT24", "PT32", "PT33", "PT34", "RS5", "SQ4")
@pytest.mark.parametrize(
    ("target", "query", "found"),
    [
        ("", "SELECT user, cnt, date, country", [CHINA, PERU, LATER]),
        ("PARTITION (date, country)", "SELECT user, cnt, date, country", [CHINA, PERU, LATER]),
        ("PARTITION (date='2019-8-30')", "SELECT user, cnt, country", [CHINA, PERU]),
        ("PARTITION (date='2019-8-30', country)", "SELECT user, cnt, country", [CHINA, PERU]),
        ("BY NAME", "SELECT country, date, cnt, user", [CHINA, PERU, LATER]),
        ("(date, country, user)", "SELECT date, country, user", [CHINA, PERU, LATER]),
        ("PARTITION (date='2019-8-30') (country)", "SELECT 'china' AS here", [CHINA]),
    ],
)
def test_open_partition_columns_take_their_values_from_the_last_columns(
    views: Session, target: str, query: str, found: list[str]
) -> None:
    views.sql(f"INSERT INTO country_page_view {target} {query} FROM country_page_view_source")
    assert partitions(views) == found
    users = [row[0] for row in rows_of(views, "SELECT user FROM country_page_view ORDER BY user")]
    assert users == ([None] * 3 if "here" in query else ["ann", "bob", "eve"])


@pytest.mark.mission("PT24", "SQ4", "SQ22")
def test_an_overwrite_replaces_what_rows_touch_or_by_a_setting_what_the_clause_matches(
    views: Session,
) -> None:
    views.sql("INSERT INTO country_page_view SELECT * FROM country_page_view_source")
    overwrite = "INSERT OVERWRITE country_page_view PARTITION (date='2019-8-30') VALUES"
    views.sql(f"{overwrite} ('new', 1, 'peru')")
    assert partitions(views) == [CHINA, PERU, LATER]
    views.sql(f"SET 'dynamic-partition-overwrite' = 'false'; {overwrite} ('new', 1, 'peru')")
    assert partitions(views) == [PERU, LATER]
    views.sql(
        """INSERT OVERWRITE country_page_view PARTITION (date='2019-8-31', country='peru')
        SELECT user, cnt FROM country_page_view_source WHERE user = 'of nobody'"""
    )
    assert partitions(views) == [PERU]


@pytest.mark.mission("PT25", "PT26", "PT33", "PT34", "SQ20")
@pytest.mark.parametrize(
    ("target", "values", "message"),
    [
        ("PARTITION (cnt=1)", "('u', 'd', 'c')", "its partition columns are date, country"),
        ("PARTITION (date='d')", "('u', 1)", "give country a value in the PARTITION clause, or"),
        ("PARTITION (date='d')", "('u', 1, 'd', 'c')", "leave out date, which the PARTITION"),
        ("PARTITION (date, country='c')", "('u', 1, 'd')", "columns with values come first"),
        ("PARTITION (country='c')", "('u', 1, 'd')", "leaves date open, which comes before it"),
        ("PARTITION (country, date)", "('u', 1, 'd', 'c')", "order of db.country_page_view: date"),
        ("(user, cnt)", "('u', 1)", "lacks partition column date"),
        ("(user, nope)", "('u', 1)", "has no such column"),
        ("PARTITION (date='d', country='c') (date)", "('u')", "leave it out of one of them"),
        ("PARTITION (date='d', country='c') (user)", "('u', 1)", "gives 2 columns, and the list"),
        ("", "('u', 1, 'd', 'c'), ('u', 1)", "row 2 of VALUES has 2 values"),
    ],
)
def test_columns_that_do_not_fit_are_refused_with_the_way_out(
    views: Session, target: str, values: str, message: str
) -> None:
    with pytest.raises(InvalidStatement, match=message):
        views.sql(f"INSERT INTO country_page_view {target} VALUES {values}")
    assert partitions(views) == []


@pytest.mark.mission("PT26", "PT33")
@pytest.mark.parametrize(
    ("target", "query", "message"),
    [
        ("PARTITION (date='d', country='c')", "SELECT user, date", "the query returns date"),
        ("", "SELECT date, country, user, cnt", "partition columns come last; write .* BY NAME"),
    ],
)
def test_columns_that_would_change_places_without_a_word_are_refused(
    views: Session, target: str, query: str, message: str
) -> None:
    with pytest.raises(InvalidStatement, match=message):
        views.sql(f"INSERT INTO country_page_view {target} {query} FROM country_page_view_source")


def test_a_value_that_does_not_fit_is_refused_by_row_and_column_and_nothing_is_written(
    views: Session,
) -> None:
    with pytest.raises(InvalidRows, match="row 2: column cnt is INT, and 'many' is not"):
        views.sql("INSERT INTO country_page_view VALUES ('u', 1, 'd', ''), ('u', 'many', 'd', '')")
    assert partitions(views) == []


def test_literals_take_the_types_of_the_columns_that_they_fill(session: Session) -> None:
    session.sql(
        """CREATE TABLE t (a TINYINT, d DATE, ts TIMESTAMP(3), m MAP<STRING, INT>, b BYTES,
        f DOUBLE, n DECIMAL(5, 2), l ARRAY<INT>);
        INSERT INTO t VALUES (-1, DATE '2024-01-31', TIMESTAMP '2024-01-31 10:00:00',
        MAP('k', 1), X'ff', 1e3, 1.5, ARRAY(1, NULL)), (NULL, '2024-02-01', NULL, NULL, NULL, 2,
        3, NULL);
        INSERT INTO t (a, d) SELECT 7, d FROM t WHERE a IS NULL"""
    )
    found = [
        tuple(map(str, row)) for row in rows_of(session, "SELECT * FROM t ORDER BY a NULLS FIRST")
    ]
    assert found == [
        ("None", "2024-02-01", "None", "None", "None", "2.0", "3.00", "None"),
        ("-1", "2024-01-31", "2024-01-31 10:00:00", "[('k', 1)]", r"b'\xff'", "1000.0", "1.50",
         "[1, None]"),
        ("7", "2024-02-01", "None", "None", "None", "None", "None", "None"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("(20240131, NULL, NULL, NULL)", "row 1: column d is DATE, and 20240131 is not: write"),
        ("(NULL, 1700000000, NULL, NULL)", r"column t is TIMESTAMP\(3\), and 1700000000 is not"),
        ("(NULL, NULL, NULL, NULL), (NULL, NULL, 'cafe', NULL)", "row 2: column b is BYTES"),
        ("(NULL, NULL, NULL, 9007199254740993)", "the nearest is 9007199254740992"),
        ("(NULL, CAST('2024-01-31 10:00:00' AS DATE), NULL, NULL)", "it is no date"),
    ],
)
def test_a_literal_of_another_type_is_refused_as_a_filter_refuses_it(
    session: Session, values: str, said: str
) -> None:
    session.sql("CREATE TABLE t (d DATE, t TIMESTAMP(3), b BYTES, f DOUBLE)")
    with pytest.raises(InvalidRows, match=said):
        session.sql(f"INSERT INTO t VALUES {values}")
    assert rows_of(session, "SELECT count(*) FROM t") == [(0,)]


def test_a_map_with_a_key_twice_is_refused(session: Session) -> None:
    session.sql("CREATE TABLE t (m MAP<STRING, INT>)")
    with pytest.raises(InvalidStatement, match="has the key 'a' twice"):
        session.sql("INSERT INTO t VALUES (MAP('a', 1, 'a', 2))")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t PARTITION (d = 20240131) VALUES (1)",
        "ALTER TABLE t DROP IF EXISTS PARTITION (d = 20240131)",
        "SHOW PARTITIONS t PARTITION (d = 20240131)",
        "ALTER TABLE t PARTITION (d = 20240131) COMPACT",
        "DESCRIBE EXTENDED t PARTITION (d = 20240131)",
    ],
)
def test_a_number_is_no_date_of_a_partition(session: Session, statement: str) -> None:
    session.sql("CREATE TABLE t (id INT) PARTITIONED BY (d DATE)")
    with pytest.raises(InvalidStatement, match="is DATE, and 20240131 is not: write DATE"):
        session.sql(statement)


@pytest.mark.parametrize(
    ("column", "literal", "why"),
    [
        ("STRING", "DATE '2024-01-31'", "DATE '2024-01-31' is not: text is expected; write '2024-"),
        ("INT", "DATE '2024-01-31'", "DATE '2024-01-31' is not: it is a date"),
        ("DATE", "TIMESTAMP '2024-01-31 00:00:00'", "00:00:00' is not: it is a timestamp"),
    ],
)
@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO t PARTITION (d = {}) VALUES (1)", "SHOW PARTITIONS t PARTITION (d = {})"],
)
def test_a_moment_names_no_partition_of_another_type(
    session: Session, column: str, literal: str, why: str, statement: str
) -> None:
    session.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (d {column})")
    with pytest.raises(InvalidStatement, match=f"is {column}, and .*{why}"):
        session.sql(statement.format(literal))


def test_a_date_names_partitions_of_its_type_and_of_timestamps(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT) PARTITIONED BY (d TIMESTAMP, e DATE)")
    session.sql("INSERT INTO t PARTITION (d = DATE '2024-01-31', e = DATE '2024-01-31') VALUES (1)")
    assert rows_of(session, "SHOW PARTITIONS t") == [("d='2024-01-31T00:00:00',e='2024-01-31'",)]


def _in_between(monkeypatch: pytest.MonkeyPatch, session: Session, statement: str) -> None:
    """Run a statement after the rows of the next INSERT are staged, and before their commit."""
    staged = Table.stage

    def staged_late(table: Table, *args: Any, **kwargs: Any) -> StagedWrite:
        found = staged(table, *args, **kwargs)
        monkeypatch.setattr(Table, "stage", staged)
        session.sql(statement)
        return found

    monkeypatch.setattr(Table, "stage", staged_late)


@pytest.mark.parametrize("order", ["", "ORDER BY id"])
def test_an_overwrite_by_its_own_rows_conflicts_with_rows_that_came_after_they_were_read(
    session: Session, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    session.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1), (2)")
    _in_between(monkeypatch, session, "INSERT INTO t VALUES (3)")

    with pytest.raises(StalePlan, match=r"db\.t changed after snapshot 1, .* run the statement"):
        session.sql(f"INSERT OVERWRITE t SELECT * FROM t WHERE id <> 1 {order}")

    assert rows_of(session, "SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("between", "overwrite"),
    [
        # A rewrite of files, and rows beside rows of another table.
        ("ALTER TABLE t COMPACT 'major'", "SELECT * FROM t WHERE id <> 1"),
        ("INSERT INTO t VALUES (3)", "SELECT * FROM s"),
    ],
)
def test_an_overwrite_replaces_what_came_meanwhile_unless_its_own_rows_did(
    session: Session, monkeypatch: pytest.MonkeyPatch, between: str, overwrite: str
) -> None:
    session.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    session.sql("CREATE TABLE s (id INT); INSERT INTO s VALUES (2)")
    _in_between(monkeypatch, session, between)
    session.sql(f"INSERT OVERWRITE t {overwrite}")
    assert rows_of(session, "SELECT id FROM t") == [(2,)]


def test_sums_and_fractions_of_a_query_fill_columns_of_numbers(views: Session) -> None:
    views.sql("CREATE TABLE sums (n BIGINT, i INT, d DOUBLE)")
    views.sql("INSERT INTO sums SELECT sum(cnt), max(cnt) + 1.0, 0.5 FROM country_page_view_source")
    assert rows_of(views, "SELECT * FROM sums") == [(16, 9, 0.5)]
    for wrong in ("1.5, 1, 0", "99999999999999999999, 1, 0"):
        with pytest.raises(InvalidRows, match="column n is BIGINT"):
            views.sql(f"INSERT INTO sums SELECT {wrong}")
    assert rows_of(views, "SELECT count(*) FROM sums") == [(1,)]


def test_positions_are_refused_where_partition_columns_are_not_declared_last(
    session: Session,
) -> None:
    session.sql("CREATE TABLE sales (day STRING, id BIGINT, note STRING) PARTITIONED BY (day)")
    refused = (
        "INSERT INTO sales VALUES ('2024-05-01', 1, 'x')",
        "INSERT INTO sales VALUES (1, 'x', '2024-05-01')",
        "INSERT OVERWRITE sales PARTITION (day) SELECT 1, 'x', '2024-05-01'",
    )
    for statement in refused:
        with pytest.raises(InvalidStatement, match=r"INSERT INTO db.sales \(day, id, note\) …"):
            session.sql(statement)
    assert rows_of(session, "SELECT * FROM sales") == []
    session.sql("INSERT INTO sales (day, id, note) VALUES ('2024-05-01', 1, 'x')")
    session.sql("INSERT INTO sales PARTITION (day = '2024-05-01') VALUES (2, 'y')")
    session.sql("INSERT INTO sales SELECT 3 AS id, 'z' AS note, '2024-05-01' AS day")
    assert rows_of(session, "SELECT id, note FROM sales ORDER BY id") == [
        (1, "x"),
        (2, "y"),
        (3, "z"),
    ]
