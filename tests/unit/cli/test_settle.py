"""`lakewright settle`, `respec --settle`, and what is said of files that are away."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import content, expire
from tests.unit.cli.conftest import Lakewright
from tests.unit.cli.test_respec import BY_HOUR
from tests.unit.cli.test_respec import days as days  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.mission("PT1")


def away(catalog: Catalog) -> int:
    files = catalog.table("db.t").at().files()
    return sum(each.file.external_path is not None for each in files)


def test_files_that_are_away_are_told_and_brought_home(
    catalog: Catalog, lakewright: Lakewright, days: Table
) -> None:
    due = content(days)
    told = lakewright(catalog, *BY_HOUR).out
    assert "5 files stay where they lie, named by their places" in told
    assert "lakewright settle db.t" in told
    shown = lakewright(catalog, "show", "db.t")
    assert "places" in shown.out
    assert "`lakewright settle db.t`" in shown.out
    shown = lakewright(catalog, "show", "db.t", "--format", "json")
    assert shown.json["health"]["away_file_count"] == 5
    adopted = lakewright(catalog, "adopt", "--format", "json").json
    assert adopted["files"]["away_files"] == 5
    assert adopted["files"]["away_bytes"] > 0
    assert any("lakewright settle db.t" in each for each in adopted["findings"])

    planned = lakewright(catalog, "settle", "db.t", "--dry-run")
    assert "db.t, snapshot 6: 5 files, " in planned.out
    assert planned.lines[-1] == "dry run: nothing was written"
    assert away(catalog) == 5

    done = lakewright(catalog, "settle", "db.t")
    assert (done.code, done.err, away(catalog)) == (0, "", 0)
    assert "snapshot 7 of db.t: 5 files, " in done.out
    assert "earlier snapshots, tags and branches name the former places" in done.out
    assert content(catalog.table("db.t")) == due
    assert lakewright(catalog, "settle", "db.t").lines == ["all files of db.t are home"]
    assert "places" not in lakewright(catalog, "show", "db.t").out
    expire(catalog.table("db.t"))


def test_a_change_brings_its_files_home_at_once_where_it_is_asked_to(
    catalog: Catalog, lakewright: Lakewright, days: Table
) -> None:
    due = content(days)
    told = lakewright(catalog, *BY_HOUR, "--settle")
    assert away(catalog) == 0
    assert "5 files brought home" in told.out
    assert "stay where they lie" not in told.out
    assert content(catalog.table("db.t")) == due
