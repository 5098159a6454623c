"""A catalog whose names are rows of a database: what it lists, and what a death leaves."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import (
    AlreadyExistsError,
    DatabaseNotFound,
    InvalidRequestError,
    InvalidSchema,
    NotWritten,
    TableNotFound,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.catalog_names import DatabaseNames
from lakewright.storage.files.row_lock import RowLock
from tests.support.tables.builders import EVENTS, content, events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.landed import LANDED, land_days

Made = dict[str, str]


@pytest.fixture
def options(tmp_path: Path) -> Made:
    return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db"}


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return str(tmp_path / "warehouse")


@pytest.fixture
def catalog(warehouse: str, options: Made) -> Catalog:
    return Catalog.open(warehouse, options=options, durable=False)


def rows_of(options: Made, table: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(options["uri"].removeprefix("jdbc:sqlite:")) as connection:
        return sorted(connection.execute(f"SELECT * FROM {table}"))


@pytest.mark.mission("CT11")
def test_databases_and_tables_are_rows_and_their_files_lie_as_always(
    catalog: Catalog, warehouse: str, options: Made
) -> None:
    table = new_table(catalog, EVENTS, keys=["id"], options={"bucket": "2"})
    table.write(rows(table, events(0, 3)))
    assert rows_of(options, "paimon_tables") == [("jdbc", "db", "t")]
    assert rows_of(options, "paimon_database_properties") == [
        ("jdbc", "db", "exists", "true"),
        ("jdbc", "db", "location", f"{warehouse}/db.db"),
    ]
    properties = {key: value for *_, key, value in rows_of(options, "paimon_table_properties")}
    assert properties["primary-key"] == properties["bucket-key"] == "id"
    assert properties["bucket"] == "2"
    assert catalog.list_databases() == ("db",)
    assert catalog.list_tables("db") == ("t",)
    plain = Catalog.open(warehouse)
    assert content(plain.table("db.t")) == content(catalog.table("db.t"))
    other = Catalog.open(warehouse, options={**options, "catalog-key": "other"})
    assert other.list_databases() == ()
    with pytest.raises(TableNotFound, match="does not list it"):
        other.table("db.t")
    with pytest.raises(AlreadyExistsError, match="exists already in catalog"):
        new_table(catalog, EVENTS)
    with pytest.raises(InvalidRequestError, match="not empty: t"):
        catalog.drop_database("db")
    catalog.drop_table("db.t")
    assert rows_of(options, "paimon_tables") == []
    catalog.undrop_table("db.t")
    assert catalog.table_exists("db.t")
    catalog.drop_table("db.t", grace_ms=0)
    assert not catalog.table_exists("db.t")
    catalog.drop_database("db")
    assert not Path(warehouse, "db.db").exists()
    assert rows_of(options, "paimon_table_properties") == []
    assert catalog.list_databases() == ()


@pytest.mark.mission("CT11")
def test_variables_open_it_without_a_word_in_the_code(
    catalog: Catalog, warehouse: str, options: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_table(catalog, EVENTS)
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_METASTORE", "jdbc")
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_URI", options["uri"])
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_KEY", "another")
    opened = Catalog.open(warehouse)
    assert isinstance(opened.listed, DatabaseNames)
    assert opened.list_databases() == ()
    with Catalog.temporary() as session:
        assert session.listed is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"uri": "sqlite:///x"}, "needs metastore jdbc and a uri"),
        ({"uri": "sqlite:///x"}, "LAKEWRIGHT_CATALOG_METASTORE and LAKEWRIGHT_CATALOG_URI"),
        ({"metastore": "jdbc"}, "uri is not given"),
        ({"metastore": "rest"}, "uri is not given"),
        ({"metastore": "jdbc", "uri": "jdbc:mysql://h/d"}, "of an unknown kind"),
        ({"metastore": "jdbc", "uri": "jdbc:sqlite:names.db"}, "of an unknown kind"),
        ({"metastore": "jdbc", "uri": "sqlite:///x", "lock.enabled": "yes"}, "true or false"),
        (
            {"metastore": "jdbc", "uri": "sqlite:///x", "lock-acquire-timeout": "9 ms"},
            "1 s or more",
        ),
        ({"catalog_key": "x"}, "'catalog_key' is unknown; there are metastore, uri"),
        ({"metastore": "hive"}, "needs metastore hive and a uri"),
        ({"metastore": "hive", "uri": "http://h:9083"}, "not of the form thrift://host:port"),
        ({"metastore": "hive", "uri": "thrift://me:hidden@h"}, "users, passwords and options"),
        ({"metastore": "hive", "uri": "thrift://h:9083,"}, "not of the form thrift://host:port"),
    ],
)
def test_options_that_do_not_fit_are_refused(warehouse: str, given: Made, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        Catalog.open(warehouse, options=given)


def test_an_address_of_a_metastore_is_a_warehouse_whose_options_agree() -> None:
    with pytest.raises(InvalidRequestError, match="catalog option metastore says otherwise"):
        Catalog.open("thrift://h:9083", options={"metastore": "jdbc", "uri": "sqlite:///x"})
    with pytest.raises(InvalidRequestError, match="catalog option uri says otherwise"):
        Catalog.open("thrift://h:9083", options={"uri": "thrift://other:9083"})
    with pytest.raises(UnsupportedError, match="Kerberos or TLS"):
        Catalog.open("thrift://h:9083", options={"hive.metastore.sasl.enabled": "true"})


@pytest.mark.parametrize(
    "given",
    [
        {"uri": "jdbc:postgresql://keeper:hidden-secret@host/db"},
        {"uri": "postgresql://host/db?user=keeper&password=hidden-secret"},
        {"uri": "jdbc:mysql://keeper:hidden-secret@host/db"},
        {"uri": "sqlite:///x", "jdbc.password": "hidden-secret"},
        {"metastore": "hive", "uri": "thrift://keeper:hidden-secret@host:9083"},
    ],
)
def test_a_password_is_refused_without_repeating_it(warehouse: str, given: Made) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        Catalog.open(warehouse, options={"metastore": "jdbc", **given})
    assert "hidden-secret" not in repr(caught.value)


def create_at_once(warehouse: str, options: Made, ready: Any, answers: Any) -> None:
    catalog = Catalog.open(warehouse, options=options, durable=False)
    ready.wait()
    try:
        # Two equal schemas of one millisecond would be one: a store's answer may be lost.
        catalog.create_table("db.t", EVENTS, comment=str(os.getpid()))
    except AlreadyExistsError:
        answers.put("taken")
    else:
        answers.put("made")


def test_of_processes_that_create_one_table_exactly_one_does(warehouse: str, options: Made) -> None:
    context = mp.get_context("fork")
    ready, answers = context.Barrier(4), context.Queue()
    creators = [
        context.Process(target=create_at_once, args=(warehouse, options, ready, answers))
        for _ in range(4)
    ]
    for each in creators:
        each.start()
    assert sorted(answers.get(timeout=120) for _ in creators) == ["made", "taken", "taken", "taken"]
    for each in creators:
        each.join()
    assert rows_of(options, "paimon_tables") == [("jdbc", "db", "t")]


class Died(BaseException):
    """The process is dead."""


def dying(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def die(*_: object, **__: object) -> None:
        raise Died

    monkeypatch.setattr(f"lakewright.storage.{at}", die)


def test_a_table_that_is_made_during_the_drop_of_its_database_keeps_both(
    catalog: Catalog, warehouse: str, options: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_database("db")
    drop = DatabaseNames.drop_database

    def made_before(self: DatabaseNames, *given: Any, **more: Any) -> None:
        table = new_table(Catalog.open(warehouse, options=options, durable=False), EVENTS)
        table.write(rows(table, events(0, 3)))
        drop(self, *given, **more)

    monkeypatch.setattr(DatabaseNames, "drop_database", made_before)
    with pytest.raises(InvalidRequestError, match="database db is not empty: t; drop its tables"):
        catalog.drop_database("db")
    assert catalog.list_databases() == ("db",)
    assert len(content(catalog.table("db.t"))) == 3
    assert catalog.plan_sync_tables(age_ms=0).is_none


def test_a_creation_that_is_refused_lists_no_database(
    catalog: Catalog, warehouse: str, options: Made
) -> None:
    other = Catalog.open(warehouse, options={**options, "catalog-key": "other"}, durable=False)
    new_table(catalog, EVENTS)
    rows = rows_of(options, "paimon_database_properties")
    with pytest.raises(AlreadyExistsError, match="does not list it"):
        new_table(other, EVENTS)
    with pytest.raises(AlreadyExistsError, match="does not list it"):
        other.create_format_table("db.t", EVENTS)
    with pytest.raises(InvalidSchema):
        new_table(other, EVENTS, name="shop.t", keys=["nothing"])
    assert rows_of(options, "paimon_database_properties") == rows
    assert other.list_databases() == ()
    new_table(other, EVENTS, name="db.own")
    assert other.list_databases() == ("db",)


def test_a_drop_if_it_exists_is_refused_where_unlisted_files_lie(
    catalog: Catalog, warehouse: str
) -> None:
    new_table(Catalog.open(warehouse), EVENTS)
    with pytest.raises(TableNotFound, match="its files lie there"):
        catalog.drop_table("db.t", if_exists=True)
    assert not catalog.drop_table("db.none", if_exists=True).existed
    catalog.sync_tables(age_ms=0)
    assert catalog.drop_table("db.t", if_exists=True).existed
    assert not catalog.drop_table("db.t", if_exists=True).existed


def test_a_database_in_a_folder_that_is_not_there_is_no_empty_catalog(
    warehouse: str, tmp_path: Path
) -> None:
    options = {"metastore": "jdbc", "uri": f"sqlite://{tmp_path}/nodir/names.db"}
    lost = Catalog.open(warehouse, options=options)
    with pytest.raises(UnavailableError, match=r"there is no folder .*nodir for the database"):
        lost.list_databases()
    with pytest.raises(UnavailableError, match="check that its folder exists"):
        new_table(lost, EVENTS)
    assert not Path(warehouse, "db.db").exists()


def test_a_sync_of_a_database_that_is_nowhere_is_refused(catalog: Catalog) -> None:
    new_table(catalog, EVENTS)
    with pytest.raises(DatabaseNotFound, match=r"no database nope .*; there are db"):
        catalog.plan_sync_tables("nope")
    assert catalog.plan_sync_tables("db", age_ms=0).is_none


@pytest.mark.mission("CT2")
def test_a_creation_that_died_is_told_and_a_sync_lists_its_table(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        dying(catalog, patched, "files.catalog_names.DatabaseNames.add_table")
        with pytest.raises(Died):
            new_table(catalog, EVENTS)
    assert catalog.list_tables("db") == ()
    for attempt in (lambda: new_table(catalog, EVENTS), lambda: catalog.table("db.t")):
        with pytest.raises((AlreadyExistsError, TableNotFound), match="lakewright sync"):
            attempt()
    young = catalog.plan_sync_tables()
    assert [name for name, _ in young.left] == ["db.t"]
    drift = catalog.sync_tables(age_ms=0)
    assert drift.unlisted == ("db.t",)
    assert catalog.table("db.t").read().num_rows == 0
    assert catalog.plan_sync_tables(age_ms=0).is_none


@pytest.mark.mission("CT2")
def test_a_drop_that_died_is_finished_or_taken_back(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 3)))
    with monkeypatch.context() as patched:
        dying(catalog, patched, "catalog_places.drop_table_files")
        with pytest.raises(Died):
            catalog.drop_table("db.t", grace_ms=0)
    with pytest.raises(TableNotFound, match="lakewright sync"):
        catalog.drop_table("db.t", grace_ms=0)
    catalog.sync_tables(age_ms=0)
    assert len(content(catalog.table("db.t"))) == 3
    with monkeypatch.context() as patched:
        # The schemas are gone, and the snapshots are not.
        dying(catalog, patched, "files.memory_files.MemoryFiles.delete_tree")
        dying(catalog, patched, "files.local_files.LocalFiles.delete_tree")
        with pytest.raises(Died):
            catalog.drop_table("db.t", grace_ms=0)
    assert catalog.plan_sync_tables(age_ms=0).is_none
    catalog.drop_table("db.t", grace_ms=0)
    new_table(catalog, EVENTS)


def test_a_drop_that_died_before_its_record_is_taken_back_by_a_sync(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_table(catalog, EVENTS)
    with monkeypatch.context() as patched:
        dying(catalog, patched, "catalog_places.drop_to_record")
        with pytest.raises(Died):
            catalog.drop_table("db.t")
    catalog.sync_tables(age_ms=0)
    catalog.drop_table("db.t")
    assert content(catalog.undrop_table("db.t")) == []


@pytest.mark.mission("CT2")
def test_a_sync_takes_what_is_gone_off_the_list_only_if_asked(
    catalog: Catalog, warehouse: str, tmp_path: Path
) -> None:
    new_table(catalog, EVENTS)
    new_table(catalog, EVENTS, name="db.kept")
    Catalog.open(warehouse).drop_table("db.t")
    with pytest.raises(TableNotFound, match="--mode drop"):
        catalog.table("db.t")
    assert catalog.sync_tables().gone == ("db.t",)
    assert catalog.table_exists("db.t")
    catalog.sync_tables(mode="drop")
    assert catalog.list_tables("db") == ("kept",)
    elsewhere = replace(catalog, root=str(tmp_path / "not-mounted"))
    with pytest.raises(InvalidRequestError, match="check the warehouse"):
        elsewhere.sync_tables(mode="sync")
    assert catalog.list_tables("db") == ("kept",)


@pytest.mark.mission("CT2")
def test_a_sync_leaves_folders_whose_names_open_no_table_and_tells_them(
    catalog: Catalog, warehouse: str
) -> None:
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 3)))
    root = Path(warehouse)
    odd = ["db.db/t.old", "db.db/ ", "db.db/t$branch_x", "db.db/.hidden", "x.y.db/t"]
    for folder in (*odd, "db.db/a;b"):
        shutil.copytree(root / "db.db" / "t", root / folder)
    drift = catalog.sync_tables(age_ms=0, mode="sync")
    assert {name for name, _ in drift.left} == {
        "db.t.old", "db. ", "db.t$branch_x", "db..hidden", "x.y"
    }  # fmt: skip
    assert all("rename its folder" in reason for _, reason in drift.left)
    assert (drift.databases, drift.unlisted) == ((), ("db.a;b",))
    assert catalog.list_databases() == ("db",)
    assert catalog.list_tables("db") == ("a;b", "t")
    assert len(content(catalog.table("db.a;b"))) == 3


@pytest.mark.mission("CT2")
@pytest.mark.parametrize("name", [" ", "t.old", "t$branch_x"])
def test_a_sync_takes_a_name_that_opens_no_table_off_the_list_once_its_folder_is_gone(
    catalog: Catalog, warehouse: str, name: str
) -> None:
    table = new_table(catalog, EVENTS)
    assert catalog.listed is not None
    catalog.listed.add_table("db", name, table.schema)
    folder = Path(warehouse, "db.db", name)
    shutil.copytree(Path(warehouse, "db.db", "t"), folder)
    assert catalog.sync_tables(mode="sync", age_ms=0).gone == ()
    folder.rename(folder.with_name("renamed"))
    assert catalog.sync_tables(mode="sync", age_ms=0).gone == (f"db.{name}",)
    assert catalog.list_tables("db") == ("renamed", "t")


@pytest.mark.mission("CT2")
def test_a_sync_of_partitions_finds_new_folders(catalog: Catalog, tmp_path: Path) -> None:
    root = land_days(tmp_path / "landed", ["a"])
    table = new_table(catalog, LANDED, partitions=["day"])
    table.upkeep.add_partitions(str(root), age_ms=0)
    plain = catalog.create_format_table(
        "db.plain",
        LANDED,
        partition_keys=["day"],
        location=str(root),
        options={"metastore.partitioned-table": "true"},
    )
    assert plain.partitions() == ()
    catalog.sync_partitions("db.plain")
    assert [each["day"] for each in plain.partitions()] == ["a"]
    land_days(root, ["b"])
    catalog.sync_partitions("db.t")
    assert catalog.list_tables("db") == ("plain", "t")


@pytest.mark.mission("PT7")
def test_temporary_tables_hide_those_of_the_database_and_go_with_the_session(
    catalog: Catalog, options: Made
) -> None:
    kept = new_table(catalog, EVENTS)
    kept.write(rows(kept, events(0, 3)))
    with catalog.with_temporary_tables() as session:
        session.create_table("db.t", EVENTS, partition_keys=["day"], temporary=True)
        session.create_table("db.only", EVENTS, temporary=True)
        session.table("db.t").write(rows(kept, events(5, 6)))
        assert len(content(session.table("db.t"))) == 1
        assert session.list_tables("db") == ("only", "t")
        assert len(content(catalog.table("db.t"))) == 3
        session.drop_table("db.t")
        assert len(content(session.table("db.t"))) == 3
        session.create_table("db.lasting", EVENTS)
        assert rows_of(options, "paimon_tables") == [("jdbc", "db", "lasting"), ("jdbc", "db", "t")]
    assert catalog.list_tables("db") == ("lasting", "t")
    with pytest.raises(InvalidRequestError, match="with_temporary_tables"):
        catalog.create_table("db.x", EVENTS, temporary=True)


def test_what_is_read_only_changes_no_row(catalog: Catalog, options: Made) -> None:
    new_table(catalog, EVENTS)
    seen = catalog.read_only()
    assert seen.list_tables("db") == ("t",)
    attempts: list[Callable[[], object]] = [
        lambda: seen.drop_table("db.t"),
        lambda: seen.create_table("db.x", EVENTS),
        lambda: seen.create_database("x"),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidRequestError, match="read only"):
            attempt()
    assert rows_of(options, "paimon_tables") == [("jdbc", "db", "t")]


def test_a_catalog_that_was_never_written_lists_nothing_and_makes_no_file(
    catalog: Catalog, options: Made
) -> None:
    assert catalog.list_databases() == ()
    assert not catalog.table_exists("db.t")
    assert not Path(options["uri"].removeprefix("jdbc:sqlite:")).exists()


# --- the lock of a table -------------------------------------------------------------------------


def row_lock(catalog: Catalog, *, timeout_ms: int = 480_000) -> RowLock:
    assert catalog.listed is not None
    return RowLock(catalog.listed.database, "jdbc", catalog.root, FixedEnv(), 8_000, timeout_ms)


def test_a_lock_is_the_row_of_its_table_and_one_holds_it(catalog: Catalog, options: Made) -> None:
    lock = row_lock(catalog)
    path = f"{catalog.root}/db.db/t/branch/branch-b/snapshot/snapshot-1"
    with lock.held(path):
        ((lock_id, _, seconds),) = rows_of(options, "paimon_distributed_locks")
        assert (lock_id, seconds) == ("jdbc.db.t", 480)
        with (
            pytest.raises(NotWritten, match=r"jdbc\.db\.t was not acquired"),
            row_lock(catalog).held(path),
        ):
            pass
        with lock.held(f"{catalog.root}/db.db/other/snapshot/snapshot-1"):
            pass
    assert rows_of(options, "paimon_distributed_locks") == []
    assert pickle.loads(pickle.dumps(lock)).lock_id(path) == lock_id


def test_the_row_of_a_dead_holder_expires_and_a_late_holder_is_told(
    catalog: Catalog, options: Made
) -> None:
    lock = row_lock(catalog)
    path = f"{catalog.root}/db.db/t/snapshot/snapshot-1"
    late = lock.held(path)
    late.__enter__()
    with sqlite3.connect(options["uri"].removeprefix("jdbc:sqlite:")) as connection:
        connection.execute(
            "UPDATE paimon_distributed_locks SET acquired_at = datetime('now', '-500 seconds')"
        )
    with lock.held(path):
        pass
    with pytest.raises(UnavailableError, match="another writer may have worked"):
        late.__exit__(None, None, None)
    assert rows_of(options, "paimon_distributed_locks") == []


def test_commits_hold_the_lock_where_it_is_enabled(warehouse: str, options: Made) -> None:
    locked = Catalog.open(warehouse, options={**options, "lock.enabled": "true"}, durable=False)
    table = new_table(locked, EVENTS)
    with sqlite3.connect(options["uri"].removeprefix("jdbc:sqlite:")) as connection:
        connection.execute(
            "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) "
            "VALUES ('jdbc.db.t', 480)"
        )
    impatient = {**options, "lock.enabled": "true", "lock-acquire-timeout": "1 s"}
    waiting = Catalog.open(warehouse, options=impatient, durable=False).table("db.t")
    with pytest.raises(NotWritten, match="was not acquired"):
        waiting.write(rows(table, events(0, 3)))
    assert content(Catalog.open(warehouse).table("db.t")) == []
    with pytest.raises(InvalidRequestError, match="leave out one"):
        Catalog.open("ftp://h/w", lock=f"sqlite://{warehouse}/lock", options=impatient)
