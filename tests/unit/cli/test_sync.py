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


def test_a_sync_says_what_it_did_and_what_still_differs(
    lakewright: Lakewright, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_table(catalog, EVENTS)
    new_table(catalog, EVENTS, name="db.u")
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_METASTORE", "jdbc")
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_URI", f"sqlite://{tmp_path}/names.db")
    done = lakewright(catalog, "sync", "--age", "0").lines
    assert done[1:] == ["listed now: db.t", "listed now: db.u", "the catalog is synced: add"]
    catalog.drop_table("db.t")
    differ = "the catalog and the warehouse still differ; `--mode sync`"
    done = lakewright(catalog, "sync", "--age", "0").lines
    assert done[0] == "gone: db.t"
    assert done[1].startswith(differ)
    done = lakewright(catalog, "sync", "--age", "0", "--mode", "drop").lines
    assert done == ["taken off the list: db.t", "the catalog is synced: drop"]
    done = lakewright(catalog, "sync", "--age", "0").lines
    assert done == ["the catalog and the warehouse agree", "the catalog is synced: add"]
