"""The catalog: databases are folders, tables are folders with a schema, names are checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.storage import Catalog
from lakewright.storage.catalog_arguments import split_name
from lakewright.storage.errors import (
    AlreadyExistsError,
    DatabaseNotFound,
    InvalidRequestError,
    InvalidSchema,
    TableNotFound,
    UnsupportedError,
)
from tests.support.stores.watched_files import watched_catalog
from tests.support.tables.builders import EVENTS, events, new_table, rows, spec
from tests.support.tables.landed import LANDED, land_days


@pytest.mark.mission("SE30", "FS4", "CT11")
def test_tables_are_listed_and_found_by_name(any_catalog: Catalog) -> None:
    assert any_catalog.list_databases() == ()
    new_table(any_catalog, name="sales.orders")
    new_table(any_catalog, name="sales.customers")
    any_catalog.create_database("empty")
    assert any_catalog.list_databases() == ("empty", "sales")
    assert any_catalog.list_tables("sales") == ("customers", "orders")
    assert any_catalog.list_tables("empty") == ()
    table = any_catalog.table("sales.orders")
    assert table.name == "sales.orders"
    assert table.location.endswith("/sales.db/orders")
    assert any_catalog.table_exists("sales.orders")
    assert not any_catalog.table_exists("sales.nothing")


def test_what_is_no_table_is_not_listed(catalog: Catalog) -> None:
    new_table(catalog)
    database = Path(catalog.root) / "db.db"
    (database / "folder").mkdir()
    (database / "file").write_text("")
    (Path(catalog.root) / "other").mkdir()
    assert catalog.list_tables("db") == ("t",)
    assert catalog.list_databases() == ("db",)


def test_a_missing_name_is_told_with_those_there_are(catalog: Catalog) -> None:
    new_table(catalog)
    with pytest.raises(TableNotFound, match=r"no table db\.x in .*; tables of db: t"):
        catalog.table("db.x")
    with pytest.raises(TableNotFound, match="databases there: db"):
        catalog.table("nothing.x")
    with pytest.raises(DatabaseNotFound, match=r"no database nothing in .*; there are db"):
        catalog.list_tables("nothing")
    with pytest.raises(TableNotFound):
        catalog.drop_table("db.x")


def test_what_exists_is_not_created_again_unless_that_is_all_right(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 2)))
    with pytest.raises(AlreadyExistsError, match="exists already"):
        new_table(catalog)
    again = catalog.create_table("db.t", spec({"other": "INT"}), if_not_exists=True)
    assert again.schema == table.schema
    assert again.read().num_rows == 2
    catalog.create_database("db")
    with pytest.raises(AlreadyExistsError, match="database db exists already"):
        catalog.create_database("db", if_not_exists=False)


@pytest.mark.parametrize("name", ["t", "a.b.c", ".t", "db.", ""])
def test_a_name_without_exactly_two_parts_is_refused(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"database\.table"):
        catalog.table(name)
    with pytest.raises(InvalidRequestError):
        split_name(name)


@pytest.mark.parametrize("name", ["db.a/b", "a/b.t", "db.t$files", "db. ", "db.a\\b"])
def test_a_name_that_is_no_folder_is_refused(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be the name of a folder"):
        catalog.create_table(name, spec(EVENTS))
    assert not Path(catalog.root).exists()


def test_a_refused_table_leaves_nothing_behind(catalog: Catalog) -> None:
    with pytest.raises(UnsupportedError):
        new_table(catalog, options={"chain-table.enabled": "true"})
    with pytest.raises(InvalidSchema):
        new_table(catalog, {"a": "INT"}, keys=["b"])
    assert not Path(catalog.root).exists()


@pytest.mark.mission("BK34")
def test_format_and_bucket_are_spelled_out_whatever_later_defaults_are(catalog: Catalog) -> None:
    append = new_table(catalog, name="db.append").schema
    assert append.options == {"file.format": "parquet", "bucket": "-1"}
    keyed = new_table(catalog, name="db.keyed", keys=["id"]).schema
    assert keyed.options == {"file.format": "parquet", "bucket": "1"}
    chosen = new_table(catalog, name="db.chosen", keys=["id"], options={"bucket": "7"}).schema
    assert chosen.options["bucket"] == "7"


def test_a_dropped_table_is_gone_and_its_successor_is_another(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 2)))
    first = table.uuid
    assert catalog.table("db.t").uuid == first
    catalog.drop_table("db.t")
    assert not catalog.table_exists("db.t")
    assert catalog.list_tables("db") == ()
    again = new_table(catalog)
    assert again.read().num_rows == 0
    assert again.uuid != first


def test_a_drop_says_in_which_folders_files_stay(catalog: Catalog, tmp_path: Path) -> None:
    root = land_days(tmp_path / "landed")
    new_table(catalog, LANDED, partitions=["day"])
    catalog.table("db.t").upkeep.add_partitions(str(root), age_ms=0)
    dropped = catalog.drop_table("db.t")
    assert dropped.stays == (f"file:{root}",)
    assert list(root.rglob("*.parquet"))
    catalog.create_format_table("db.f", LANDED, partition_keys=["day"], location=str(root))
    assert catalog.drop_table("db.f").stays == (f"file:{root}",)
    assert list(root.rglob("*.parquet"))
    catalog.create_format_table("db.f", LANDED, partition_keys=["day"])
    new_table(catalog, name="db.own")
    assert catalog.drop_table("db.f").stays == catalog.drop_table("db.own").stays == ()


def test_a_drop_begins_with_the_schemas_and_ends_with_the_snapshots(catalog: Catalog) -> None:
    """So no reader sees half a table, and the leftovers of a table are recognised."""
    table = new_table(catalog)
    table.write(rows(table, events(0, 2)))
    inner, paths = table.table_files.fs, table.table_files.paths
    assert table.table_files.schemas.put_schema(replace(table.schema, id=1))
    folders = inner.list_subdirs(paths.root)
    seen, fs = watched_catalog(catalog)
    seen.drop_table("db.t", grace_ms=0)
    changes = [(call.name, call.path) for call in fs.changes]
    assert changes[:2] == [("delete", paths.schema(0)), ("delete", paths.schema(1))]
    others = [f"{paths.root}/{name}" for name in folders if name != "snapshot"]
    assert sorted(changes[2:-1]) == sorted(("delete_tree", folder) for folder in others)
    assert changes[-1] == ("delete_tree", paths.root)


def test_a_warehouse_in_an_unknown_store_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="nosuchstore"):
        Catalog.open("nosuchstore://bucket/warehouse")


def test_a_warehouse_may_have_any_path(tmp_path: Path) -> None:
    for folder in ("a b", "per%20cent", "ä中", "hash#tag", "ques?tion"):
        catalog = Catalog.open(str(tmp_path / folder))
        table = new_table(catalog, partitions=["day"])
        table.write(rows(table, events(0, 2, day="x/y")))
        assert Catalog.open(catalog.uri).table("db.t").read().num_rows == 2


# --- what a table is made of --------------------------------------------------------------------


def test_a_table_is_created_from_text_from_arrow_or_from_a_spec(catalog: Catalog) -> None:
    columns = {"id": "BIGINT NOT NULL", "amount": "DECIMAL(10, 2)"}
    how = {"primary_keys": ["id"], "options": {"bucket": "2"}, "comment": "orders"}
    text = catalog.create_table("db.text", columns, **how)  # type: ignore[arg-type]
    whole = catalog.create_table(
        "db.spec", replace(spec(columns, keys=["id"], options={"bucket": "2"}), comment="orders")
    )
    arrow = catalog.create_table("db.arrow", text.arrow_schema, **how)  # type: ignore[arg-type]
    made = [(t.schema.fields, t.schema.options, t.schema.comment) for t in (text, whole, arrow)]
    assert made[0] == made[1] == made[2]
    assert [table.schema.primary_keys for table in (text, whole, arrow)] == [("id",)] * 3


def test_what_is_no_schema_is_refused_before_anything_is_made(catalog: Catalog) -> None:
    with pytest.raises(InvalidRequestError, match="put them into it"):
        catalog.create_table("db.t", spec(EVENTS), primary_keys=["id"])
    with pytest.raises(InvalidRequestError, match=r"is not a schema; give a SchemaSpec"):
        catalog.create_table("db.t", ["id"])  # type: ignore[arg-type]
    with pytest.raises(InvalidSchema, match="MONEY"):
        catalog.create_table("db.t", {"id": "MONEY"})
    assert catalog.list_databases() == ()


def test_keys_may_be_given_by_the_options_that_paimons_statements_have(catalog: Catalog) -> None:
    columns, options = (
        {"id": "INT", "day": "STRING"},
        {"primary-key": "id, day", "partition": "day"},
    )
    table = catalog.create_table("db.t", columns, options=options)
    assert (table.schema.primary_keys, table.schema.partition_keys) == (("id", "day"), ("day",))
    assert not {*options} & {*table.schema.options}
    for _ in range(2):
        table.write(pa.Table.from_pylist([{"id": 1, "day": "a"}], table.arrow_schema))
    assert table.read().num_rows == 1
    with pytest.raises(InvalidSchema, match="has the keys id, and option primary-key names day"):
        catalog.create_table("db.u", columns, primary_keys=["id"], options={"primary-key": "day"})
    assert not catalog.table_exists("db.u")
