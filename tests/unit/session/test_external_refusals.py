"""External tables whose rows would be lost, or changed, or led elsewhere."""

from __future__ import annotations

import gzip
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lakewright.session import Session
from lakewright.storage.errors import (
    AlreadyExistsError,
    InvalidOption,
    InvalidRequestError,
    InvalidRows,
)
from tests.unit.session.conftest import rows_of


def define(session: Session, name: str, columns: str, **options: object) -> None:
    given = ", ".join(f"'{key.replace('_', '-')}' = '{text}'" for key, text in options.items())
    session.sql(f"CREATE TABLE {name} ({columns}) WITH ({given})")


def sqlite(session: Session, path: Path, script: str, columns: str, **options: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()
    define(
        session, "t", columns, connector="jdbc", url=f"sqlite:///{path}", table_name="t", **options
    )


def test_numbers_that_sqlite_keeps_as_texts_are_compared_as_numbers(
    session: Session, tmp_path: Path
) -> None:
    script = "CREATE TABLE t (id TEXT); INSERT INTO t VALUES ('9'), ('100'), ('20'), (NULL)"
    sqlite(session, tmp_path / "x.db", script, "id BIGINT")
    assert rows_of(session, "SELECT id FROM t WHERE id > 15 ORDER BY id") == [(20,), (100,)]
    session.sql("ALTER TABLE t SET ('scan.partition.column' = 'id')")
    with pytest.raises(InvalidOption, match="no column of whole numbers in the database"):
        session.sql("SELECT id FROM t")


def test_a_column_that_sqlite_lacks_is_no_text_of_its_name(
    session: Session, tmp_path: Path
) -> None:
    script = "CREATE TABLE t (id INT, name TEXT); INSERT INTO t VALUES (1, 'x')"
    sqlite(session, tmp_path / "x.db", script, "ID BIGINT, nam STRING, rowid BIGINT")
    with pytest.raises(InvalidRequestError, match="has no column nam; it has id, name"):
        session.sql("SELECT nam FROM t")
    assert rows_of(session, "SELECT ID, rowid FROM t") == [(1, 1)]


def test_nan_is_refused_where_sqlite_would_keep_null(session: Session, tmp_path: Path) -> None:
    sqlite(session, tmp_path / "x.db", "CREATE TABLE t (x REAL)", "x DOUBLE")
    with pytest.raises(InvalidRows, match="column x has NaN, which SQLite would keep as null"):
        session.sql("INSERT INTO t VALUES (1.5), (CAST('NaN' AS DOUBLE))")
    assert rows_of(session, "SELECT * FROM t") == []


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("ARRAY<STRING>", "ARRAY['a', NULL]"),
        ("MAP<STRING, INT>", "MAP('a', 1)"),
        ("ROW<a INT, b STRING>", "{'a': 1, 'b': 'x'}"),
    ],
)
def test_values_that_sqlite_has_not_are_refused_before_a_row_is_written(
    session: Session, tmp_path: Path, kind: str, value: str
) -> None:
    sqlite(session, tmp_path / "x.db", "CREATE TABLE t (id INTEGER, x TEXT)", f"id INT, x {kind}")
    session.sql(f"CREATE TABLE own (id INT, x {kind}); INSERT INTO own VALUES (1, NULL)")
    session.sql("INSERT INTO t SELECT * FROM own")
    session.sql(f"INSERT INTO own VALUES (2, {value})")
    with pytest.raises(InvalidRows, match=r"column x holds .* of which SQLite has no values"):
        session.sql("INSERT INTO t SELECT * FROM own")
    assert rows_of(session, "SELECT id FROM t") == [(1,)]


@pytest.mark.parametrize(
    ("there", "kind", "fits", "value"),
    [
        ("NUMERIC", "DECIMAL(30, 2)", "-1.50", "12345678901234567890.12"),
        ("REAL", "BIGINT", "9007199254740992", "9007199254740993"),
        ("INTEGER", "STRING", "'x7'", "'007'"),
    ],
)
def test_numbers_that_sqlite_would_round_are_refused_before_a_row_is_written(
    session: Session, tmp_path: Path, there: str, kind: str, fits: str, value: str
) -> None:
    sqlite(session, tmp_path / "x.db", f"CREATE TABLE t (x {there})", f"x {kind}")
    session.sql(f"CREATE TABLE own (x {kind}); INSERT INTO own VALUES ({fits})")
    session.sql("INSERT INTO t SELECT * FROM own")
    assert rows_of(session, "SELECT x FROM t") == rows_of(session, "SELECT x FROM own")
    session.sql(f"INSERT INTO own VALUES ({value})")
    with pytest.raises(InvalidRows, match=r"column x has .* make the column TEXT there"):
        session.sql("INSERT INTO t SELECT * FROM own")
    assert len(rows_of(session, "SELECT x FROM t")) == 1


