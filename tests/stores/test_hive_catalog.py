"""A catalog in a real metastore of Hive: what it repeats, where tables lie, what goes wrong."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lakewright.cli import main
from lakewright.platform.decide.upkeep_state import read_state
from lakewright.platform.ledger.intents import WhyNot
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.tables.upkeep_policies import RespecPolicy
from lakewright.storage import (
    AddColumn,
    Catalog,
    DropColumn,
    RenameColumn,
    ResetOption,
    SetOption,
    StorageError,
)
from lakewright.storage.errors import (
    AlreadyExistsError,
    DatabaseNotFound,
    InvalidRequestError,
    NotWritten,
    SchemaMoved,
    TableNotFound,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.hive_client import idl, open_metastore
from lakewright.storage.files.hive_names import HiveNames, repeats
from tests.support.stores.servers import free_port, hive_server
from tests.support.tables.builders import EVENTS, content, events, new_table, rows

VERSIONS = (3, 4)


@pytest.fixture(scope="module", params=VERSIONS)
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with hive_server(request.param, tmp_path_factory.mktemp("hive")) as address:
        yield address


@pytest.fixture(scope="module")
def third(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A metastore that has locks."""
    with hive_server(3, tmp_path_factory.mktemp("hive")) as address:
        yield address


@pytest.fixture
def catalog(address: str, tmp_path: Path) -> Iterator[Catalog]:
    yield (made := in_hive(address, tmp_path))
    forget(made)


def in_hive(address: str, warehouse: Path, **options: str) -> Catalog:
    return Catalog.open(
        str(warehouse), options={"metastore": "hive", "uri": address, **options}, durable=False
    )


def forget(catalog: Catalog) -> None:
    """Empty a metastore that other tests use too."""
    names = hive(catalog)
    for database in names.databases():
        for table in names.metastore.table_names(database):
            names.metastore.drop_table(database, table)
        if database != "default":
            names.metastore.drop_database(database)


def hive(catalog: Catalog) -> HiveNames:
    assert isinstance(catalog.listed, HiveNames)
    return catalog.listed


def known(catalog: Catalog, name: str) -> Any:
    """What the metastore knows of a table."""
    return hive(catalog).metastore.table(*name.split("."))


@pytest.mark.mission("PT15", "PT67", "CT5", "CT11")
def test_the_metastore_repeats_columns_keys_and_options_and_says_where_a_table_lies(
    catalog: Catalog, address: str, tmp_path: Path
) -> None:
    columns = {"id": "BIGINT", "Day": "STRING", "v": "DECIMAL(10, 2)"}
    table = new_table(catalog, columns, partitions=["Day"], keys=["id", "Day"])
    table.write(rows(table, [{"id": 1, "Day": "mon", "v": None}]))
    assert catalog.list_databases() == ("db", "default")
    assert catalog.list_tables("db") == ("t",)
    found = known(catalog, "db.t")
    told = [(each.name, each.type) for each in found.sd.cols]
    assert told == [("id", "bigint"), ("day", "string"), ("v", "decimal(10,2)")]
    assert found.sd.location == f"file:{tmp_path}/db.db/t"
    assert found.parameters["table_type"] == "PAIMON"
    assert (found.parameters["primary-key"], found.parameters["partition"]) == ("id,Day", "Day")
    # The metastore alone says where tables lie.
    found.sd.location = f"file:{tmp_path}/elsewhere 100%25"
    shutil.move(tmp_path / "db.db" / "t", tmp_path / "elsewhere 100%25")
    hive(catalog).metastore.alter_table("db", "t", found)
    opened = Catalog.open(address).table("db.t")
    assert opened.table_files.paths.root == f"{tmp_path}/elsewhere 100%25"
    assert len(content(opened)) == 1
    assert catalog.plan_sync_tables(age_ms=0).is_none
    assert pickle.loads(pickle.dumps(catalog)) == catalog
    with pytest.raises(InvalidRequestError, match="read only"):
        catalog.read_only().drop_table("db.t", grace_ms=0)


