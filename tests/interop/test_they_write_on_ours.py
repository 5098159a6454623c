"""Other clients write and maintain tables of ours, and we go on from there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import NotRevertible
from tests.interop.test_they_read_ours import KINDS, as_read_by, make
from tests.oracles.client import JavaOracle, WritingOracle
from tests.support.tables.builders import compact, content, events, expire, rows, values_of
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
)

DAYS = ("a", "b")


def fill(table: Table) -> None:
    for day in DAYS:
        table.write(rows(table, events(0, 4, day=day)))
        table.write(rows(table, events(2, 6, day=day, v="second")))


@pytest.mark.parametrize("kind", list(KINDS))
def test_java_writes_on_top_and_both_see_the_same(
    catalog: Catalog, java: JavaOracle, kind: str
) -> None:
    table = make(catalog, kind)
    fill(table)
    before = table.read().num_rows
    java.write(catalog.root, table.name, events(5, 8, day="a", v="java"))
    assert content(table) == as_read_by(java, catalog, table)
    # Key 5 was there, 6 and 7 are new.
    assert table.read().num_rows == before + (2 if kind == "keyed" else 3)
    table.write(rows(table, events(7, 9, day="a", v="ours")))
    assert content(table) == as_read_by(java, catalog, table)
    if kind == "keyed":
        assert {"id": 7, "day": "a", "v": "ours7"} in map(json.loads, content(table))


def test_java_deletes_rows_of_ours(catalog: Catalog, java: JavaOracle) -> None:
    table = make(catalog, "keyed")
    fill(table)
    gone = [*events(0, 1, day="a"), *events(4, 6, day="b")]
    java.write(catalog.root, table.name, gone, kinds=["-D"] * len(gone))
    assert values_of(table, "id") == [0, 1, 1, 2, 2, 3, 3, 4, 5]
    compact(table, full=True)
    assert values_of(table, "id") == [0, 1, 1, 2, 2, 3, 3, 4, 5]
    assert content(table) == as_read_by(java, catalog, table)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("overwrite", ["dynamic", "table", {"day": "a"}], ids=str)
def test_java_overwrites_rows_of_ours(
    catalog: Catalog, java: JavaOracle, kind: str, overwrite: Any
) -> None:
    table = make(catalog, kind)
    fill(table)
    java.write(catalog.root, table.name, events(0, 2, day="a", v="java"), overwrite=overwrite)
    assert content(table) == as_read_by(java, catalog, table)
    expected = 2 if overwrite == "table" else 2 + (6 if kind == "keyed" else 8)
    assert table.read().num_rows == expected


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", list(KINDS))
def test_java_compacts_and_expires_what_we_wrote(
    catalog: Catalog, java: JavaOracle, pypaimon: WritingOracle, kind: str
) -> None:
    table = make(catalog, kind)
    for _ in range(3):
        fill(table)
    before = content(table)
    files_before = len(table.at().files())
    java.compact(catalog.root, table.name)
    assert content(table) == before
    assert len(table.at().files()) < files_before
    assert_readable_history(table)
    assert java.expire_snapshots(catalog.root, table.name, retain_max=1, retain_min=1) > 0
    assert len(table.history.snapshots()) == 1
    assert_only_reachable_files(table)
    assert content(table) == before == as_read_by(pypaimon, catalog, table)
    # And on: our write, our compaction, our expiry, on top of theirs.
    table.write(rows(table, events(1, 3, day="a", v="ours")))
    compact(table, full=True)
    expire(table)
    assert content(table) == as_read_by(java, catalog, table)
    assert content(table) == as_read_by(pypaimon, catalog, table)


@pytest.mark.parametrize("kind", list(KINDS))
def test_java_goes_on_from_our_compaction_and_expiry(
    catalog: Catalog, java: JavaOracle, kind: str
) -> None:
    table = make(catalog, kind)
    fill(table)
    compact(table, full=True)
    expire(table)
    java.write(catalog.root, table.name, events(0, 3, day="a", v="java"))
    java.compact(catalog.root, table.name)
    assert content(table) == as_read_by(java, catalog, table)
    compact(table, full=True)
    assert content(table) == as_read_by(java, catalog, table)
    java.expire_snapshots(catalog.root, table.name, retain_max=1, retain_min=1)
    assert content(table) == as_read_by(java, catalog, table)


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_java_finds_no_orphans_in_tables_of_ours(
    catalog: Catalog, java: JavaOracle, kind: str
) -> None:
    table = make(catalog, kind)
    fill(table)
    compact(table, full=True)
    expire(table, keep=2)
    # Every file there is, however young, is older than that.
    removed = java.remove_orphan_files(catalog.root, table.name, older_than="2100-01-01 00:00:00")
    assert removed == []
    assert_readable_history(table)


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_java_does_not_see_what_is_condemned_and_may_clean_it(
    catalog: Catalog, java: JavaOracle, kind: str
) -> None:
    table = make(catalog, kind)
    fill(table)
    expected = content(table)
    table.stage(rows(table, events(4, 8, day="b", v="dead")))
    table.upkeep.remove_orphans(older_than_ms=0, even_recent=True)
    (run,) = table.upkeep.condemned()
    assert as_read_by(java, catalog, table) == expected
    removed = java.remove_orphan_files(catalog.root, table.name, older_than="2100-01-01 00:00:00")
    assert len(removed) == run.files
    java.write(catalog.root, table.name, events(0, 3, day="a", v="java"))
    java.compact(catalog.root, table.name)
    java.expire_snapshots(catalog.root, table.name, retain_max=1, retain_min=1)
    assert content(table) == as_read_by(java, catalog, table)
    with pytest.raises(NotRevertible, match="another client removed them"):
        table.upkeep.put_back(run.id)
    assert table.upkeep.collect(early=True).files_deleted == 0


@pytest.mark.parametrize("kind", list(KINDS))
def test_pypaimon_appends_and_we_compact_both(
    catalog: Catalog, released_pypaimon: WritingOracle, java: JavaOracle, kind: str
) -> None:
    table = make(catalog, kind)
    fill(table)
    for number in range(3):
        released_pypaimon.write(catalog.root, table.name, events(4, 8, day="b", v=f"py{number}"))
    expected = as_read_by(released_pypaimon, catalog, table)
    assert content(table) == expected
    compact(table, full=True)
    assert content(table) == expected
    assert as_read_by(released_pypaimon, catalog, table) == expected
    assert as_read_by(java, catalog, table) == expected
    expire(table)
    assert content(table) == expected
    assert_nothing_missing(table)


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_tags_of_java_protect_their_files_from_our_expiry(
    catalog: Catalog, java: JavaOracle, kind: str
) -> None:
    table = make(catalog, kind)
    fill(table)
    tagged = content(table)
    java.create_tag(catalog.root, table.name, "kept", snapshot=4)
    compact(table, full=True)
    table.write(rows(table, events(0, 1, day="a", v="later")))
    expire(table)
    assert len(table.history.snapshots()) == 1
    assert as_read_by(java, catalog, table, tag="kept") == tagged
    java.delete_tag(catalog.root, table.name, "kept")
    assert_only_reachable_files(table)


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_branches_of_java_keep_their_files_when_we_expire_main(
    catalog: Catalog, java: JavaOracle, kind: str
) -> None:
    table = make(catalog, kind)
    fill(table)
    on_branch = content(table)
    java.create_tag(catalog.root, table.name, "start", snapshot=4)
    java.create_branch(catalog.root, table.name, "b", tag="start")
    java.delete_tag(catalog.root, table.name, "start")
    compact(table, full=True)
    table.write(rows(table, events(0, 1, day="a", v="later")))
    expire(table)
    branch = java.read(catalog.root, f"{table.name}$branch_b")
    assert sorted(json.dumps(row, sort_keys=True) for row in branch) == on_branch
