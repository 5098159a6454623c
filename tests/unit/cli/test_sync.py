"""`lakewright sync`: what a catalog's database lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.storage import Catalog
from tests.support.tables.builders import EVENTS, new_table
from tests.unit.cli.conftest import Lakewright


@pytest.mark.mission("CT2", "CT11")
def test_a_warehouse_of_folders_is_listed_by_one_sync(
    lakewright: Lakewright, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_table(catalog, EVENTS)
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_METASTORE", "jdbc")
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_URI", f"sqlite://{tmp_path}/names.db")
    assert "no tables" in lakewright(catalog, "ls").out
    assert "not listed: db.t" in lakewright(catalog, "sync", "--age", "0", "--dry-run").lines
    told = lakewright(catalog, "sync", "--age", "0", "--format", "json").json
    assert (told["databases"], told["unlisted"]) == (["db"], ["db.t"])
    (listed,) = lakewright(catalog, "ls", "--format", "json").json
    assert listed["table"] == "db.t"