def test_a_new_database_lies_in_the_warehouse_and_one_of_another_client_where_it_is(
    catalog: Catalog, tmp_path: Path
) -> None:
    catalog.create_database("mine")
    assert hive(catalog).database_uri("mine") == f"file:{tmp_path}/mine.db"
    made = idl().Database(name="theirs", locationUri=f"file:{tmp_path}/other", parameters={})
    with hive(catalog).metastore._calls("make one") as calls:
        calls.create_database(made)
    new_table(catalog, EVENTS, name="theirs.t")
    assert (tmp_path / "other" / "t" / "schema" / "schema-0").exists()
    with pytest.raises(InvalidRequestError, match="not empty: t"):
        catalog.drop_database("theirs")
    catalog.drop_database("mine")
    assert catalog.list_databases() == ("default", "theirs")
    assert not (tmp_path / "mine.db").exists()


@pytest.mark.mission("CT5")
def test_an_alter_reaches_the_metastore_also_where_columns_move(catalog: Catalog) -> None:
    table = new_table(catalog, EVENTS, options={"my.note": "x"})
    table = table.alter(DropColumn("day"), AddColumn("n", "ARRAY<INT>"), RenameColumn("v", "w"))
    table = table.alter(SetOption("my.other", "y"), ResetOption("my.note"))
    found = known(catalog, "db.t")
    assert [each.name for each in found.sd.cols] == ["id", "w", "n"]
    assert repeats(found, table.schema)
    assert "my.note" not in found.parameters


@pytest.mark.mission("PT1")
def test_partition_keys_change_where_the_metastore_lets_them_and_are_refused_before_where_not(
    catalog: Catalog,
) -> None:
    given = [{"id": 1, "day": "mon", "v": "a"}, {"id": 2, "day": "mon", "v": "b"}]
    table = new_table(catalog, EVENTS, partitions=["day"])
    table.write(rows(table, given))
    table.upkeep.respec(["v"])
    assert known(catalog, "db.t").parameters["partition"] == "v"
    assert len(content(catalog.table("db.t"))) == 2
    told = new_table(
        catalog,
        EVENTS,
        name="db.told",
        partitions=["day"],
        options={"metastore.partitioned-table": "true"},
    )
    told.write(rows(told, given))
    schema, snapshots = told.schema, len(told.history.snapshots())
    with pytest.raises(UnsupportedError, match=r"db\.told has metastore\.partitioned-table"):
        told.upkeep.plan_respec(["v"])
    policy = RespecPolicy(keys=("v",))
    change = read_state(catalog, "db.told", now_ms=0, respec=policy).keys_change
    assert change is not None
    assert change.why_not is WhyNot.UNSUPPORTED
    now = catalog.table("db.told")
    assert (now.schema, len(now.history.snapshots())) == (schema, snapshots)
    assert len(content(now)) == 2


def test_what_the_metastore_refuses_leaves_nothing(catalog: Catalog, tmp_path: Path) -> None:
    too_long = {"x" * 4000: "y"}
    with pytest.raises(StorageError, match="refuses to create table"):
        new_table(catalog, EVENTS, options=too_long)
    assert not (tmp_path / "db.db" / "t").exists()
    table = new_table(catalog, EVENTS)
    with pytest.raises(StorageError, match="refuses to alter table"):
        table.alter(SetOption("x" * 4000, "y"))
    assert table.table_files.schemas.ids() == [0]
    assert repeats(known(catalog, "db.t"), table.schema)


def test_writers_that_alter_at_once_leave_the_last_schema_in_the_metastore(
    catalog: Catalog,
) -> None:
    new_table(catalog, EVENTS)

    def alter(writer: int) -> None:
        for number in range(3):
            while True:
                try:
                    catalog.table("db.t").alter(AddColumn(f"c{writer}_{number}", "INT"))
                except SchemaMoved:
                    continue
                break

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(alter, range(3)))
    table = catalog.table("db.t")
    assert table.schema.id == 9
    assert repeats(known(catalog, "db.t"), table.schema)


def test_creators_at_once_make_one_table(catalog: Catalog) -> None:
    def create(name: str) -> bool:
        try:
            new_table(catalog, EVENTS, name=name)
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(create, ["db.a", "db.b"] * 4))
    assert sum(made) == 2
    assert catalog.list_tables("db") == ("a", "b")


