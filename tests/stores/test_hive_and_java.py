"""One metastore of Hive for Java's Hive catalog and ours: the same tables, the same lock."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import AddColumn, Catalog, DropColumn
from lakewright.storage.files.hive_names import HiveNames, repeats
from tests.oracles.client import LatestJavaOracle, OracleError
from tests.support.stores.servers import hive_server
from tests.support.tables.builders import EVENTS, content, events, new_table, rows

TYPES = {
    "id": "BIGINT",
    "flag": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "n": "INT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(10, 2)",
    "fixed": "CHAR(3)",
    "short": "VARCHAR(20)",
    "long": "VARCHAR(70000)",
    "text": "STRING",
    "bin": "BINARY(4)",
    "bytes": "BYTES",
    "day": "DATE",
    "clock": "TIME(3)",
    "at": "TIMESTAMP(6)",
    "zoned": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "listed": "ARRAY<INT>",
    "mapped": "MAP<STRING, BIGINT>",
    "counted": "MULTISET<STRING>",
    "row": "ROW<a INT, b ARRAY<STRING>>",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # The client that pyspark brings is one of Hive 2.3, which version 4 does not serve any more.
    with hive_server(3, tmp_path_factory.mktemp("hive")) as address:
        yield address


def known(catalog: Catalog, name: str) -> Any:
    assert isinstance(catalog.listed, HiveNames)
    return catalog.listed.metastore.table(*name.split("."))


@pytest.mark.mission("PT15", "CT5", "CT11")
def test_java_and_we_list_read_write_alter_rename_and_drop_one_anothers_tables(
    java_latest: LatestJavaOracle, address: str, tmp_path: Path
) -> None:
    options = {"metastore": "hive", "uri": address, "lock.enabled": "true"}
    warehouse = f"file:{tmp_path}"
    catalog = Catalog.open(str(tmp_path), options=options, durable=False)
    with java_latest.using_catalog(options):
        java_latest.create(
            warehouse, "db.theirs", {"id": "BIGINT", "v": "STRING"}, options={"my.note": "x"}
        )
        java_latest.write(warehouse, "db.theirs", [{"id": 1, "v": "a"}])
        assert catalog.list_tables("db") == ("theirs",)
        theirs = catalog.table("db.theirs")
        theirs.write(rows(theirs, [{"id": 2, "v": "b"}]))
        assert len(java_latest.read(warehouse, "db.theirs")) == 2
        # What Java told the metastore is what we would have told.
        assert repeats(known(catalog, "db.theirs"), theirs.schema)

        ours = new_table(catalog, EVENTS, name="db.ours", keys=["id"])
        ours.write(rows(ours, events(0, 3)))
        assert java_latest.tables(warehouse, "db") == ["ours", "theirs"]
        assert len(java_latest.read(warehouse, "db.ours")) == 3
        with pytest.raises(OracleError, match="already exist"):
            java_latest.create(warehouse, "db.ours", {"id": "BIGINT"})

        java_latest.alter(warehouse, "db.ours", {"add_column": "n", "type": "INT"})
        ours = catalog.table("db.ours").alter(AddColumn("m", "DOUBLE"), DropColumn("day"))
        assert repeats(known(catalog, "db.ours"), ours.schema)
        java_latest.alter(warehouse, "db.ours", {"rename_column": "m", "to": "k"})
        java_latest.write(warehouse, "db.ours", [{"id": 7, "k": 0.5, "n": 1}])
        assert repeats(known(catalog, "db.ours"), catalog.table("db.ours").schema)
        assert len(content(catalog.table("db.ours"))) == 4

        renamed = catalog.rename_table("db.ours", "db.later")
        assert len(java_latest.read(warehouse, "db.later")) == 4
        java_latest.rename(warehouse, "db.later", "db.latest")
        latest = catalog.table("db.latest")
        assert latest.table_files.paths.root == f"{tmp_path}/db.db/latest"
        assert len(content(latest)) == 4
        assert not catalog.table_exists(renamed.name)

        java_latest.drop(warehouse, "db.latest")
        assert not catalog.table_exists("db.latest")
        catalog.drop_table("db.theirs")
        assert java_latest.tables(warehouse, "db") == []
        assert catalog.sync_tables(mode="sync", age_ms=0).is_none


@pytest.mark.mission("CT11")
def test_java_and_we_take_turns_by_the_lock_of_the_metastore(
    java_latest: LatestJavaOracle, address: str, tmp_path: Path
) -> None:
    options = {
        "metastore": "hive",
        "uri": address,
        "lock.enabled": "true",
        "lock-check-max-sleep": "100 ms",
        "lock-acquire-timeout": "3 s",
    }
    catalog = Catalog.open(str(tmp_path), options=options, durable=False)
    ours = new_table(catalog, EVENTS, name="turns.ours", keys=["id"])
    with java_latest.using_catalog(options):

        def write(first: int) -> None:
            ours.write(rows(ours, events(first, first + 1)))

        with ThreadPoolExecutor(1) as pool:
            for number in range(3):
                waiting = pool.submit(write, 10 + number)
                row = {"id": 20 + number, "day": "a", "v": "x"}
                java_latest.write(f"file:{tmp_path}", "turns.ours", [row])
                waiting.result()
        assert len(content(ours)) == 6
        assert isinstance(catalog.listed, HiveNames)
        lock, is_held = catalog.listed.metastore.lock("turns", "ours")
        assert is_held
        row = {"id": 30, "day": "a", "v": "x"}
        with pytest.raises(OracleError):
            java_latest.write(f"file:{tmp_path}", "turns.ours", [row])
        assert catalog.listed.metastore.unlock(lock)
        java_latest.write(f"file:{tmp_path}", "turns.ours", [row])
    assert len(content(ours)) == 7


@pytest.mark.mission("CT5")
def test_columns_of_every_type_are_told_as_java_tells_them(
    java_latest: LatestJavaOracle, address: str, tmp_path: Path
) -> None:
    options = {"metastore": "hive", "uri": address}
    catalog = Catalog.open(str(tmp_path), options=options, durable=False)
    new_table(catalog, TYPES, name="types.ours", partitions=["day"])
    before = {each.name: each.type for each in known(catalog, "types.ours").sd.cols}
    assert before.keys() == TYPES.keys()
    with java_latest.using_catalog(options):
        assert java_latest.read(f"file:{tmp_path}", "types.ours") == []
        # Java tells all columns anew where it adds one.
        java_latest.alter(f"file:{tmp_path}", "types.ours", {"add_column": "z", "type": "INT"})
    after = {each.name: each.type for each in known(catalog, "types.ours").sd.cols}
    # A client of Hive 2 knows one type of timestamps.
    assert after == {**before, "zoned": "timestamp", "z": "int"}
    assert repeats(known(catalog, "types.ours"), catalog.table("types.ours").schema)