def test_reading_a_database_that_is_not_there_makes_none(session: Session, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/no.db"
    define(session, "t", "id INT", connector="jdbc", url=url, table_name="t")
    with pytest.raises(InvalidRequestError, match="unable to open database file"):
        session.sql("SELECT * FROM t")
    assert not (tmp_path / "no.db").exists()


def test_a_secret_parameter_of_an_address_is_neither_kept_nor_shown(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql://127.0.0.1:1/x?password=hunter2"
    with pytest.raises(InvalidOption, match="holds a secret"):
        define(session, "t", "id INT", connector="jdbc", url=url, table_name="t")
    monkeypatch.setenv("PW", "hunter2")
    url = url.replace("hunter2", "${env:PW}")
    define(session, "t", "id INT", connector="jdbc", url=url, table_name="t")
    assert "hunter2" not in str(rows_of(session, "EXPLAIN SELECT * FROM t"))


@pytest.mark.parametrize("prefix", ["../elsewhere", ".hidden", "_hidden"])
def test_files_lie_in_the_folder_of_the_table_and_are_seen(
    session: Session, tmp_path: Path, prefix: str
) -> None:
    options = {"format": "csv", "sink.file-prefix": prefix, "path": tmp_path / "t"}
    define(session, "t", "id INT", connector="filesystem", **options)
    with pytest.raises(InvalidOption, match=r"sink\.file-prefix of db\.t"):
        session.sql("INSERT INTO t VALUES (1)")


def test_a_text_of_two_lines_is_no_row_of_a_text_file(session: Session, tmp_path: Path) -> None:
    define(session, "t", "v STRING", connector="filesystem", format="text", path=tmp_path / "t")
    with pytest.raises(InvalidRows, match="has an end of a line"):
        session.sql("INSERT INTO t VALUES ('one\ntwo')")
    assert rows_of(session, "SELECT * FROM t") == []


def test_a_packed_file_that_is_cut_off_is_named(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1\n" * 1000)[:-12])
    define(session, "t", "id INT", connector="filesystem", format="csv", path=tmp_path)
    with pytest.raises(InvalidRows, match=r"a\.csv\.gz cannot be read: Truncated"):
        session.sql("SELECT * FROM t")


def test_a_table_is_not_renamed_to_an_external_one(session: Session) -> None:
    define(session, "outside", "id INT", connector="datagen")
    session.sql("CREATE TABLE own (id INT)")
    with pytest.raises(AlreadyExistsError, match=r"db\.outside is an external table"):
        session.sql("ALTER TABLE own RENAME TO outside")


def test_a_damaged_definition_can_be_dropped(session: Session) -> None:
    define(session, "t", "id INT", connector="datagen")
    catalog = session.catalog
    catalog.fs.replace(f"{catalog.root}/.lakewright/external/db/t.json", b"{")
    session.sql("DROP TABLE t")
    assert rows_of(session, "SHOW TABLES") == []


def test_a_dropped_database_takes_its_external_tables_along(session: Session) -> None:
    define(session, "t", "id INT", connector="datagen")
    with pytest.raises(InvalidRequestError, match="has external tables: t; drop them before"):
        session.sql("DROP DATABASE db")
    session.sql("DROP DATABASE db CASCADE; CREATE DATABASE db; USE db")
    assert rows_of(session, "SHOW TABLES") == []


class _Answers(BaseHTTPRequestHandler):
    """`/away` leads to another host; every other page has the same row."""

    def do_GET(self) -> None:
        if self.path.startswith("/away"):
            self.send_response(302)
            self.send_header("Location", "http://localhost:1/secrets")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'[{"price": 12345678901234567.89}]')

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@contextmanager
def served() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_headers_do_not_follow_a_redirect_to_another_host(session: Session) -> None:
    with served() as address:
        define(session, "t", "price INT", connector="http", url=f"{address}/away")
        with pytest.raises(InvalidRows, match="its headers are sent to no other host"):
            session.sql("SELECT * FROM t")


def test_a_server_that_gives_the_same_page_again_is_refused(session: Session) -> None:
    price = "price DECIMAL(20, 2)"
    with served() as address:
        define(session, "t", price, connector="http", url=f"{address}/a", pagination="page")
        with pytest.raises(InvalidRows, match=r"two pages of .* have the same rows"):
            session.sql("SELECT * FROM t")
        session.sql("ALTER TABLE t SET ('pagination' = 'none')")
        assert [str(row[0]) for row in rows_of(session, "SELECT * FROM t")] == [
            "12345678901234567.89"
        ]
