"""Runs of statements that are tried again: what an earlier try has done is not done twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakewright.session import Session
from lakewright.storage import Catalog, StorageError
from lakewright.storage.errors import InvalidRequestError
from tests.unit.session.conftest import rows_of

FAILS_ONCE = "SELECT * FROM later"
RUN = "nightly-2024-01-31"


def _try(catalog: Catalog, text: str, since_ms: int | None = None) -> list[str]:
    session = Session(catalog, run_name=RUN, tried_since_ms=since_ms)
    session.sql("USE db")
    return [each.message for each in session.run(text)]


def _tried_twice(session: Session, text: str) -> list[str]:
    """The messages of the second try of statements of which the last fails once."""
    with pytest.raises(StorageError, match=r"no table db\.later"):
        _try(session.catalog, f"{text}; {FAILS_ONCE}")
    session.sql("CREATE TABLE later (id INT)")
    return _try(session.catalog, f"{text}; {FAILS_ONCE}", since_ms=0)


def test_each_text_of_a_session_with_a_run_name_is_written(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT)")
    for _ in range(2):
        named = Session(session.catalog, run_name=RUN)
        named.sql("INSERT INTO db.t VALUES (1)")
        named.sql("INSERT INTO db.t VALUES (2)")
    assert rows_of(session, "SELECT * FROM t ORDER BY id") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            (
                "ALTER TABLE t DROP IF EXISTS PARTITION (dt='1'); "
                "INSERT INTO t PARTITION (dt='1') VALUES (1), (2)"
            ),
            [(1, "1"), (2, "1"), (10, "2")],
        ),
        ("UPDATE t SET id = id + 1 WHERE dt = '2'", [(0, "1"), (11, "2")]),
        (
            (
                "INSERT INTO t VALUES (5, '3'); DELETE FROM t WHERE dt = '2'; "
                "MERGE INTO t USING (SELECT 5 AS id) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET id = t.id * 2"
            ),
            [(0, "1"), (10, "3")],
        ),
        (
            (
                "ALTER TABLE t DROP IF EXISTS PARTITION (dt='1'); "
                "ALTER TABLE t PARTITION (dt='2') RENAME TO PARTITION (dt='1')"
            ),
            [(10, "1")],
        ),
        (
            (
                "INSERT OVERWRITE t PARTITION (dt='1') VALUES (1); "
                "ALTER TABLE t DROP PARTITION (dt='1'); INSERT INTO t VALUES (3, '3')"
            ),
            [(3, "3"), (10, "2")],
        ),
        (
            (
                "ALTER TABLE t DROP IF EXISTS PARTITION (dt='2'); "
                "ALTER TABLE t EXCHANGE PARTITION (dt='2') WITH TABLE s"
            ),
            [(0, "1"), (20, "2")],
        ),
        (
            (
                "DROP TABLE IF EXISTS t; CREATE TABLE t (id INT, dt STRING) PARTITIONED BY (dt); "
                "INSERT INTO t VALUES (1, '1')"
            ),
            [(1, "1")],
        ),
        ("DROP TABLE t; CREATE TABLE t AS SELECT * FROM s", [(20, "2")]),
    ],
)
def test_a_second_try_leaves_the_table_as_if_the_text_had_run_once(
    session: Session, text: str, rows: list[tuple[object, ...]]
) -> None:
    session.sql(
        """CREATE TABLE t (id INT, dt STRING) PARTITIONED BY (dt); CREATE TABLE s LIKE t;
        INSERT INTO t VALUES (0, '1'), (10, '2'); INSERT INTO s VALUES (20, '2')"""
    )

    told = _tried_twice(session, text)

    assert told[:-1] == ["done by an earlier try"] * (len(told) - 1)
    assert rows_of(session, "SELECT * FROM t ORDER BY id") == rows


def test_a_try_that_begins_with_other_texts_finds_what_a_later_one_did(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT) PARTITIONED BY (dt STRING)")
    for _ in range(2):
        named = Session(session.catalog, run_name=RUN)
        named.sql("ALTER TABLE db.t DROP IF EXISTS PARTITION (dt='1')")
        named.sql("INSERT INTO db.t VALUES (1, '1')")
        assert rows_of(session, "SELECT count(*) FROM t") == [(1,)]


def test_a_statement_behind_the_last_commit_is_carried_out(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT)")
    text = "INSERT INTO t VALUES (1); INSERT INTO later VALUES (1); INSERT INTO t VALUES (2)"
    with pytest.raises(StorageError, match=r"no table db\.later"):
        _try(session.catalog, text)
    session.sql("CREATE TABLE later (id INT)")

    told = _try(session.catalog, text, since_ms=0)

    assert [bool(re.search("earlier try", each)) for each in told] == [True, False, False]
    assert rows_of(session, "SELECT * FROM t ORDER BY id") == [(1,), (2,)]


def test_an_insert_whose_commit_may_have_expired_is_refused_and_not_repeated(
    session: Session,
) -> None:
    session.sql("CREATE TABLE t (id INT)")
    _try(session.catalog, "INSERT INTO t VALUES (1)")
    for number in range(2, 5):
        session.sql(f"INSERT INTO t VALUES ({number})")
    upkeep = session.catalog.table("db.t").upkeep
    upkeep.expire_snapshots(retain_max=1, retain_min=1, time_retained_ms=0, grace_ms=0)

    with pytest.raises(InvalidRequestError, match=r"statement 2 on db\.t is not known: .* new run"):
        _try(session.catalog, "INSERT INTO t VALUES (1)", since_ms=0)

    assert rows_of(session, "SELECT count(*) FROM t") == [(4,)]
    first = Session(session.catalog, run_name="another")
    first.sql("INSERT INTO db.t VALUES (5)")
    assert rows_of(session, "SELECT count(*) FROM t") == [(5,)]


def test_columns_that_exchanged_their_names_are_not_exchanged_again(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2)")
    text = (
        "ALTER TABLE t RENAME COLUMN a TO c; ALTER TABLE t RENAME COLUMN b TO a; "
        "ALTER TABLE t RENAME COLUMN c TO b"
    )

    with pytest.raises(InvalidRequestError, match="schema 3 was made since then"):
        _tried_twice(session, text)

    assert rows_of(session, "SELECT a, b FROM t") == [(2, 1)]


FOLDERS = """CREATE TABLE f (id INT, dt STRING) PARTITIONED BY (dt)
    WITH ('type' = 'format-table', 'file.format' = 'csv', 'metastore.partitioned-table' = 'true')"""


def test_rows_of_plain_files_are_inserted_once(session: Session) -> None:
    session.sql(FOLDERS)
    text = "INSERT INTO f VALUES (1, 'a'), (2, 'b'); INSERT INTO f VALUES (3, 'a')"

    told = _tried_twice(session, text)

    assert told[:2] == ["done by an earlier try"] * 2
    assert rows_of(session, "SELECT id FROM f ORDER BY id") == [(1,), (2,), (3,)]
    Session(session.catalog, run_name="another").sql("INSERT INTO db.f VALUES (4, 'a')")
    assert rows_of(session, "SELECT count(*) FROM f") == [(4,)]


def test_a_write_of_plain_files_that_died_half_way_is_made_whole(session: Session) -> None:
    session.sql(FOLDERS)
    text = "INSERT INTO f VALUES (1, 'a'), (2, 'b')"
    _try(session.catalog, text)
    (_, path) = sorted(Path(session.catalog.root).rglob("*.csv"))
    path.unlink()
    session.sql("ALTER TABLE f DROP PARTITION (dt='a')")

    assert _try(session.catalog, text, since_ms=0)[0].startswith("2 rows written")
    assert rows_of(session, "SELECT id FROM f ORDER BY id") == [(1,), (2,)]

    session.sql("ALTER TABLE f DROP PARTITION (dt='a')")
    assert _try(session.catalog, text, since_ms=0) == ["done by an earlier try"]
    assert rows_of(session, "SELECT id FROM f ORDER BY id") == [(1,), (2,)]


def test_what_came_before_an_insert_into_plain_files_is_not_repeated(session: Session) -> None:
    session.sql(FOLDERS)
    told = _tried_twice(session, f"DROP TABLE f; {FOLDERS}; INSERT INTO f VALUES (1, 'a')")
    assert told[:3] == ["done by an earlier try"] * 3
    assert rows_of(session, "SELECT id FROM f") == [(1,)]


def test_a_column_that_came_back_is_not_dropped_again(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT, c INT)")
    text = "ALTER TABLE t DROP COLUMN c; ALTER TABLE t ADD COLUMN c INT"
    with pytest.raises(StorageError, match=r"no table db\.later"):
        _try(session.catalog, f"{text}; {FAILS_ONCE}")
    session.sql("INSERT INTO t VALUES (5, 6)")

    with pytest.raises(InvalidRequestError, match="schema 2 was made since then"):
        _try(session.catalog, text, since_ms=0)

    assert rows_of(session, "SELECT a, c FROM t") == [(5, 6)]


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE IF EXISTS t; CREATE TABLE t (a INT)",
        "DROP DATABASE db CASCADE; CREATE DATABASE db; CREATE TABLE db.t (a INT)",
    ],
)
def test_a_table_or_database_that_others_filled_since_is_not_dropped_again(
    session: Session, text: str
) -> None:
    session.sql("CREATE TABLE t (a INT)")
    with pytest.raises(StorageError, match=r"no table db\.later"):
        _try(session.catalog, f"{text}; SELECT * FROM db.later")
    if "TABLE IF" in text:
        assert _try(session.catalog, text, since_ms=0)[0].startswith("db.t is dropped")
    session.sql("INSERT INTO t VALUES (1)")

    with pytest.raises(InvalidRequestError, match="others have written to it; it was not dropped"):
        _try(session.catalog, text, since_ms=0)

    assert rows_of(session, "SELECT a FROM t") == [(1,)]
