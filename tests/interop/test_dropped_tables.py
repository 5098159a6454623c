"""Java beside a dropped table: it sees none, and makes another one in the place of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.storage import Catalog
from tests.oracles.client import LatestJavaOracle
from tests.support.stores.watched_files import WatchedFiles
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_sound


@pytest.mark.parametrize("moves", [True, False])
def test_java_makes_a_table_in_the_place_of_a_dropped_one_which_still_comes_back(
    java_latest: LatestJavaOracle, tmp_path: Path, moves: bool
) -> None:
    catalog = Catalog.open(str(tmp_path), env=FixedEnv())
    if not moves:
        # As in an object store, the folder stays.
        catalog = Catalog(WatchedFiles(catalog.fs), catalog.root, catalog.env)
    table = new_table(catalog, keys=("id",), options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    before = content(table)
    catalog.drop_table("db.t")
    assert java_latest.tables(tmp_path, "db") == []
    java_latest.create(tmp_path, "db.t", {"id": "BIGINT", "w": "STRING"})
    java_latest.write(tmp_path, "db.t", [{"id": 1, "w": "a"}])
    assert java_latest.tables(tmp_path, "db") == ["t"]
    assert java_latest.read(tmp_path, "db.t") == [{"id": 1, "w": "a"}]
    theirs = catalog.table("db.t")
    assert_sound(theirs)
    catalog.drop_table("db.t", grace_ms=0)
    assert content(catalog.undrop_table("db.t")) == before
    assert len(java_latest.read(tmp_path, "db.t")) == 3
    assert_sound(catalog.table("db.t"))
