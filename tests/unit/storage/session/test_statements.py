"""Statements on partitions and tables, and what is refused."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from pathlib import Path

import pytest

from lakewright.storage import Catalog, StorageError
from lakewright.storage.errors import (
    DatabaseNotFound,
    InvalidRequestError,
    InvalidStatement,
    UnsupportedError,
)
from lakewright.storage.session import Session
from lakewright.storage.sql import parse_statements
from tests.support.tables.landed import land_days
from tests.unit.storage.session.conftest import first_column, rows_of

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "sql.md"


@pytest.mark.mission(
    "SQ1", "SQ2", "SQ6", "SQ7", "SQ8", "SQ9", "SQ10", "SQ11", "SQ20", "PT30", "PT68", "RS3", "RS5"
)
def test_the_statements_of_the_page_do_what_it_says(catalog: Catalog) -> None:
    session = Session(catalog)
    blocks = re.findall(r"^```(sql|text)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shown: list[object] = []
    told = 0
    for kind, block in blocks:
        if kind == "sql":
            result = list(session.run(block))[-1]
            shown = [] if result.rows is None else first_column(result)
        else:
            assert shown == block.splitlines()
            told += 1
    assert told == 3


@pytest.mark.mission("PT67", "PT68", "SQ5", "SQ14")
def test_folders_are_added_and_repaired(session: Session, tmp_path: Path) -> None:
    root = land_days(tmp_path / "landed")
    session.sql("CREATE TABLE t (id BIGINT, v STRING) PARTITIONED BY (day STRING)")
    with pytest.raises(InvalidStatement, match=r"ADD PARTITION \(day='a'\) LOCATION"):
        session.sql("ALTER TABLE t ADD PARTITION (day='a')")
    session.sql("SET folder.age = 0s")
    session.sql(f"ALTER TABLE t ADD PARTITION (day='a') LOCATION '{root}/day=a'")
    session.sql(f"ALTER TABLE t ADD IF NOT EXISTS PARTITION (day='a') LOCATION '{root}/day=a'")
    assert first_column(session.sql("SHOW PARTITIONS t")) == ["day='a'"]
    (before,) = rows_of(session, "SELECT count(*) FROM t")
    shutil.copy(next(root.glob("day=a/*.parquet")), root / "day=a" / "more.parquet")
    session.sql("MSCK REPAIR TABLE t")
    assert rows_of(session, "SELECT count(*) FROM t") > [before]
    session.sql(
        """CREATE TABLE f (id INT, dt STRING) PARTITIONED BY (dt)
        WITH ('type' = 'format-table', 'file.format' = 'csv',
              'metastore.partitioned-table' = 'true');
        INSERT INTO f PARTITION (dt='a') VALUES (1), (2);
        ALTER TABLE f ADD PARTITION (dt='b')"""
    )
    assert first_column(session.sql("SHOW PARTITIONS f")) == ["dt='a'", "dt='b'"]
    session.sql("ALTER TABLE f DROP PARTITION (dt='a')")
    assert rows_of(session, "SELECT count(*) FROM f") == [(0,)]
    session.sql("MSCK REPAIR TABLE f")
    assert rows_of(session, "SELECT * FROM f ORDER BY id") == [(1, "a"), (2, "a")]


@pytest.mark.mission("PT68", "SQ12", "SQ13", "SQ21")
def test_tables_partitions_and_columns_are_described(views: Session) -> None:
    views.sql("INSERT INTO country_page_view SELECT * FROM country_page_view_source")
    described = rows_of(views, "DESCRIBE country_page_view")
    assert [(each[0], each[3]) for each in described] == [
        ("user", ""), ("cnt", ""), ("date", "partition"), ("country", "partition"),
    ]  # fmt: skip
    facts = rows_of(views, "DESCRIBE EXTENDED country_page_view PARTITION (country='peru')")
    assert ("partition (country='peru')", "rows in files", "2") in facts
    detail = rows_of(views, "DESCRIBE DETAIL TABLE country_page_view PARTITION (country='peru')")
    assert [(each[0], each[2]) for each in detail] == [
        ("date='2019-8-30',country='peru'", 1), ("date='2019-8-31',country='peru'", 1),
    ]  # fmt: skip
    assert ("column", "type", "INT") in rows_of(views, "DESCRIBE FORMATTED country_page_view cnt")
    (table,) = rows_of(views, "SHOW TABLE EXTENDED IN db LIKE '*view*' PARTITION (country='peru')")
    assert (table[0], table[2], table[4]) == ("country_page_view", "date, country", 2)


@pytest.mark.mission("SQ1", "SQ2")
def test_a_shown_statement_makes_the_same_table(session: Session, catalog: Catalog) -> None:
    session.sql(
        r"""CREATE TABLE t (`a b` ARRAY<ROW<x INT NOT NULL, `y` DECIMAL(3, 1)>>, k BIGINT,
        dt STRING COMMENT 'it''s \\ a day', n INT DEFAULT 3, PRIMARY KEY (dt, k) NOT ENFORCED)
        COMMENT 'of tests' PARTITIONED BY (dt) WITH (bucket = 2, 'my.own' = 'a;b')"""
    )
    (text,) = first_column(session.sql("SHOW CREATE TABLE t"))
    first = catalog.table("db.t").schema
    session.sql(f"DROP TABLE t; {text}")
    again = catalog.table("db.t").schema
    assert (again.fields, again.options, again.comment) == (
        first.fields, first.options, first.comment,
    )  # fmt: skip
    assert (again.partition_keys, again.primary_keys) == (("dt",), ("dt", "k"))


@pytest.mark.mission("SQ3", "SQ15", "SQ16", "SQ17", "SQ19", "SQ22", "SQ23")
def test_a_table_is_altered_kept_and_dropped(session: Session, catalog: Catalog) -> None:
    session.sql(
        """SET table-storage.bucket = 3;
        CREATE TABLE t (id INT, a STRING, c STRING, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('changelog-producer' = 'input')"""
    )
    assert catalog.table("db.t").options.bucket == 3
    session.sql(
        """INSERT INTO t VALUES (1, 'a1', 'c1'); ALTER TABLE t DROP COLUMN c;
        ALTER TABLE t ADD COLUMN c STRING AFTER id; INSERT INTO t VALUES (2, 'c2', 'a2');
        ALTER TABLE t RENAME a TO b; ALTER TABLE t SET 'change-tracking' = 'false'"""
    )
    assert rows_of(session, "SELECT * FROM t ORDER BY id") == [(1, None, "a1"), (2, "c2", "a2")]
    assert catalog.table("db.t").schema.options["changelog-producer"] == "none"
    session.sql("ALTER TABLE t ADD n INT FIRST; ALTER TABLE t CHANGE n m BIGINT")
    assert str(catalog.table("db.t").schema.field("m").type) == "BIGINT"
    session.sql("ALTER TABLE t CLUSTERED INTO 2 BUCKETS; ALTER TABLE t COMPACT 'major'")
    assert catalog.table("db.t").options.bucket == 2
    assert rows_of(session, "SELECT count(*) FROM t") == [(2,)]
    session.sql("DROP TABLE t; DROP TABLE IF EXISTS t")
    assert not catalog.table_exists("db.t")


def test_a_table_gets_other_partition_keys(session: Session, catalog: Catalog) -> None:
    session.sql(
        """CREATE TABLE t (id INT, a STRING, b INT) PARTITIONED BY (a);
        INSERT INTO t VALUES (1, 2, 'x'), (2, 3, 'y'), (3, 3, 'x')"""
    )
    told = session.sql("ALTER TABLE t PARTITIONED BY (a, b)")
    assert told.message == "db.t is partitioned by a, b"
    assert catalog.table("db.t").schema.partition_keys == ("a", "b")
    partitions = ["a='x',b=2", "a='x',b=3", "a='y',b=3"]
    assert rows_of(session, "SHOW PARTITIONS t") == [(each,) for each in partitions]
    assert rows_of(session, "SELECT id FROM t WHERE b = 3 ORDER BY id") == [(2,), (3,)]
    with pytest.raises(InvalidStatement, match="are taken away with `lakewright respec TABLE --k"):
        session.sql("ALTER TABLE t PARTITIONED BY ()")
    assert catalog.table("db.t").schema.partition_keys == ("a", "b")


def test_a_table_in_a_folder_keeps_its_name(session: Session, catalog: Catalog) -> None:
    session.sql("CREATE TABLE t (id INT)")
    with pytest.raises(UnsupportedError, match="create one LIKE it and INSERT INTO it"):
        session.sql("ALTER TABLE t RENAME TO u")
    assert catalog.list_tables("db") == ("t",)


@pytest.mark.mission("SQ24")
def test_a_filter_on_partition_columns_leaves_out_the_others(views: Session) -> None:
    views.sql("INSERT INTO country_page_view SELECT * FROM country_page_view_source")
    where = "FROM country_page_view AS v WHERE v.date = '2019-8-31'"
    assert rows_of(views, f"SELECT * {where}") == [("eve", 8, "2019-8-31", "peru")]
    facts = dict(rows_of(views, f"EXPLAIN SELECT * {where}"))
    assert (facts["partitions read"], facts["partitions of the table"]) == ("1", "3")
    assert (facts["files read"], facts["filter"]) == ("1", "(date = '2019-8-31')")


@pytest.mark.mission("PT6", "PT17", "PT19", "RS1", "RS3")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE TABLE v (u INT, d STRING) PARTITION BY LIST (d) (PARTITION p VALUES ('x'))",
            "line 1, column 47: PARTITION BY LIST is not supported: .*PARTITIONED BY",
        ),
        ("CREATE TABLE v (u INT) PARTITIONED BY RANGE (u)", "RANGE is not supported"),
        ("CREATE TABLE v (u TIMESTAMP) PARTITIONED BY (days(u))", "rule that computes partitions"),
        (
            "CREATE TABLE v (u INT) PARTITIONED BY (HASH(u))",
            r"instead of hash partitions, DISTRIBUTED BY \(column\) INTO n BUCKETS",
        ),
        (
            "CREATE TABLE v (u INT, d STRING) PARTITIONED BY (d STRING)",
            "column d is declared twice",
        ),
        ("CREATE TABLE v (u INT, d INT) PARTITIONED BY (d, e INT)", "declare all by name, or all"),
        ("CREATE TABLE v (u INT) INTO 3 BUCKETS", "'INTO' begins no clause"),
        ("CREATE TABLE v (u INT) DISTRIBUTED INTO 3 BUCKETS WITH (bucket=2)", "say the same"),
        ("CREATE TABLE v (u INT, w AS u + 1)", "w is computed"),
        ("ALTER TABLE v ADD PRIMARY KEY (u) NOT ENFORCED", "create a table with the other key"),
        ("ALTER TABLE v PARTITION (d=1) SET 'change-tracking'='false'", "of the whole table"),
        ("ALTER TABLE v DROP PARTITION d=1", r"a partition is named by its values: PARTITION \("),
        ("ALTER TABLE v DROP PARTITION (d > 1)", "`lakewright drop-partitions` and .* by --where"),
        ("ALTER TABLE v DROP PARTITION (d IN (1, 2))", "'IN' is a filter, which no partition cl"),
        ("CREATE TABLE w (u INT) PARTITIONED BY ()", "leave it out for a table without partitio"),
        ("SHOW TABLES;\nSELECT *\nFROM WHERE", "line 3, column 6: the query cannot be parsed"),
        ("SELECT * FROM a.b.c", "the warehouse is the catalog"),
        ("DELETE FROM v", "ALTER TABLE … DROP PARTITION"),
        ("SELECT 'a", "line 1, column 8: a text in single quotes begins here and does not end"),
        ("SHOW TABLES LIKE 'a' 'b'", "'b'.* is not expected here"),
        (" ; -- nothing", "there is no statement"),
    ],
)
def test_what_cannot_be_is_refused_by_place_with_what_to_write_instead(
    session: Session, statement: str, message: str
) -> None:
    with pytest.raises(InvalidStatement, match=message):
        session.sql(statement)


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("SET 'execution.runtime-mode' = 'streaming'", UnsupportedError, "read_changes"),
        ("SET nope = 1", StorageError, "'nope' is no setting"),
        ("SELECT w FROM v", InvalidStatement, r'"w" not found .* Candidate bindings: "u"'),
        ("USE nope", StorageError, "no database nope"),
    ],
)
def test_what_the_session_cannot_do_says_what_can(
    session: Session, statement: str, error: type[StorageError], message: str
) -> None:
    session.sql("CREATE TABLE v (u INT)")
    with pytest.raises(error, match=message):
        session.sql(statement)


def test_statements_before_one_that_fails_are_done_and_none_if_one_cannot_be_parsed(
    session: Session, catalog: Catalog
) -> None:
    with pytest.raises(InvalidStatement):
        session.sql("CREATE TABLE a (x INT); CREATE TABLE b (")
    assert catalog.list_tables("db") == ()
    with pytest.raises(InvalidStatement):
        session.sql("CREATE TABLE a (x INT); INSERT INTO a VALUES (1, 2); CREATE TABLE b (x INT)")
    assert catalog.list_tables("db") == ("a",)


def test_the_text_of_a_statement_is_parsed_to_equal_values() -> None:
    text = "ALTER TABLE t DROP IF EXISTS PARTITION (a = -1, `b c` = X'00ff', d = NULL)"
    assert parse_statements(text) == parse_statements(text)
    (parsed,) = parse_statements(f"  {text} ; ")
    assert parsed.text == text


def test_a_duration_without_quotes_keeps_its_unit(session: Session) -> None:
    session.sql("SET folder.age = 7d; SET table-storage.snapshot.time-retained = 10s -- short")
    assert session.settings.age_ms == 7 * 86_400_000
    session.sql("CREATE TABLE t (id INT)")
    retained = session.catalog.table("db.t").schema.options["snapshot.time-retained"]
    assert retained == "10s"
    with pytest.raises(InvalidStatement, match="found '1d'; text needs quotes"):
        session.sql("ALTER TABLE t SET ('snapshot.time-retained' = 1d)")


def test_words_of_a_type_may_stand_apart(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (c DOUBLE   PRECISION   COMMENT 'x', PRIMARY   KEY (c) NOT ENFORCED)"
    )
    (field,) = session.catalog.table("db.t").schema.fields
    assert (str(field.type), field.description) == ("DOUBLE NOT NULL", "x")


def test_a_default_is_the_value_that_the_statement_says(session: Session) -> None:
    session.sql(
        """CREATE TABLE t (id INT, s STRING DEFAULT NULL, i INT DEFAULT NULL,
          b BYTES DEFAULT X'6162', q STRING DEFAULT '''x''', d DATE DEFAULT DATE '2024-01-31');
        INSERT INTO t (id) VALUES (1)"""
    )
    row = (1, None, None, b"ab", "'x'", dt.date(2024, 1, 31))
    assert rows_of(session, "SELECT * FROM t") == [row]
    statement = first_column(session.sql("SHOW CREATE TABLE t"))[0]
    session.sql(f"DROP TABLE t; {statement}; INSERT INTO t (id) VALUES (1)")
    assert rows_of(session, "SELECT * FROM t") == [row]
    session.sql("ALTER TABLE t ALTER COLUMN q SET DEFAULT NULL; ALTER TABLE t MODIFY b BYTES")
    session.sql("ALTER TABLE t MODIFY d DATE DEFAULT NULL")
    defaults = [each.default_value for each in session.catalog.table("db.t").schema.fields]
    assert defaults == [None, None, None, "ab", None, None]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE u (d DATE DEFAULT 20240131)", "default of DATE cannot be 20240131: write"),
        ("ALTER TABLE t ADD COLUMN e TIMESTAMP DEFAULT 1700000000", "a number is no moment"),
        ("ALTER TABLE t ALTER COLUMN d SET DEFAULT 20240131", "default of d DATE cannot be"),
        ("CREATE TABLE u (b BYTES DEFAULT X'ff')", "none in UTF-8"),
        ("ALTER TABLE t SET ('k' = NULL)", "the value of k is a text"),
    ],
)
def test_a_default_or_option_that_would_mean_another_value_is_refused(
    session: Session, statement: str, said: str
) -> None:
    session.sql("CREATE TABLE t (id INT, d DATE)")
    with pytest.raises(InvalidStatement, match=said):
        session.sql(statement)


def test_a_database_goes_with_its_tables_if_the_statement_says_so(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT); CREATE TABLE s (a INT); INSERT INTO t VALUES (1)")
    for wrong in ("DROP DATABASE db", "DROP SCHEMA IF EXISTS db RESTRICT"):
        with pytest.raises(InvalidRequestError, match=r"db has 2 tables: s, t; .* db CASCADE"):
            session.sql(wrong)
    folder = Path(session.catalog.root, "db.db", "notes")
    folder.mkdir()
    (folder / "a.txt").write_text("mine")
    with pytest.raises(InvalidRequestError, match="lie notes, which are no tables; nothing was"):
        session.sql("DROP DATABASE db CASCADE")
    assert rows_of(session, "SELECT a FROM t") == [(1,)]
    shutil.rmtree(folder)

    dropped = session.sql("DROP DATABASE db CASCADE")

    assert dropped.message == "database db is dropped, with s, t"
    assert session.catalog.list_databases() == ()
    with pytest.raises(InvalidStatement, match="t is in no database"):
        session.sql("SELECT a FROM t")
    assert session.sql("DROP DATABASE IF EXISTS db").facts["dropped"] is False
    with pytest.raises(DatabaseNotFound, match="no database db"):
        session.sql("DROP DATABASE db")


def test_a_table_is_created_in_a_database_that_exists(session: Session) -> None:
    with pytest.raises(DatabaseNotFound, match=r"no database shp, .* write CREATE DATABASE shp"):
        session.sql("CREATE TABLE shp.t (a INT)")
    assert session.catalog.list_databases() == ("db",)


def test_names_of_columns_are_shown_in_their_order(session: Session) -> None:
    session.sql("CREATE TABLE t (b INT, a STRING) PARTITIONED BY (dt STRING)")
    for text in ("SHOW COLUMNS IN t", "SHOW COLUMNS FROM db.t", "SHOW COLUMNS FROM t IN db"):
        assert first_column(session.sql(text)) == ["b", "a", "dt"]
    with pytest.raises(InvalidStatement, match=r"db\.t has a database already"):
        session.sql("SHOW COLUMNS FROM db.t IN db")
