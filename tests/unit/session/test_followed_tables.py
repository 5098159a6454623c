"""Tables without an end in SQL: the worked example of sockets, and what it leads to."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakewright.session import Session
from lakewright.storage.errors import InvalidStatement, UnavailableError, UnsupportedError
from tests.unit.session.conftest import rows_of

_LINES = (b"INSERT|Alice|12\n", b"INSERT|Bob|5\nDELETE|Alice|12\n", b"INSERT|Alice|18\n")


@contextlib.contextmanager
def terminal(lines: Sequence[bytes]) -> Iterator[int]:
    """A server that types lines, as `nc -lk` does, and hangs up; where it listens."""
    server = socket.create_server(("127.0.0.1", 0))

    def type_lines() -> None:
        connection, _ = server.accept()
        with connection:
            for line in lines:
                connection.sendall(line)
                time.sleep(0.3)

    thread = threading.Thread(target=type_lines, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        thread.join(10)
        server.close()


def define(session: Session, port: int) -> None:
    session.sql(f"""
        CREATE TABLE IF NOT EXISTS user_scores (name STRING, score INT) WITH (
          'connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '1',
          'byte-delimiter' = '10', 'format' = 'changelog-csv',
          'changelog-csv.column-delimiter' = '|');
        ALTER TABLE user_scores SET ('port' = '{port}');
        SET 'execution.runtime-mode' = 'streaming'
    """)


@pytest.mark.mission("CN36", "CN37", "CN38", "CN39", "CN40", "CN43", "CN46")
def test_the_worked_example_gives_a_view_that_updates(session: Session) -> None:
    with terminal(_LINES) as port:
        define(session, port)
        answers = [
            dict(
                zip(
                    each.rows.column("name").to_pylist(),
                    each.rows.column(1).to_pylist(),
                    strict=True,
                )
            )
            for each in session.run("SELECT name, SUM(score) FROM user_scores GROUP BY name")
            if each.rows is not None
        ]
    assert answers[0] == {"Alice": 12}
    assert answers[-1] == {"Alice": 18, "Bob": 5}
    assert {"Bob": 5} in answers


@pytest.mark.mission("CN21", "CN28", "MT12")
def test_changes_go_into_a_table_with_a_key_and_not_into_another(session: Session) -> None:
    session.sql("""
        CREATE TABLE scores (name STRING, score INT, PRIMARY KEY (name) NOT ENFORCED);
        CREATE TABLE log (name STRING, score INT)
    """)
    with terminal(_LINES) as port:
        define(session, port)
        with pytest.raises(UnsupportedError) as told:
            list(session.run("INSERT INTO log SELECT * FROM user_scores"))
        assert "db.user_scores gives rows of kinds +I -D, and db.log takes +I" in str(told.value)
        results = list(session.run("INSERT INTO scores SELECT upper(name), score FROM user_scores"))
    assert results[-1].message == "db.user_scores has ended: 4 rows written into db.scores"
    session.sql("RESET 'execution.runtime-mode'")
    assert rows_of(session, "SELECT * FROM scores ORDER BY name") == [("ALICE", 18), ("BOB", 5)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name || 'straße', score FROM user_scores",
        "SELECT name || 'straße', /* from */ score -- FROM here\n FROM user_scores",
        "WITH w AS (SELECT 1 AS one) SELECT u.name || 'straße', u.score FROM user_scores u, w",
    ],
)
def test_the_kinds_of_changes_are_asked_for_whatever_the_text_holds(
    session: Session, query: str
) -> None:
    session.sql("CREATE TABLE scores (name STRING, score INT, PRIMARY KEY (name) NOT ENFORCED)")
    with terminal(_LINES) as port:
        define(session, port)
        list(session.run(f"INSERT INTO scores {query}"))
    session.sql("RESET 'execution.runtime-mode'")
    found = rows_of(session, "SELECT * FROM scores ORDER BY name")
    assert found == [("Alicestraße", 18), ("Bobstraße", 5)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT name, sum(score) FROM user_scores GROUP BY name",
        "SELECT name, score FROM user_scores ORDER BY 1",
        "SELECT DISTINCT name, 1 FROM user_scores",
        "SELECT name, row_number() OVER () FROM user_scores",
        "SELECT name, score FROM user_scores LIMIT 2",
    ],
)
def test_an_insert_works_row_by_row(session: Session, query: str) -> None:
    session.sql("CREATE TABLE scores (name STRING, score INT, PRIMARY KEY (name) NOT ENFORCED)")
    define(session, 1)
    with pytest.raises(InvalidStatement, match="looks at several of its rows at once"):
        list(session.run(f"INSERT INTO scores {query}"))


@pytest.mark.mission("MT10")
def test_in_batch_mode_a_table_without_end_is_refused(session: Session) -> None:
    define(session, 1)
    session.sql("RESET 'execution.runtime-mode'")
    with pytest.raises(UnsupportedError, match="has no end: read it as a stream"):
        session.sql("SELECT * FROM user_scores")
    define(session, 1)
    with pytest.raises(UnavailableError, match=r"no server at 127\.0\.0\.1:1.*nc -lk 1"):
        list(session.run("SELECT * FROM user_scores"))
    session.sql("CREATE TABLE t (name STRING, score INT)")
    with pytest.raises(UnsupportedError, match="write INSERT INTO"):
        list(session.run("INSERT OVERWRITE t SELECT * FROM user_scores"))


@pytest.mark.mission("CN49", "CN50", "FS21")
def test_new_files_of_a_folder_arrive_once_and_a_stopped_stream_goes_on(
    session: Session, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    session.sql(f"""
        CREATE TABLE files (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}',
          'format' = 'json', 'source.monitor-interval' = '1 s');
        CREATE TABLE kept (id BIGINT);
        SET 'execution.runtime-mode' = 'streaming';
        SET 'stream.checkpoint' = '{tmp_path}/checkpoint'
    """)
    statement = "INSERT INTO kept SELECT id + 100 FROM files WHERE id > 0"

    reader = Session(session.catalog)
    reader.sql("USE db")

    def one_batch() -> str:
        results = session.run(statement)
        told = next(results).message
        results.close()  # type: ignore[attr-defined]  # a generator: Ctrl-C
        return told

    (folder / "a.json").write_text('{"id": 1}\n{"id": -1}\n')
    assert one_batch() == "1 row written into db.kept, batch 0"
    (folder / "b.json").write_text('{"id": 2}\n')
    assert one_batch() == "1 row written into db.kept, batch 1"
    assert rows_of(reader, "SELECT id FROM kept ORDER BY id") == [(101,), (102,)]
    # What a rollback took away comes again.
    session.catalog.table("db.kept").history.rollback(snapshot=1, grace_ms=0)
    assert one_batch() == "1 row written into db.kept, batch 1"
    assert rows_of(reader, "SELECT id FROM kept ORDER BY id") == [(101,), (102,)]


@pytest.mark.mission("MT8", "MT9", "SQ22")
def test_the_mode_decides_whether_a_table_is_read_once_or_followed(session: Session) -> None:
    session.sql("""
        CREATE TABLE orders (id BIGINT, item STRING, n INT, PRIMARY KEY (id) NOT ENFORCED);
        CREATE TABLE items (item STRING, price INT);
        CREATE TABLE spent (id BIGINT, price INT, PRIMARY KEY (id) NOT ENFORCED);
        INSERT INTO items VALUES ('a', 10), ('b', 20);
        INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2)
    """)
    query = "SELECT item, sum(n) AS n FROM orders GROUP BY item ORDER BY item"
    assert rows_of(session, query) == [("a", 1), ("b", 2)]
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    other = Session(session.catalog)
    other.sql("USE db")

    answers = session.run(query)
    assert next(answers).rows.to_pylist() == [{"item": "a", "n": 1}, {"item": "b", "n": 2}]
    other.sql("INSERT INTO orders VALUES (1, 'b', 5)")
    assert next(answers).rows.to_pylist() == [{"item": "b", "n": 7}]
    other.sql("DELETE FROM orders WHERE id = 2")
    assert next(answers).rows.to_pylist() == [{"item": "b", "n": 5}]
    answers.close()  # type: ignore[attr-defined]  # a generator: Ctrl-C

    # Others are read again for each batch.
    told = session.run(
        "INSERT INTO spent SELECT id, n * price FROM orders o JOIN items i ON o.item = i.item"
    )
    next(told)
    assert rows_of(other, "SELECT * FROM spent") == [(1, 100)]
    other.sql("UPDATE items SET price = 1 WHERE item = 'b'; INSERT INTO orders VALUES (3, 'b', 4)")
    next(told)
    assert rows_of(other, "SELECT * FROM spent ORDER BY id") == [(1, 100), (3, 4)]
    other.sql("DELETE FROM orders WHERE id = 1")
    next(told)
    assert rows_of(other, "SELECT * FROM spent ORDER BY id") == [(3, 4)]
    told.close()  # type: ignore[attr-defined]


def test_computed_columns_of_tables_of_the_warehouse_are_followed_too(session: Session) -> None:
    session.sql("""
        CREATE TABLE orders (id BIGINT, twice AS id * 2, n INT);
        CREATE TABLE kept (id BIGINT, more AS id + 1);
        INSERT INTO orders (id, n) VALUES (1, 10);
        SET 'execution.runtime-mode' = 'streaming'
    """)
    told = session.run("INSERT INTO kept SELECT twice + n FROM orders")
    next(told)
    told.close()  # type: ignore[attr-defined]
    session.sql("RESET 'execution.runtime-mode'")
    assert rows_of(session, "SELECT * FROM kept") == [(12, 13)]


def test_a_checkpoint_is_not_passed_over(session: Session, tmp_path: Path) -> None:
    session.sql(f"""
        CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
        CREATE TABLE kept (id BIGINT);
        SET 'execution.runtime-mode' = 'streaming';
        SET 'stream.checkpoint' = '{tmp_path}/checkpoint';
        INSERT INTO kept VALUES (1)
    """)
    with pytest.raises(UnsupportedError, match=r"a second run would write its rows again"):
        session.sql("INSERT INTO kept SELECT id FROM numbers")
    session.sql("RESET 'stream.checkpoint'; INSERT INTO kept SELECT id FROM numbers")
    session.sql("RESET 'execution.runtime-mode'")
    assert rows_of(session, "SELECT count(*) FROM kept") == [(4,)]
