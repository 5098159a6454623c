"""Rewritten manifests: other clients read the table, filter it and write on it."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog
from lakewright.storage.codec import manifest_blocks
from lakewright.storage.operations.state.live_files import live_entries
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, Oracle, WritingOracle
from tests.support.tables.builders import compact, content, events, new_table, rows, with_options
from tests.support.tables.invariants import assert_only_reachable_files


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_other_clients_read_a_table_whose_manifests_were_rewritten_and_write_on_it(
    catalog: Catalog, java: JavaOracle, pypaimon: WritingOracle, rust: Oracle, keyed: bool
) -> None:
    options = {"manifest.target-file-size": "3 kb", **({"bucket": "2"} if keyed else {})}
    keys = ("day", "id") if keyed else ()
    table = new_table(catalog, partitions=("day",), keys=keys, options=options)
    for at in range(3):
        table.write(rows(table, [row for day in "cadb" for row in events(at, at + 2, day=day)]))
    compact(table, full=True)
    table.upkeep.drop_partitions("day = 'd'")
    before = content(table)

    result = table.upkeep.rewrite_manifests()

    assert result.entries_dropped > 0
    assert content(table) == before
    for client in (java, pypaimon, rust):
        assert as_read_by(client, catalog, table) == before
    for number, client in enumerate((java, pypaimon)):
        client.write(catalog.root, "db.t", [{"id": 90 + number, "day": "b", "v": "theirs"}])
        assert len(content(table)) == len(before) + number + 1
    compact(table, full=True)
    table.upkeep.rewrite_manifests()
    assert not table.upkeep.plan_rewrite_manifests().manifests
    for client in (java, pypaimon):
        assert as_read_by(client, catalog, table) == content(table)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_manifests_of_several_clients_are_copied_into_some_that_all_of_them_read(
    catalog: Catalog,
    java: JavaOracle,
    pypaimon: WritingOracle,
    rust: Oracle,
    keyed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"manifest.merge-min-count": "1000", **({"bucket": "2"} if keyed else {})}
    keys = ("day", "id") if keyed else ()
    table = new_table(catalog, partitions=("day",), keys=keys, options=options)
    for at in range(3):
        table.write(rows(table, [row for day in "cab" for row in events(at, at + 2, day=day)]))
        for number, client in enumerate((java, pypaimon)):
            written = {"id": 10 * at + number, "day": "b", "v": "theirs"}
            client.write(catalog.root, "db.t", [written])
    if keyed:
        # Java's own deletions, of files that the others wrote.
        java.compact(catalog.root, "db.t", full=True)
    before, files = content(table), table.table_files
    live = {each.identity: each for each in live_entries(files, table.history.latest_snapshot())}

    monkeypatch.setattr(manifest_blocks, "_LEAST_ENTRIES_A_STEP", 0)
    merging = with_options(table, manifest__merge_min_count="2")
    merging.write(rows(table, events(90, 91, day="z")))

    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    (base,) = files.manifests.read_list(snapshot.base_manifest_list)
    held = {each.identity: each for each in files.manifests.read_listed(base)}
    assert held == live
    assert len(content(table)) == len(before) + 1
    for client in (java, pypaimon, rust):
        assert as_read_by(client, catalog, table) == content(table)
    java.write(catalog.root, "db.t", [{"id": 95, "day": "b", "v": "theirs"}])
    pypaimon.write(catalog.root, "db.t", [{"id": 96, "day": "b", "v": "theirs"}])
    assert len(content(table)) == len(before) + 3
    assert_only_reachable_files(table)
