"""External tables in SQL: defined without a look, read and written by their connectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.managed import ManagedTables
from lakewright.connectors.model.notification import TableNotification
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan, source_of
from lakewright.connectors.sources import LookupTableSource
from lakewright.session import Session
from lakewright.session.compiled import CompiledPlan
from lakewright.storage import Catalog
from lakewright.storage.errors import (
    AlreadyExistsError,
    CorruptionError,
    InvalidOption,
    InvalidRequestError,
    InvalidRows,
    InvalidStatement,
    NotFoundError,
    StalePlan,
    UnsupportedError,
)
from tests.unit.connectors.doubles import MEMORY, BucketedSink, Memory, MemorySink
from tests.unit.session.conftest import rows_of

_NUMBERS = """
CREATE TABLE numbers (id BIGINT, word STRING, twice AS id * 2) WITH (
  'connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
  'fields.id.end' = '5', 'fields.word.length' = '2')
"""


@pytest.fixture(autouse=True)
def _memory() -> Iterator[None]:
    MEMORY.clear()
    yield
    MEMORY.clear()


@pytest.mark.parametrize("path", ["in", "in/**", "in/*/*", "in/**/*.csv"])
def test_files_in_folders_below_a_path_are_read(
    session: Session, tmp_path: Path, path: str
) -> None:
    for number, name in enumerate(("2024/01/a.csv", "day=1/b.csv", ".tmp/c.csv", "x/.d.csv")):
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n")
    session.sql(
        "CREATE TABLE e (id INT) WITH ('connector' = 'filesystem', 'format' = 'csv', "
        f"'path' = '{tmp_path}/{path}')"
    )
    assert rows_of(session, "SELECT id FROM e ORDER BY id") == [(0,), (1,)]


def test_an_overwrite_replaces_files_in_folders_below(session: Session, tmp_path: Path) -> None:
    nested = tmp_path / "day=1/part/a.csv"
    nested.parent.mkdir(parents=True)
    nested.write_text("1\n")
    session.sql(
        "CREATE TABLE e (id INT, day INT) PARTITIONED BY (day) WITH ("
        f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}')"
    )
    assert rows_of(session, "SELECT id, day FROM e") == [(1, 1)]
    session.sql("INSERT OVERWRITE e PARTITION (day = 1) VALUES (2)")
    assert rows_of(session, "SELECT id, day FROM e") == [(2, 1)]
    assert not nested.exists()


@pytest.mark.mission("CN1", "CN5", "CN6", "CT9")
def test_a_definition_changes_the_catalog_alone_and_is_looked_at_when_it_is_used(
    session: Session, tmp_path: Path
) -> None:
    session.sql("""
        CREATE TABLE t (id BIGINT) COMMENT 'of nobody' WITH (
          'connector' = 'not-installed', 'port' = 'not a number', 'path' = '/nowhere')
    """)
    assert rows_of(session, "SHOW TABLES") == [("db", "t")]
    assert rows_of(session, "SHOW COLUMNS FROM t") == [("id",)]
    statement = rows_of(session, "SHOW CREATE TABLE t")[0][0]
    with pytest.raises(NotFoundError, match="no installed package brings connector 'not-inst"):
        session.sql("SELECT * FROM t")
    session.sql("ALTER TABLE t SET ('connector' = 'datagen'); ALTER TABLE t RESET ('path')")
    with pytest.raises(InvalidOption, match=r"connector datagen of db.t has no option port"):
        session.sql("SELECT * FROM t")
    session.sql("DROP TABLE t")
    assert rows_of(session, "SHOW TABLES") == []
    assert isinstance(statement, str)
    session.sql(statement)
    assert rows_of(session, "SHOW CREATE TABLE t")[0][0] == statement


def test_other_clients_take_no_definition_for_a_table(session: Session) -> None:
    session.sql(_NUMBERS)
    catalog = session.catalog
    assert catalog.list_tables("db") == ()
    assert catalog.list_databases() == ("db",)
    assert [each.name for each in catalog.fs.list_dir(f"{catalog.root}/db.db")] == []


@pytest.mark.mission("CN8", "CN9", "CN12", "CN23")
def test_rows_of_a_source_are_queried_as_those_of_a_table(session: Session) -> None:
    session.sql(_NUMBERS)
    assert rows_of(session, "SELECT id, twice FROM numbers WHERE id > 3") == [(4, 8), (5, 10)]
    assert rows_of(session, "SELECT count(*), sum(twice) FROM numbers") == [(5, 30)]
    session.sql("CREATE TABLE kept AS SELECT * FROM numbers")
    joined = "SELECT count(*) FROM numbers n JOIN kept k ON n.id = k.id AND n.word = k.word"
    assert rows_of(session, joined) == [(5,)]
    told = dict(rows_of(session, "EXPLAIN SELECT word FROM numbers"))
    assert "ProjectionPushDown(columns=('word',))" in str(told.values())


@pytest.mark.mission("CN15", "CN28", "CN30")
def test_rows_of_a_query_are_written_by_a_sink(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    session.sql(_NUMBERS)
    session.sql("""
        CREATE TABLE shown (id BIGINT, word STRING) WITH (
          'connector' = 'print', 'print-identifier' = 'p')
    """)
    told = session.sql("INSERT INTO shown (id) SELECT id FROM numbers WHERE id < 3")
    assert told.message == "2 rows written into db.shown"
    assert capsys.readouterr().out == "p> +I[1, null]\np> +I[2, null]\n"
    session.sql("CREATE TABLE nothing (id BIGINT) WITH ('connector' = 'blackhole')")
    assert session.sql("INSERT INTO nothing SELECT id FROM numbers").facts["rows"] == 5
    with pytest.raises(NotFoundError, match="print of lakewright has no source"):
        session.sql("SELECT * FROM shown")


def test_create_table_as_leaves_no_definition_behind_a_failure(session: Session) -> None:
    session.sql(_NUMBERS)
    with pytest.raises(InvalidRequestError):
        session.sql("""
            CREATE TABLE copy WITH ('connector' = 'jdbc', 'url' = 'sqlite:////no/such/folder/x',
              'table-name' = 't') AS SELECT id FROM numbers
        """)
    assert rows_of(session, "SHOW TABLES") == [("db", "numbers")]


@pytest.mark.mission("CN29")
def test_create_table_as_makes_the_table_of_a_database_with_its_first_rows(
    session: Session, tmp_path: Path
) -> None:
    session.sql(_NUMBERS)
    options = f"'connector' = 'jdbc', 'url' = 'sqlite:///{tmp_path}/made.db'"
    told = session.sql(f"""
        CREATE TABLE made WITH ({options}, 'table-name' = 'numbers') AS
        SELECT id, word, CAST(id AS DECIMAL(30, 5)) AS exact, id > 2 AS late FROM numbers
    """)
    assert told.message == "db.made is defined, with 5 rows"
    assert rows_of(session, "SELECT id, exact, late FROM made WHERE id > 4") == [
        (5, Decimal("5.00000"), True)
    ]
    with pytest.raises(InvalidRequestError, match="already exists"):
        session.sql(f"""
            CREATE TABLE again WITH ({options}, 'table-name' = 'numbers') AS SELECT 1 AS id
        """)
    assert rows_of(session, "SELECT count(*) FROM made") == [(5,)]
    with pytest.raises(UnsupportedError, match="a column of ARRAY<INT>"):
        session.sql(f"""
            CREATE TABLE lists WITH ({options}, 'table-name' = 'lists') AS SELECT [1, 2] AS l
        """)


@pytest.mark.mission("CN47", "CN48", "CN49", "CN50", "CN51")
def test_the_older_names_of_the_file_system_connector_are_read(
    session: Session, tmp_path: Path
) -> None:
    session.sql(f"""
        CREATE TABLE views (user STRING, cnt INT, `date` STRING, country STRING)
        PARTITIONED BY (`date`, country) WITH (
          'connector.type' = 'filesystem', 'connector.path' = '{tmp_path}/views',
          'format.type' = 'csv', 'update-mode' = 'append', 'partition-support' = 'true');
        INSERT INTO views PARTITION (`date` = '2019-8-30', country = 'china') VALUES ('ann', 3);
        INSERT INTO views VALUES ('bob', 5, '2019-8-30', 'peru');
        INSERT OVERWRITE views PARTITION (`date` = '2019-8-30', country = 'china')
          VALUES ('eve', 8)
    """)
    assert rows_of(session, "SELECT * FROM views ORDER BY cnt") == [
        ("bob", 5, "2019-8-30", "peru"),
        ("eve", 8, "2019-8-30", "china"),
    ]
    folders = sorted(each.name for each in (tmp_path / "views" / "date=2019-8-30").iterdir())
    assert folders == ["country=china", "country=peru"]
    told = rows_of(session, "EXPLAIN SELECT user FROM views WHERE country = 'peru'")
    assert ("connector", f"db.views: filesystem of {tmp_path}/views: csv") in told
    session.sql("""
        CREATE TABLE hive LIKE views;
        ALTER TABLE hive SET ('format.type' = 'hive-text')
    """)
    with pytest.raises(InvalidRows):
        session.sql("SELECT * FROM hive")


def test_a_table_of_files_knows_its_files(session: Session, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n2\n")
    (tmp_path / "in" / "b.csv").write_text("3\n")
    (tmp_path / "in" / "c.txt").write_text("4\n")
    session.sql(f"""
        CREATE TABLE files (id BIGINT, name STRING METADATA FROM 'file.name' VIRTUAL,
          size BIGINT METADATA FROM 'file.size') WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/in/*.csv', 'format' = 'csv')
    """)
    assert rows_of(session, "SELECT * FROM files ORDER BY id") == [
        (1, "a.csv", 4),
        (2, "a.csv", 4),
        (3, "b.csv", 2),
    ]
    with pytest.raises(UnsupportedError, match="into which no file can be written"):
        session.sql("INSERT INTO files (id) VALUES (1)")
    with pytest.raises(UnsupportedError, match="metadata 'nope', which filesystem"):
        session.sql(f"""
            CREATE TABLE others (id BIGINT, x STRING METADATA FROM 'nope') WITH (
              'connector' = 'filesystem', 'path' = '{tmp_path}/in/a.csv', 'format' = 'csv');
            SELECT * FROM others
        """)


def test_a_damaged_file_is_named_with_its_line(session: Session, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"id": 1}\n{"id": "x"}\n')
    session.sql(f"""
        CREATE TABLE bad (id BIGINT) WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/bad.json', 'format' = 'json')
    """)
    with pytest.raises(InvalidRows, match=r"bad\.json: line 2: column id is BIGINT"):
        session.sql("SELECT * FROM bad")


def arrow_of_one_column() -> pa.Table:
    """What the connector `python` calls."""
    return pa.table({"id": [1]})


def failing_rows() -> Iterator[dict[str, int]]:
    """The same; it fails behind more rows than are written at once."""
    yield from ({"id": at} for at in range(40_000))
    raise ConnectionError("the service hung up")


def test_an_upsert_that_changes_a_key_leaves_no_old_row(session: Session, tmp_path: Path) -> None:
    old, new = {"id": 1, "n": "a"}, {"id": 2, "n": "a"}
    events = [
        {"before": None, "after": old, "op": "c"},
        {"before": {"id": 1, "n": None}, "after": new, "op": "u"},
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("".join(json.dumps(each) + "\n" for each in events))
    columns = "id INT, n STRING, PRIMARY KEY (id) NOT ENFORCED"
    session.sql(f"""
        CREATE TABLE src ({columns}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in',
          'format' = 'debezium-json', 'debezium-json.updates' = 'upsert');
        CREATE TABLE kept ({columns}) WITH ('bucket' = '1');
        INSERT INTO kept SELECT * FROM src
    """)
    assert rows_of(session, "SELECT * FROM kept") == [(2, "a")]


def test_a_function_that_lacks_a_column_or_fails_leaves_no_row(session: Session) -> None:
    session.sql(f"""
        CREATE TABLE lacking (id BIGINT, name STRING) WITH (
          'connector' = 'python', 'function' = '{__name__}:arrow_of_one_column');
        CREATE TABLE failing (id BIGINT) WITH (
          'connector' = 'python', 'function' = '{__name__}:failing_rows');
        CREATE TABLE kept (id BIGINT)
    """)
    with pytest.raises(InvalidRows, match=r"db\.lacking: the function gives id, without name"):
        session.sql("SELECT * FROM lacking")
    with pytest.raises(Exception, match="the service hung up"):
        session.sql("INSERT INTO kept SELECT id FROM failing")
    assert rows_of(session, "SELECT * FROM kept") == []
    assert session.catalog.table("db.kept").history.latest_snapshot() is None


def test_a_secret_is_not_kept_in_a_definition(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "CREATE TABLE t (id INT) WITH ('connector' = 'jdbc', '{}' = '{}')"
    for name, value in (
        ("password", "hunter2"),
        ("url", "postgresql://me:hunter2@host/db"),
        ("header.Authorization", "Bearer hunter2"),
    ):
        with pytest.raises(InvalidOption, match=r"\$\{env:") as told:
            session.sql(text.format(name, value))
        assert "hunter2" not in told.value.message
    session.sql("""
        CREATE TABLE t (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '${env:ROWS}')
    """)
    with pytest.raises(InvalidOption, match="environment variable ROWS, which is not set"):
        session.sql("SELECT * FROM t")
    monkeypatch.setenv("ROWS", "3")
    assert rows_of(session, "SELECT count(*) FROM t") == [(3,)]


def test_temporary_tables_go_with_their_session(session: Session) -> None:
    session.sql(_NUMBERS)
    session.sql("""
        CREATE TEMPORARY TABLE numbers (x BIGINT) WITH (
          'connector' = 'datagen', 'number-of-rows' = '2');
        CREATE TEMPORARY TABLE mine (id BIGINT);
        INSERT INTO mine VALUES (1)
    """)
    assert rows_of(session, "SELECT count(x) FROM numbers") == [(2,)]
    assert rows_of(session, "SELECT * FROM mine") == [(1,)]
    other = Session(Catalog.open(session.catalog.uri))
    other.sql("USE db")
    assert rows_of(other, "SHOW TABLES") == [("db", "numbers")]
    session.close()
    assert rows_of(session, "SHOW TABLES") == [("db", "numbers")]
    assert rows_of(session, "SELECT count(id) FROM numbers") == [(5,)]


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM numbers WHERE id = 1",
        "UPDATE numbers SET id = 1 WHERE id = 2",
        "ALTER TABLE numbers COMPACT",
        "SHOW PARTITIONS numbers",
        "ALTER TABLE numbers ADD PRIMARY KEY (id) NOT ENFORCED",
        "ALTER TABLE numbers ADD COLUMN x INT",
    ],
)
def test_what_needs_files_of_ours_is_refused(session: Session, text: str) -> None:
    session.sql(_NUMBERS)
    with pytest.raises(UnsupportedError, match="external table"):
        session.sql(text)


def test_names_of_both_kinds_of_tables_are_one_space(session: Session) -> None:
    session.sql(_NUMBERS)
    with pytest.raises(AlreadyExistsError, match=r"db.numbers is an external table"):
        session.sql("CREATE TABLE numbers (id BIGINT)")
    session.sql("CREATE TABLE kept (id BIGINT)")
    with pytest.raises(AlreadyExistsError, match=r"db.kept exists already"):
        session.sql("CREATE TABLE kept (id BIGINT) WITH ('connector' = 'print')")
    assert session.sql("CREATE TABLE IF NOT EXISTS numbers (id INT) WITH ('connector' = 'print')")
    session.sql("ALTER TABLE numbers RENAME TO digits")
    assert rows_of(session, "SHOW TABLES") == [("db", "digits"), ("db", "kept")]


# --- distributions, plans -------------------------------------------------------------------------


@pytest.fixture
def memory(session: Session) -> Session:
    session.catalog = replace(session.catalog, factories=(Memory(sink=BucketedSink),))
    session.sql("""
        CREATE TABLE m (id BIGINT, name STRING) DISTRIBUTED BY HASH (id) INTO 4 BUCKETS
          WITH ('connector' = 'memory', 'place' = 'here')
    """)
    return session


@pytest.mark.mission("BK4", "BK21", "BK33", "CN18")
def test_a_distribution_is_kept_and_shown(memory: Session) -> None:
    statement = str(rows_of(memory, "SHOW CREATE TABLE m")[0][0])
    assert "DISTRIBUTED BY HASH (id) INTO 4 BUCKETS" in statement
    memory.sql("INSERT INTO m VALUES (1, 'a')")
    assert rows_of(memory, "SELECT * FROM m") == [(1, "a")]


@pytest.mark.mission("BK27", "BK33")
def test_a_compiled_plan_holds_as_long_as_its_tables_and_abilities(memory: Session) -> None:
    memory.sql(_NUMBERS)
    plan = memory.compile("INSERT INTO m SELECT id, word FROM numbers WHERE id > 3")
    kept = CompiledPlan.from_json(plan.to_json())
    found = {each.name: [ability["type"] for ability in each.abilities] for each in kept.tables}
    assert found == {"db.numbers": [], "db.m": ["Bucketing"]}
    assert MEMORY == {}
    assert [each.message for each in memory.run_compiled(kept)] == ["2 rows written into db.m"]
    assert [row["id"] for row in MEMORY["here"]] == [4, 5]

    able = memory.catalog
    memory.catalog = replace(able, factories=(Memory(sink=MemorySink),))
    with pytest.raises(UnsupportedError, match=r"SupportsBucketing.*plan the statement again"):
        memory.run_compiled(kept)
    memory.catalog = able
    memory.sql("ALTER TABLE m SET ('place' = 'there')")
    with pytest.raises(StalePlan, match=r"db.m was changed since the plan was compiled"):
        memory.run_compiled(kept)
    assert len(MEMORY["here"]) == 2
    with pytest.raises(InvalidStatement, match="SELECT and INSERT can be compiled"):
        memory.compile("DROP TABLE m")


def test_an_edited_plan_is_refused(memory: Session) -> None:
    memory.sql(_NUMBERS)
    memory.sql("CREATE TABLE kept (id BIGINT)")
    plan = memory.compile("INSERT INTO m SELECT id, word FROM numbers WHERE id > 3")
    written = json.loads(plan.to_json())

    def run(**changed: Any) -> None:
        memory.run_compiled(CompiledPlan.from_json(json.dumps({**written, **changed})))

    for changed in ({"version": 2}, {"tables": [3]}, {"settings": [1]}, {"tables": None}):
        with pytest.raises(CorruptionError, match="the compiled plan cannot be read"):
            run(**changed)
    numbers, m = written["tables"]
    for ability in (
        {"type": "Flying"},
        {"type": "Bucketing", "kind": "HASH"},
        {"type": "Bucketing", "kind": "ROUND", "bucket_count": 4, "bucket_keys": ["id"]},
    ):
        with pytest.raises(CorruptionError, match=r"db\.m"):
            run(tables=[numbers, {**m, "abilities": [ability]}])
    for others in ([numbers], [m], []):
        with pytest.raises(CorruptionError, match=r"writes db\.m, db\.numbers; compile it again"):
            run(tables=others)
    with pytest.raises(InvalidStatement, match="SELECT and INSERT can be compiled"):
        run(statement="DROP TABLE kept")
    assert memory.catalog.table_exists("db.kept")
    assert MEMORY == {}


# --- managed tables -------------------------------------------------------------------------------


class _Listening(ManagedTables):
    """A factory of managed tables that is told of each, and may refuse."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, bool]] = []

    def on_table_creation(self, notification: TableNotification) -> dict[str, str]:
        self.told.append(("create", notification.name, notification.is_temporary))
        if "refused" in notification.name:
            raise InvalidRequestError("no such tables here")
        found = notification.copy({"bucket": "3", **notification.table.options})
        assert found.configuration == notification.configuration
        assert found.registry is not None
        return dict(found.table.options)

    def on_table_drop(self, notification: TableNotification) -> None:
        self.told.append(("drop", notification.name, notification.is_temporary))
        if "kept" in notification.name:
            raise InvalidRequestError("it is kept")


@pytest.mark.mission("CN54", "CN55", "CN56", "CT10", "RS26")
def test_the_factory_of_managed_tables_is_told_before_they_are_made_and_dropped(
    session: Session,
) -> None:
    listening = _Listening()
    session.catalog = replace(session.catalog, factories=(listening,))
    session.sql("""
        CREATE TABLE t (id BIGINT NOT NULL, PRIMARY KEY (id) NOT ENFORCED);
        CREATE TABLE kept (id BIGINT NOT NULL, PRIMARY KEY (id) NOT ENFORCED)
          WITH ('bucket' = '5');
        CREATE TEMPORARY TABLE own (id BIGINT NOT NULL, PRIMARY KEY (id) NOT ENFORCED)
    """)
    options = [
        session.catalog.table(f"db.{name}").schema.options["bucket"] for name in ("t", "kept")
    ]
    assert options == ["3", "5"]
    with pytest.raises(InvalidRequestError, match="no such tables here"):
        session.sql("CREATE TABLE refused (id BIGINT)")
    assert not session.catalog.table_exists("db.refused")
    session.sql("DROP TABLE t; DROP TABLE own")
    with pytest.raises(InvalidRequestError, match="it is kept"):
        session.sql("DROP TABLE kept")
    assert session.catalog.table_exists("db.kept")
    assert listening.told == [
        ("create", "db.t", False),
        ("create", "db.kept", False),
        ("create", "db.own", True),
        ("create", "db.refused", False),
        ("drop", "db.t", False),
        ("drop", "db.own", True),
        ("drop", "db.kept", False),
    ]


@pytest.mark.mission("MT1", "MT2", "MT3", "MT4", "CN52", "RS27")
def test_a_table_without_a_connector_is_managed_and_needs_no_option(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT NOT NULL, n STRING, PRIMARY KEY (id) NOT ENFORCED)")
    folder = session.catalog.table("db.t").table_files.paths.root
    assert session.catalog.fs.list_dir(f"{folder}/schema")
    context = ExternalTables(session.catalog).managed_context("db.t")
    assert context.connector == "_default"
    plan_write(context, WriteRequest()).write([])
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    planned = plan_scan(context, ScanRequest(("n",), limit=1))
    assert sum(piece.num_rows for piece in planned.rows()) == 1
    session.sql("DROP TABLE t PURGE")
    assert not session.catalog.fs.list_tree(folder)


@pytest.mark.mission("CN24", "CN25", "RS21")
def test_a_managed_table_is_looked_up_by_its_key(session: Session) -> None:
    import pyarrow as pa

    session.sql("""
        CREATE TABLE t (id BIGINT NOT NULL, n STRING, PRIMARY KEY (id) NOT ENFORCED);
        INSERT INTO t VALUES (1, 'a'), (2, 'b')
    """)
    source = source_of(ExternalTables(session.catalog).managed_context("db.t"))
    assert isinstance(source, LookupTableSource)
    lookup: Any = source.lookup(["id"])
    assert lookup.lookup(pa.table({"id": [2, 9]})).to_pylist() == [{"id": 2, "n": "b"}]
    session.sql("INSERT INTO t VALUES (9, 'late')")
    assert lookup.lookup(pa.table({"id": [9]})).to_pylist() == [{"id": 9, "n": "late"}]
    assert [*source.lookup_keys(["n", "id"])] == ["id"]
    assert [*source.lookup_keys(["n"])] == []


def test_a_definition_that_is_damaged_is_named(session: Session) -> None:
    session.sql(_NUMBERS)
    catalog = session.catalog
    place = f"{catalog.root}/.lakewright/external/db/numbers.json"
    assert json.loads(catalog.fs.read_bytes(place))["options"]["connector"] == "datagen"
    catalog.fs.replace(place, b"{")
    with pytest.raises(Exception, match=r"definition of db.numbers cannot be read"):
        session.sql("SELECT * FROM numbers")
    session.sql("CREATE TABLE t (id INT)")
    assert rows_of(session, "SHOW TABLES") == [("db", "numbers"), ("db", "t")]
