"""Rewritten manifests: other clients read the table, filter it and write on it."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, Oracle, WritingOracle
from tests.support.tables.builders import compact, content, events, new_table, rows
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
