"""A database that Java's JDBC catalog and ours share: one list of tables, one lock of each."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lakewright.storage import Catalog
from tests.oracles.client import LatestJavaOracle
from tests.support.tables.builders import EVENTS, content, events, new_table, rows


@pytest.mark.mission("CT2", "CT11")
def test_java_and_we_share_tables_and_their_lock(
    java_latest: LatestJavaOracle, tmp_path: Path
) -> None:
    database, warehouse = tmp_path / "names.db", tmp_path / "warehouse"
    options = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{database}",
        "catalog-key": "shared",
        "lock.enabled": "true",
        "lock-check-max-sleep": "100 ms",
    }
    catalog = Catalog.open(str(warehouse), options=options, durable=False)
    with java_latest.using_catalog(options):
        java_latest.create(warehouse, "db.theirs", {"id": "BIGINT", "v": "STRING"})
        java_latest.write(warehouse, "db.theirs", [{"id": 1, "v": "a"}])
        assert catalog.list_tables("db") == ("theirs",)
        theirs = catalog.table("db.theirs")
        theirs.write(rows(theirs, [{"id": 2, "v": "b"}]))
        assert len(java_latest.read(warehouse, "db.theirs")) == 2

        ours = new_table(catalog, EVENTS, name="db.ours", keys=["id"])
        ours.write(rows(ours, events(0, 3)))
        assert java_latest.tables(warehouse, "db") == ["ours", "theirs"]
        assert len(java_latest.read(warehouse, "db.ours")) == 3
        with pytest.raises(Exception, match="already exist"):
            java_latest.create(warehouse, "db.ours", {"id": "BIGINT"})
        with closing(sqlite3.connect(database)) as connection:
            told = dict(
                connection.execute(
                    "SELECT table_name, count(*) FROM paimon_table_properties "
                    "WHERE property_key IN ('primary-key', 'bucket-key') GROUP BY table_name"
                )
            )
        assert told == {"ours": 2}
        # A table that Java altered repeats the properties that we would.
        assert catalog.plan_sync_tables(age_ms=0).is_none

        def write(first: int) -> None:
            ours.write(rows(ours, events(first, first + 1)))

        with ThreadPoolExecutor(1) as pool:
            for number in range(3):
                waiting = pool.submit(write, 10 + number)
                row = {"id": 20 + number, "day": "a", "v": "x"}
                java_latest.write(warehouse, "db.ours", [row])
                waiting.result()
        assert len(content(ours)) == 9

        # Java asks for the row that we would insert: it takes the place of one that has expired.
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute(
                "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) "
                "VALUES ('shared.db.ours', 1)"
            )
        java_latest.write(warehouse, "db.ours", [{"id": 30, "day": "a", "v": "x"}])
        with closing(sqlite3.connect(database)) as connection:
            left = connection.execute("SELECT lock_id FROM paimon_distributed_locks").fetchall()
        assert left == []
        assert len(content(ours)) == 10

        java_latest.drop(warehouse, "db.ours")
        assert not catalog.table_exists("db.ours")
        catalog.drop_table("db.theirs")
        assert java_latest.tables(warehouse, "db") == []
