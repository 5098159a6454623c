"""What a process knows of manifests spares it reads, and never hides a late file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.operations.state.keys_of_files import FITTING
from tests.support.stores.watched_files import WatchedFiles
from tests.support.tables.builders import content, expire, remove_orphans, rows
from tests.support.tables.late_commits import commit_late
from tests.unit.storage.operations.respec.test_keyed import by_day, event, respec

pytestmark = pytest.mark.mission("PT1")


@pytest.fixture(autouse=True)
def remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FITTING, "most", 100)
    monkeypatch.setattr(FITTING, "_fits", {})


def read_by_commit(catalog: Catalog, table: Table) -> tuple[int, int]:
    """How many manifests and schemas a commit reads, of rows that were staged before."""
    staged = catalog.table(table.name).stage(rows(table, [event("a", 1, 2, v="x")]))
    fs = WatchedFiles(catalog.fs)
    replace(catalog, fs=fs).table(table.name).commit(staged)
    read = [each.path for each in fs.calls if each.name.startswith("read")]
    manifests = [each for each in read if "/manifest-" in each and "list" not in each]
    return len(manifests), len([each for each in read if "/schema-" in each])


def test_a_later_commit_looks_at_new_manifests_and_at_no_schema_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = respec(catalog, by_day(catalog), "dt", "hh")
    for _ in range(6):
        table.write(rows(table, [event("b", 2, 1, v="x")]))
    manifests, schemas = read_by_commit(catalog, table)
    monkeypatch.setattr(FITTING, "most", 0)
    monkeypatch.setattr(FITTING, "_fits", {})
    without = read_by_commit(catalog, table)
    # One more manifest came in between.
    assert manifests < without[0] - 1
    assert schemas < without[1]
    remove_orphans(table)


def test_a_late_file_is_found_though_all_earlier_manifests_are_known(catalog: Catalog) -> None:
    table = opened = by_day(catalog)
    late = opened.stage(rows(opened, [event("a", 1, 2, v="late")]))
    table = respec(catalog, table, "hh")
    table.write(rows(table, [event("a", 1, 2, v="ours")]))
    commit_late(opened, late)
    with pytest.raises(UnsupportedError, match=r"respec db\.t --keys 'hh'"):
        table.write(rows(table, [event("a", 1, 2, v="next")]))
    assert not table.inspect.files_fit()
    table.upkeep.respec(["hh"])
    table.write(rows(table, [event("a", 1, 2, v="next")]))
    assert any('"next"' in each for each in content(table))
    expire(table)
    remove_orphans(table)


def test_what_is_known_is_bounded(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FITTING, "most", 2)
    table = respec(catalog, by_day(catalog), "dt", "hh")
    for number in range(4):
        table.write(rows(table, [event("a", 1, 2, v=f"{number}")]))
    assert len(FITTING._fits) <= 2
    remove_orphans(table)