@pytest.mark.mission("CT5")
def test_tables_of_other_formats_and_views_are_not_touched(
    catalog: Catalog, tmp_path: Path
) -> None:
    catalog.create_database("db")
    metastore = hive(catalog).metastore
    sd = idl().StorageDescriptor(
        cols=[idl().FieldSchema(name="id", type="int")],
        location=f"file:{tmp_path}/db.db/theirs",
        inputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        serdeInfo=idl().SerDeInfo(
            serializationLib="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
        ),
    )
    for name, kind in (("theirs", "EXTERNAL_TABLE"), ("seen", "VIRTUAL_VIEW")):
        made = idl().Table(dbName="db", tableName=name, sd=sd, tableType=kind, parameters={})
        made.partitionKeys = []
        if kind == "VIRTUAL_VIEW":
            made.viewOriginalText = made.viewExpandedText = "SELECT 1"
        metastore.create_table(made)
    (tmp_path / "db.db" / "theirs").mkdir(exist_ok=True)
    (tmp_path / "db.db" / "theirs" / "file").touch()
    before = metastore.tables("db")
    assert catalog.list_tables("db") == ()
    for name, of_kind in (("db.theirs", "another format"), ("db.seen", "another format")):
        assert not catalog.table_exists(name)
        with pytest.raises(TableNotFound, match=of_kind):
            catalog.table(name)
        with pytest.raises(TableNotFound, match=of_kind):
            catalog.drop_table(name)
        with pytest.raises(AlreadyExistsError, match="exists already"):
            new_table(catalog, EVENTS, name=name)
        with pytest.raises(TableNotFound):
            catalog.rename_table(name, "db.mine")
    with pytest.raises(InvalidRequestError, match="not empty"):
        catalog.drop_database("db")
    assert catalog.sync_tables(mode="sync", age_ms=0).is_none
    assert metastore.tables("db") == before
    assert (tmp_path / "db.db" / "theirs" / "file").exists()


def test_names_are_in_lower_case(catalog: Catalog) -> None:
    new_table(catalog, EVENTS)
    for name in ("db.Orders", "DB.orders", "db.a-b", "db.naïve"):
        with pytest.raises(InvalidRequestError, match="lower case"):
            new_table(catalog, EVENTS, name=name)
        assert not catalog.table_exists(name)
    # The metastore would answer, and one table would have two names.
    with pytest.raises(TableNotFound):
        catalog.table("db.T")


def test_a_table_whose_folder_is_gone_is_told_and_taken_off_the_list(
    catalog: Catalog, tmp_path: Path
) -> None:
    new_table(catalog, EVENTS)
    new_table(catalog, EVENTS, name="db.kept")
    shutil.rmtree(tmp_path / "db.db" / "t")
    with pytest.raises(TableNotFound, match=r"listed in the metastore.*sync --mode drop"):
        catalog.table("db.t")
    assert catalog.plan_sync_tables(age_ms=0).gone == ("db.t",)
    catalog.sync_tables(mode="drop", age_ms=0)
    assert catalog.list_tables("db") == ("kept",)
    assert catalog.drop_table("db.t", if_exists=True).existed is False
    # Where more than its own folder is missing, its disk may be.
    moved = known(catalog, "db.kept")
    moved.sd.location = f"file:{tmp_path}/not/mounted"
    hive(catalog).metastore.alter_table("db", "kept", moved)
    drift = catalog.sync_tables(mode="sync", age_ms=0)
    assert [name for name, _ in drift.left] == ["db.kept"]
    assert catalog.list_tables("db") == ("kept",)
    catalog.drop_table("db.kept")
    assert catalog.list_tables("db") == ()


@pytest.mark.mission("CT2")
def test_a_folder_that_is_not_registered_is_listed_by_a_sync(
    catalog: Catalog, tmp_path: Path
) -> None:
    folders = Catalog.open(str(tmp_path), durable=False)
    for name in ("db.t", "Db.t", "db.Upper"):
        new_table(folders, EVENTS, name=name)
    assert catalog.list_databases() == ("default",)
    drift = catalog.plan_sync_tables(age_ms=0)
    assert (drift.databases, drift.unlisted) == (("db",), ("db.t",))
    assert [name for name, _ in drift.left] == ["Db", "db.Upper"]
    catalog.sync_tables(age_ms=0)
    assert catalog.list_tables("db") == ("t",)
    assert content(catalog.table("db.t")) == []
    # Another process alters without the metastore: a sync tells it.
    folders.table("db.t").alter(AddColumn("x", "INT"))
    assert catalog.plan_sync_tables(age_ms=0).outdated == ("db.t",)
    catalog.sync_tables(age_ms=0)
    assert repeats(known(catalog, "db.t"), catalog.table("db.t").schema)


