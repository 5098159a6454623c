"""What a query may name and do: tables, branches, moments and system tables, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakewright.session import Session, duckdb_query
from lakewright.storage import Catalog
from lakewright.storage.errors import (
    InvalidStatement,
    NotFoundError,
    SnapshotNotFound,
    StorageError,
    UnsupportedError,
)
from tests.support.stores.watched_files import watched_catalog
from tests.support.tables.builders import events, new_table, rows
from tests.unit.session.conftest import first_column, rows_of


@pytest.fixture
def session(catalog: Catalog) -> Session:
    """`db.t` of three snapshots, a day each, with a tag on the second, and a table of names."""
    table = new_table(catalog, partitions=["day"])
    for number, day in enumerate("abc"):
        table.write(rows(table, events(10 * number, 10 * number + 10, day=day)))
    table.history.create_tag("second", snapshot=2)
    table.history.create_branch("b", tag="second")
    session = Session(catalog)
    session.sql(
        "USE db; CREATE TABLE names (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED);"
        "INSERT INTO names VALUES (1, 'one'), (15, 'fifteen'); INSERT INTO names VALUES (1, 'uno')"
    )
    return session


@pytest.mark.mission("MT11", "MT19")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT name, day FROM t JOIN names n USING (id) ORDER BY 1",
         [("fifteen", "b"), ("uno", "a")]),
        ("SELECT day, count(*), sum(id) FROM db.t GROUP BY ALL HAVING day > 'a' ORDER BY 1",
         [("b", 10, 145), ("c", 10, 245)]),
        ("WITH t AS (SELECT * FROM t WHERE id < 3) SELECT max(id) OVER (), id FROM t ORDER BY id",
         [(2, 0), (2, 1), (2, 2)]),
        ("SELECT id FROM t WHERE id IN (SELECT id FROM names) AND day = 'a'", [(1,)]),
        ("SELECT count(*) FROM t WHERE id = (SELECT max(y.id) FROM db.t y)", [(1,)]),
        ("SELECT count(*) FROM t VERSION AS OF 1", [(10,)]),
        ("SELECT count(*) FROM db.t VERSION AS OF 'second' AS x WHERE x.id >= 5", [(15,)]),
        ("SELECT count(*) FROM t FOR SYSTEM_VERSION AS OF 2, names", [(40,)]),
        ("SELECT count(t.id) FROM `t` FOR SYSTEM_TIME AS OF '2999-01-01'", [(30,)]),
        ("SELECT count(*) FROM t TIMESTAMP AS OF TIMESTAMP '2999-01-01 10:00:00'", [(30,)]),
        ("SELECT (SELECT count(*) FROM t) - (SELECT count(*) FROM t VERSION AS OF 1)", [(20,)]),
        ("SELECT count(*) FROM paimon_incremental_query('t', 1, 3) c WHERE c.id > 10", [(19,)]),
        ("SELECT _rowkind, min(id) FROM paimon_incremental_query('db.t', '2', '3') GROUP BY ALL",
         [("+I", 20)]),
        ("SELECT count(*) FROM paimon_incremental_query('t', 0, 1), names", [(20,)]),
        ("SELECT count(*) FROM t$branch_b", [(20,)]),
        ("SELECT max(snapshot_id) FROM db.\"t$snapshots\"", [(3,)]),
        ("SELECT tag_name FROM `t$tags`", [("second",)]),
        ("SELECT sum(record_count) FROM t$files VERSION AS OF 1", [(10,)]),
        ("FROM names SELECT id ORDER BY ALL", [(1,), (15,)]),
        ("(SELECT 1 UNION ALL VALUES (2)) ORDER BY 1 DESC", [(2,), (1,)]),
        ("SELECT ';' || '/* no comment */' -- a comment", [(";/* no comment */",)]),
    ],
)  # fmt: skip
@pytest.mark.sampled(8)
def test_a_query_reads_tables_as_duckdb_says_and_as_paimon_names_them(
    session: Session, query: str, found: list[tuple[object, ...]]
) -> None:
    assert rows_of(session, query) == found


@pytest.mark.parametrize(
    ("query", "error", "said"),
    [
        ("SELECT * FROM '/etc/passwd'", InvalidStatement, "column 15: a query reads tables of the"),
        (
            "SELECT * FROM read_csv('/etc/passwd')",
            InvalidStatement,
            "neither files nor the network",
        ),
        ("SELECT * FROM read_parquet('http://127.0.0.1/x')", InvalidStatement, "."),
        ("SELECT * FROM glob('/*')", InvalidStatement, "neither files nor the net"),
        ("SELECT * FROM duckdb_secrets()", StorageError, "."),
        ("SELECT * FROM query('COPY (SELECT 1) TO ''x''')", InvalidStatement, "."),
        ("WITH x AS (INSERT INTO t VALUES (1)) SELECT 1", InvalidStatement, "."),
        ("SELECT * FROM session", NotFoundError, "no table db.session"),
        ("SELECT * FROM arrow_scan(1, 2, 3)", InvalidStatement, "No function matches"),
        ("SELECT getenv('HOME')", InvalidStatement, "getenv does not exist"),
        ("COPY t TO '/tmp/x'", InvalidStatement, "is no statement here"),
        ("ATTACH '/tmp/x'", InvalidStatement, "is no statement here"),
        ("INSTALL httpfs", InvalidStatement, "is no statement here"),
        ("SELECT * FROM t VERSION AS OF 9", SnapshotNotFound, "9"),
        ("SELECT * FROM t VERSION AS OF 'nope'", NotFoundError, "nope"),
        ("SELECT * FROM t TIMESTAMP AS OF '1999-01-01'", SnapshotNotFound, "1999"),
        ("SELECT * FROM paimon_incremental_query('t', 1)", InvalidStatement, "write paimon_incr"),
        ("SELECT * FROM paimon_incremental_query('t', 3, 1)", StorageError, "."),
        ("SELECT * FROM paimon_incremental_query('t', 1, 9)", SnapshotNotFound, "9"),
        ("SELECT * FROM t, T", StorageError, "tell|no table"),
        ("SELECT * FROM range(10000000000) AS r(i) ORDER BY hash(i)", UnsupportedError, "memory"),
    ],
)
@pytest.mark.sampled(8)
def test_what_a_query_may_not_do_is_refused(
    session: Session,
    query: str,
    error: type[StorageError],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    monkeypatch.setattr(duckdb_query, "_SHARE_OF_MEMORY", "100MB")
    with pytest.raises(error, match=said):
        session.sql(query)
    assert rows_of(session, "SELECT count(*) FROM t") == [(30,)]


@pytest.mark.mission("MT19")
@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT id FROM t WHERE day = 'b'", 1),
        ("SELECT id FROM t WHERE id BETWEEN 8 AND 11", 2),
        ("SELECT id FROM t WHERE day LIKE 'c%' AND length(v) > 1", 1),
        ("SELECT id FROM t WHERE v = 'v25' OR id = 3", 2),
        ("SELECT count(*) FROM t x JOIN names n ON x.id = n.id WHERE n.id = 15", 1),
        ("SELECT x.id FROM t x, t y WHERE x.day = 'a' AND y.day = 'a' AND x.id = y.id", 2),
        ("SELECT id FROM t VERSION AS OF 2 LIMIT 1", 1),
        ("SELECT id FROM t WHERE id > 99", 0),
    ],
)
def test_only_files_that_may_match_are_opened(session: Session, query: str, files: int) -> None:
    catalog, fs = watched_catalog(session.catalog)
    Session(catalog, settings=session.settings).sql(query)
    opened = [call for call in fs.calls if call.name == "open_input" and "/day=" in call.path]
    assert len(opened) == files, [call.path for call in opened]


@pytest.mark.mission("MT19")
def test_explain_names_what_each_table_is_asked_for_and_what_that_left_out(
    session: Session,
) -> None:
    query = "EXPLAIN SELECT name FROM t JOIN names n USING (id) WHERE day = 'b' AND v LIKE 'v1%'"
    found = rows_of(session, query)
    assert first_column(session.sql(query)).count("table") == 2
    at = found.index(("table", "db.t"))
    facts = dict(found[at : at + 12])  # type: ignore[arg-type]
    assert set(str(facts["columns"]).split(", ")) == {"id", "v"}
    assert "day = 'b'" in str(facts["filter"])
    assert "prefix(v, 'v1')" in str(facts["filter"])
    assert (facts["files read"], facts["files of the table"]) == ("1", "3")
    assert (facts["partitions read"], facts["partitions of the table"]) == ("1", "3")
    assert any("HASH_JOIN" in str(value) for what, value in found if what == "plan")


def test_an_error_of_a_file_is_raised_as_it_is(unchecked_catalog: Catalog) -> None:
    table = new_table(unchecked_catalog)
    table.write(rows(table, events(0, 3)))
    (entry,) = table.at().files()
    name = entry.file.file_name
    Path(unchecked_catalog.root, "db.db/t/bucket-0", name).unlink()
    session = Session(unchecked_catalog)
    for query in ("SELECT sum(id) FROM db.t", "INSERT INTO db.t SELECT * FROM db.t"):
        with pytest.raises(StorageError, match=f"{name} is missing though snapshot 1 of db.t"):
            session.sql(query)
    assert [each.id for each in table.history.snapshots()] == [1]


def test_duckdb_is_loaded_by_a_query_alone(tmp_path: Path) -> None:
    text = (
        "import sys; from lakewright.storage import Catalog; "
        "from lakewright.session import Session; "
        f'Session(Catalog.open({str(tmp_path)!r})).sql("CREATE DATABASE d; USE d; '
        'CREATE TABLE t (a INT); INSERT INTO t VALUES (1); SHOW TABLES"); '
        "sys.exit('duckdb' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0
