"""Statements on partitions and tables, and what is refused."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from pathlib import Path

import pytest

from lakewright.session import Session
from lakewright.storage import Catalog, StorageError
from lakewright.storage.errors import (
    AlreadyExistsError,
    DatabaseNotFound,
    InvalidRequestError,
    InvalidStatement,
    UnsupportedError,
)
from lakewright.storage.sql import parse_statements
from tests.support.tables.fixtures import memory_catalog
from tests.support.tables.landed import land_days
from tests.unit.session.conftest import first_column, rows_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sql.md"


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


@pytest.mark.mission("SQ1", "SQ2", "SQ3", "SQ6", "SQ7", "SQ8", "SQ10", "SQ11", "SQ15", "SQ17")
@pytest.mark.mission("SQ18", "SQ19", "SQ20", "SQ22", "MT1", "MT2", "MT3", "MT4", "MT5", "MT6")
@pytest.mark.mission("MT7", "MT11", "MT12", "MT14", "BK2", "BK35", "BK36", "BK37", "RS15", "RS24")
def test_the_statements_of_the_documents_run_as_one_script(catalog: Catalog) -> None:
    session = Session(catalog)
    results = list(session.run((Path(__file__).parent / "documents.sql").read_text()))
    assert rows_of(session, "SELECT * FROM T ORDER BY a") == [
        ("a1", "b1", None), ("a2", "b2", "c2"),
    ]  # fmt: skip
    shown = [first_column(each) for each in results if each.statement.startswith("SHOW PART")]
    assert shown == [["date='2019-8-30',country='china'"], []]
    assert rows_of(session, "SELECT id, v FROM kept ORDER BY id") == [
        (1, "x2"), (2, "y"), (3, "zz"),
    ]  # fmt: skip
    assert not Path(catalog.root, "docs.db", "managed").exists()
    assert catalog.table("docs.PaimonTable").options.bucket_keys == ("user_id",)
    assert catalog.table("docs.MyTable4").options.bucket == 3


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


@pytest.mark.mission("PT68", "SQ12", "SQ13", "SQ21", "MT13")
def test_tables_partitions_and_columns_are_described(views: Session) -> None:
    views.sql("INSERT INTO country_page_view SELECT * FROM country_page_view_source")
    described = rows_of(views, "DESCRIBE country_page_view")
    assert [(each[0], each[3]) for each in described] == [
        ("user", ""), ("cnt", ""), ("date", "partition"), ("country", "partition"),
    ]  # fmt: skip
    facts = rows_of(views, "DESCRIBE EXTENDED country_page_view PARTITION (country='peru')")
    assert ("partition (country='peru')", "rows in files", "2") in facts
    detail = rows_of(views, "DESCRIBE DETAIL TABLE country_page_view PARTITION (country='peru')")
    day = "date='2019-8-30',country='peru'"
    assert [each[:2] for each in detail[:3]] == [(day, None), (day, 0), (day, 0)]
    assert [each[3:7] for each in detail[:2]] == [(1, 1, 1, 1), (None, 1, 1, 1)]
    assert [each[2] is None for each in detail] == [True, True, False] * 2
    assert all(each[2] is None for each in rows_of(views, "DESCRIBE DETAIL country_page_view"))
    table = views.catalog.table("db.country_page_view")
    assert table.at().detail("country = 'peru'").num_rows == len(detail)
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


@pytest.mark.mission("SQ1", "MT11")
def test_a_table_is_made_of_a_query(session: Session, catalog: Catalog) -> None:
    session.sql("CREATE TABLE s (id BIGINT NOT NULL, v STRING, dt STRING)")
    session.sql("INSERT INTO s VALUES (1, 'x', 'a'), (2, 'y', 'b'), (2, 'z', 'b')")
    told = session.sql("CREATE TABLE t PARTITIONED BY (dt) COMMENT 'c' AS SELECT * FROM s")
    assert told.message == "db.t is created, with 3 rows"
    table = catalog.table("db.t")
    assert (table.schema.partition_keys, table.schema.comment) == (("dt",), "c")
    assert str(table.schema.field("id").type) == "BIGINT"
    assert rows_of(session, "SHOW PARTITIONS t") == [("dt='a'",), ("dt='b'",)]
    session.sql(
        """CREATE TABLE k (PRIMARY KEY (id) NOT ENFORCED) AS SELECT id, v FROM s;
        CREATE TABLE o WITH ('primary-key' = 'id', bucket = 2) AS SELECT id, v FROM s"""
    )
    for name in "ko":
        assert rows_of(session, f"SELECT * FROM {name} ORDER BY id") == [(1, "x"), (2, "z")]
        assert catalog.table(f"db.{name}").schema.primary_keys == ("id",)
    again = session.sql("CREATE TABLE IF NOT EXISTS t AS SELECT id FROM s")
    assert again.message == "db.t exists already"
    with pytest.raises(StorageError):
        session.sql("CREATE TABLE n PARTITIONED BY (nope) AS SELECT id FROM s")
    with pytest.raises(InvalidStatement, match="AS gives the table the columns of its query"):
        session.sql("CREATE TABLE n (id INT) AS SELECT id FROM s")
    assert not catalog.table_exists("db.n")


def test_a_query_that_fails_leaves_no_table(session: Session, catalog: Catalog) -> None:
    session.sql("CREATE TABLE s (id BIGINT); INSERT INTO s VALUES (NULL)")
    with pytest.raises(StorageError):
        session.sql("CREATE TABLE t (PRIMARY KEY (id) NOT ENFORCED) AS SELECT id FROM s")
    with pytest.raises(StorageError):
        session.sql("CREATE TABLE t AS SELECT CAST(id AS VARCHAR) || nope FROM s")
    assert catalog.list_tables("db") == ("s",)


def test_tables_of_all_databases_are_shown_where_none_is_current(tmp_path: Path) -> None:
    session = Session(Catalog.open(str(tmp_path / "new")))
    told = session.sql("CREATE DATABASE a").message
    assert "/new was not there: it is made, with database a" in told
    assert session.sql("CREATE DATABASE b").message == "database b is there"
    session.sql("CREATE TABLE a.t (x INT); CREATE TABLE b.u (x INT)")
    assert rows_of(session, "SHOW TABLES") == [("a", "t"), ("b", "u")]
    assert rows_of(session, "SHOW TABLES LIKE 'u'") == [("b", "u")]
    session.sql("USE a")
    assert rows_of(session, "SHOW TABLES") == [("a", "t")]


@pytest.mark.mission("MT5")
def test_procedures_of_paimon_are_called_by_their_names(session: Session, catalog: Catalog) -> None:
    session.sql("CREATE TABLE t (id INT, dt STRING) PARTITIONED BY (dt)")
    for number in range(4):
        session.sql(f"INSERT INTO t VALUES ({number}, 'a'), ({number}, 'b')")
    session.sql("CALL sys.create_tag(`table` => 'db.t', tag => 'first', snapshot_id => 1)")
    session.sql("CALL sys.create_branch('t', 'b', 'first')")
    table = catalog.table("db.t")
    assert [each.snapshot.id for each in table.history.tags()] == [1]
    told = session.sql("CALL paimon.sys.compact('t', 'dt=a', '', '', '', '', '', 'full')")
    assert "files before 4, files after 1" in told.message
    assert [each.file_count for each in catalog.table("db.t").at().partitions()] == [1, 4]
    session.sql("CALL sys.rollback_to(`table` => 't', snapshot_id => 3)")
    assert rows_of(session, "SELECT count(*) FROM t") == [(6,)]
    session.sql(
        """CALL sys.expire_snapshots(table => 't', retain_max => 1, retain_min => 1,
        older_than => '2100-01-01 00:00:00');
        CALL sys.delete_tag('t', 'first'); CALL sys.drop_partition('t', 'dt=b')"""
    )
    assert rows_of(session, "SHOW PARTITIONS t") == [("dt='a'",)]
    assert "is done" in session.sql("CALL sys.remove_orphan_files('t', dry_run => true)").message


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CALL sys.compactt('t')", r"did you mean sys\.compact\?"),
        ("CALL sys.merge_into('t')", "write MERGE INTO"),
        ("CALL sys.create_tag('t', snapshots => 1)", "snapshots is no argument of sys.create_tag"),
        ("CALL sys.create_tag('t')", "needs the argument tag"),
        ("CALL sys.compact('t', options => 'a=b')", "set them on the table"),
        ("CALL compact('t')", r"write CALL sys\.compact"),
        ("CALL sys.compact(table => 't', 'dt=a')", "arguments behind table need a name"),
        ("CALL sys.compact('t', 'a')", "write 'dt=2024-01-31,hour=7'"),
    ],
)
def test_a_procedure_that_is_none_says_what_is(
    session: Session, statement: str, message: str
) -> None:
    session.sql("CREATE TABLE t (id INT, dt STRING) PARTITIONED BY (dt)")
    with pytest.raises(InvalidStatement, match=message):
        session.sql(statement)


@pytest.mark.mission("SQ1")
def test_columns_that_are_not_stored_and_the_watermark_are_kept_as_flink_keeps_them(
    session: Session, catalog: Catalog
) -> None:
    session.sql(
        """CREATE TABLE t (id BIGINT, price DOUBLE, cost AS price * 2, ts TIMESTAMP(3),
        `day` AS CAST(ts AS DATE), origin STRING METADATA FROM 'topic' VIRTUAL, p AS PROCTIME(),
        WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"""
    )
    schema = catalog.table("db.t").schema
    assert schema.field_names == ("id", "price", "ts")
    assert {name: value for name, value in schema.options.items() if "schema." in name} == {
        "schema.2.name": "cost", "schema.2.data-type": "DOUBLE", "schema.2.expr": "price * 2",
        "schema.4.name": "day", "schema.4.data-type": "DATE",
        "schema.4.expr": "CAST(ts AS DATE)", "schema.5.name": "origin",
        "schema.5.data-type": "STRING", "schema.5.metadata": "topic", "schema.5.virtual": "true",
        "schema.6.name": "p", "schema.6.data-type": "TIMESTAMP_LTZ(3) NOT NULL",
        "schema.6.expr": "PROCTIME()", "schema.watermark.0.rowtime": "ts",
        "schema.watermark.0.strategy.expr": "ts - INTERVAL '5' SECOND",
        "schema.watermark.0.strategy.data-type": "TIMESTAMP(3)",
    }  # fmt: skip
    (text,) = first_column(session.sql("SHOW CREATE TABLE t"))
    assert "cost AS price * 2,\n" in str(text)
    session.sql(f"DROP TABLE t; {text}")
    assert catalog.table("db.t").schema.options == schema.options
    session.sql("INSERT INTO t VALUES (1, 2.5, TIMESTAMP '2024-01-31 12:00:00')")
    found = rows_of(session, "SELECT * FROM t WHERE cost > 4")
    moment = dt.datetime(2024, 1, 31, 12)
    assert found == [(1, 2.5, 5.0, moment, moment.date())]
    assert rows_of(session, "SELECT max(day) FROM t") == [(moment.date(),)]
    with pytest.raises(StorageError, match="price"):
        session.sql("ALTER TABLE t DROP COLUMN price")
    session.sql("ALTER TABLE t RENAME COLUMN price TO paid; INSERT INTO t (id, paid) VALUES (1, 2)")
    assert catalog.table("db.t").schema.options["schema.2.expr"] == "paid * 2"


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


@pytest.mark.mission("BK34", "BK35", "MT2", "MT3", "MT4", "SQ22")
def test_defaults_of_a_catalog_and_settings_become_options_of_new_tables(tmp_path: Path) -> None:
    defaults = {"table-default.bucket": "1", "table-default.file.format": "orc"}
    catalog = Catalog.open(str(tmp_path), options=defaults)
    session = Session(catalog)
    session.sql("CREATE DATABASE db; USE db; CREATE TABLE a (x INT) WITH ('bucket-key' = 'x')")
    session.sql("SET table-storage.bucket = 10; CREATE TABLE b (x INT) WITH ('bucket-key' = 'x')")
    session.sql("CREATE TABLE c (x INT) WITH (bucket = 3, 'bucket-key' = 'x')")
    made = {name: catalog.table(f"db.{name}").schema.options for name in "abc"}
    assert [made[each]["bucket"] for each in "abc"] == ["1", "10", "3"]
    assert {made[each]["file.format"] for each in "abc"} == {"orc"}
    session.sql("CREATE TABLE d (x INT); INSERT INTO d VALUES (1)")
    assert catalog.table("db.d").options.bucket == -1


def test_a_table_gets_other_partition_keys(session: Session, catalog: Catalog) -> None:
    session.sql(
        """CREATE TABLE t (id INT, a STRING, b INT) PARTITIONED BY (a);
        INSERT INTO t (id, b, a) VALUES (1, 2, 'x'), (2, 3, 'y'), (3, 3, 'x')"""
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


@pytest.mark.mission("SQ18", "MT14", "MT15")
def test_a_table_gets_a_primary_key(session: Session, catalog: Catalog) -> None:
    session.sql("CREATE TABLE t (id INT, a STRING); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    told = session.sql("ALTER TABLE t ADD PRIMARY KEY (id) NOT ENFORCED")
    assert told.message == "db.t has the primary key id, with 2 rows"
    session.sql("INSERT INTO t VALUES (2, 'z')")
    assert rows_of(session, "SELECT * FROM t ORDER BY id") == [(1, "x"), (2, "z")]
    session.sql("CREATE TABLE u (id INT); INSERT INTO u VALUES (1), (1)")
    with pytest.raises(InvalidRequestError, match=r"more than once, such as \(1\) in 2 rows"):
        session.sql("ALTER TABLE u ADD PRIMARY KEY (id) NOT ENFORCED")
    assert not catalog.table("db.u").schema.has_primary_key


@pytest.mark.mission("SQ15")
def test_a_table_in_a_local_folder_gets_another_name(session: Session, catalog: Catalog) -> None:
    session.sql(
        """CREATE TABLE t (id INT, a STRING, b STRING) PARTITIONED BY (a); CREATE TABLE v (x INT);
        INSERT INTO t (id, b, a) VALUES (1, 'x', 'p'), (2, 'y', 'p'); CREATE DATABASE other"""
    )
    session.sql("ALTER TABLE t PARTITIONED BY (a, b)")
    before = catalog.table("db.t")
    with pytest.raises(UnsupportedError, match="lakewright settle"):
        session.sql("ALTER TABLE t RENAME TO other.u")
    before.upkeep.settle()
    told = session.sql("ALTER TABLE t RENAME TO other.u")
    assert told.message == "db.t is other.u now"
    assert rows_of(session, "SELECT id FROM other.u WHERE b = 'x' ORDER BY id") == [(1,)]
    assert catalog.list_tables("db") == ("v",)
    with pytest.raises(StorageError):
        before.write({"id": [3], "a": ["z"], "b": ["q"]})
    for to, error in (("v", AlreadyExistsError), ("nope.t", DatabaseNotFound)):
        with pytest.raises(error):
            session.sql(f"ALTER TABLE other.u RENAME TO {to}")
    catalog.drop_table("other.u")


def test_a_table_of_another_store_keeps_its_name() -> None:
    catalog = memory_catalog()
    session = Session(catalog)
    session.sql("CREATE DATABASE db; CREATE TABLE db.t (id INT)")
    with pytest.raises(UnsupportedError, match="create one LIKE it and INSERT INTO it"):
        session.sql("ALTER TABLE db.t RENAME TO db.u")
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
        ("CREATE TABLE v (u INT, w AS f(u))", "line 1, column 26: the type of w is not known"),
        (
            "CREATE TABLE v (u INT, WATERMARK FOR u AS u)",
            "24: a watermark is of a TIMESTAMP",
        ),
        ("ALTER TABLE v ADD COLUMN w INT AS (u)", "CREATE TABLE alone declares such columns"),
        ("ALTER TABLE v DROP PRIMARY KEY", "create a table without it"),
        ("ALTER TABLE v PARTITION (d=1) SET 'bucket'='3'", "of the whole table"),
        ("ALTER TABLE v DROP PARTITION d=1", r"a partition is named by its values: PARTITION \("),
        ("ALTER TABLE v DROP PARTITION (d > 1)", "`lakewright drop-partitions` and .* by --where"),
        ("ALTER TABLE v DROP PARTITION (d IN (1, 2))", "'IN' is a filter, which no partition cl"),
        ("CREATE TABLE w (u INT) PARTITIONED BY ()", "leave it out for a table without partitio"),
        ("SHOW TABLES;\nSELECT *\nFROM WHERE", "line 3, column 6: the query cannot be parsed"),
        ("SELECT * FROM a.b.c", "the warehouse is the catalog"),
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
    ("statement", "said"),
    [
        ("VACUUM t", "CALL sys.expire_snapshots"),
        ("OPTIMIZE t ZORDER BY (a)", "ALTER TABLE t COMPACT 'major'"),
        ("DESCRIBE HISTORY t", r"SELECT \* FROM `t\$snapshots`"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "keep no views"),
        ("CREATE OR REPLACE TABLE v AS SELECT 1", "DROP TABLE IF EXISTS t, then CREATE TABLE"),
        ("SHOW TBLPROPERTIES t", r"`t\$options`"),
        ("USE CATALOG paimon", "write USE database"),
        ("COPY t TO 'x.csv'", "lakewright read t --output FILE"),
        ("BEGIN", "each statement is a commit of its own"),
        ("SELCT 1", r"line 1, column 1: 'SELCT' begins no statement; did you mean SELECT\?"),
    ],
)
def test_statements_of_other_systems_name_ours(session: Session, statement: str, said: str) -> None:
    with pytest.raises(InvalidStatement, match=said):
        session.sql(statement)


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
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

    assert dropped.message == "database db is dropped permanently, with s, t"
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