def test_a_creation_that_died_before_it_was_listed_is_told(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(HiveNames, "add_table", die)
        with pytest.raises(KeyboardInterrupt):
            new_table(catalog, EVENTS)
    with pytest.raises(AlreadyExistsError, match="does not list it"):
        new_table(catalog, EVENTS)
    with pytest.raises(TableNotFound, match="lakewright sync"):
        catalog.table("db.t")
    catalog.sync_tables(age_ms=0)
    assert content(catalog.table("db.t")) == []


def test_a_renamed_table_has_its_rows_and_a_writer_of_before_loses_none(
    catalog: Catalog, tmp_path: Path
) -> None:
    catalog.create_database("other")
    table = new_table(catalog, EVENTS)
    table.write(rows(table, events(0, 3)))
    before = catalog.table("db.t")
    renamed = catalog.rename_table("db.t", "other.u")
    assert (catalog.list_tables("db"), catalog.list_tables("other")) == ((), ("u",))
    assert renamed.table_files.paths.root == f"{tmp_path}/other.db/u"
    with pytest.raises(TableNotFound):
        before.write(rows(before, events(3, 4)))
    with pytest.raises(TableNotFound):
        before.alter(AddColumn("x", "INT"))
    renamed.write(rows(renamed, events(3, 4)))
    assert len(content(catalog.table("other.u"))) == 4
    new_table(catalog, EVENTS, name="other.taken")
    with pytest.raises(AlreadyExistsError):
        catalog.rename_table("other.u", "other.taken")
    with pytest.raises(DatabaseNotFound):
        catalog.rename_table("other.u", "missing.u")
    with pytest.raises(TableNotFound):
        catalog.rename_table("db.t", "other.v")


def test_a_table_whose_keys_changed_is_renamed_once_its_files_are_home(catalog: Catalog) -> None:
    table = new_table(catalog, EVENTS, partitions=["day"])
    table.write(rows(table, events(0, 3)))
    table.upkeep.respec([])
    table = catalog.table("db.t")
    table.history.create_tag("kept")
    with pytest.raises(UnsupportedError, match=r"lakewright settle 'db\.t'"):
        catalog.rename_table("db.t", "db.u")
    table.upkeep.settle()
    with pytest.raises(UnsupportedError, match=r"tag delete 'db\.t'"):
        catalog.rename_table("db.t", "db.u")
    table.history.delete_tags("kept", grace_ms=0)
    due, renamed = content(table), catalog.rename_table("db.t", "db.u")
    assert content(renamed) == content(catalog.table("db.u")) == due


def test_a_drop_deletes_the_files_of_managed_tables_and_no_others(
    catalog: Catalog, tmp_path: Path
) -> None:
    new_table(catalog, EVENTS)
    assert catalog.drop_table("db.t").stays == ()
    assert not (tmp_path / "db.db" / "t").exists()
    metastore = hive(catalog).metastore
    for name in ("external", "shared", "inside"):
        new_table(catalog, EVENTS, name=f"db.{name}")
    external = known(catalog, "db.external")
    external.tableType = "EXTERNAL_TABLE"
    external.parameters = {**external.parameters, "EXTERNAL": "TRUE"}
    for each in ("external.table.purge", "TRANSLATED_TO_EXTERNAL"):
        external.parameters.pop(each, None)
    metastore.alter_table("db", "external", external)
    again = known(catalog, "db.shared")
    again.tableName, again.tableType = "again", "EXTERNAL_TABLE"
    again.parameters = {**again.parameters, "EXTERNAL": "TRUE"}
    metastore.create_table(again)
    # A mistake that would take the whole database with it.
    inside = known(catalog, "db.inside")
    inside.sd.location = f"file:{tmp_path}/db.db"
    metastore.alter_table("db", "inside", inside)
    stale = catalog.table("db.external")
    catalog.rename_table("db.external", "db.renamed")
    with pytest.raises(TableNotFound, match="not in the metastore"):
        stale.alter(AddColumn("x", "INT"))
    assert stale.table_files.schemas.ids() == [0]
    catalog.rename_table("db.renamed", "db.external")
    for name, folder in (("external", "/external"), ("shared", "/shared"), ("inside", "")):
        place = tmp_path / f"db.db{folder}"
        assert catalog.drop_table(f"db.{name}").stays == (f"file://{place}",)
        assert place.exists()
        assert not catalog.table_exists(f"db.{name}")
    assert content(catalog.table("db.again")) == []


@pytest.mark.mission("PT15")
def test_the_command_line_and_dagster_open_a_metastore_by_its_address(
    catalog: Catalog, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*arguments: str) -> str:
        capsys.readouterr()
        assert main([*arguments]) == 0
        return capsys.readouterr().out

    table = new_table(catalog, EVENTS)
    for number in range(6):
        table.write(rows(table, events(number, number + 1)))
    policy = tmp_path / "policy.yaml"
    adopted = told("adopt", address, "--policy", str(policy))
    assert "db.t" in adopted
    assert f"--warehouse {address}" in adopted
    assert policy.exists()
    before = ("--warehouse", address)
    (listed,) = json.loads(told(*before, "ls", "--format", "json"))
    assert listed["table"] == "db.t"
    told(*before, "compact", "db.t", "--full")
    assert len(content(catalog.table("db.t"))) == 6
    told(*before, "sql", "ALTER TABLE db.t RENAME TO db.u")
    assert json.loads(told(*before, "sync", "--age", "0", "--format", "json"))["unlisted"] == []
    assert main([*before, "show", "db.t"]) != 0
    assert "tables of db: u" in capsys.readouterr().err
    assert WarehouseResource(uri=address).catalog().list_tables("db") == ("u",)
    options = {"metastore": "hive", "uri": address}
    resource = WarehouseResource(uri=str(tmp_path), catalog_options=options)
    assert len(content(resource.catalog().table("db.u"))) == 6


@pytest.mark.mission("CT11")
def test_writers_take_the_lock_of_the_metastore(third: str, tmp_path: Path) -> None:
    options = {"lock.enabled": "true", "lock-check-max-sleep": "100 ms"}
    catalog = in_hive(third, tmp_path, **options)
    table = new_table(catalog, EVENTS)

    def append(writer: int) -> None:
        mine = in_hive(third, tmp_path, **options).table("db.t")
        for number in range(2):
            mine.write(rows(mine, events(10 * writer + number, 10 * writer + number + 1)))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(append, range(3)))
    assert len(content(table)) == 6
    metastore = hive(catalog).metastore
    lock, is_held = metastore.lock("db", "t")
    assert is_held
    hasty = in_hive(third, tmp_path, **options, **{"lock-acquire-timeout": "1 s"}).table("db.t")
    with pytest.raises(NotWritten, match="not acquired within 1 s"):
        hasty.write(rows(hasty, events(50, 51)))
    # A request that gave up does not stand in the way of others.
    assert metastore.unlock(lock)
    append(6)
    assert metastore.unlock(lock) is False
    assert len(content(table)) == 8
    forget(catalog)


def test_a_metastore_that_does_not_answer_is_named_with_the_way_out(tmp_path: Path) -> None:
    address = f"thrift://127.0.0.1:{free_port()}"
    with pytest.raises(UnavailableError, match=f"{address} cannot be reached"):
        Catalog.open(address)
    catalog = in_hive(address, tmp_path)
    with pytest.raises(UnavailableError, match="cannot be reached"):
        catalog.list_databases()
    with pytest.raises(UnsupportedError, match="Kerberos"):
        in_hive(address, tmp_path, **{"hive.metastore.sasl.enabled": "true"})


def test_the_second_address_answers_where_the_first_does_not(address: str) -> None:
    both = f"thrift://127.0.0.1:{free_port()},{address}"
    assert "default" in open_metastore(both).databases()
    assert "default" in Catalog.open(both).list_databases()
