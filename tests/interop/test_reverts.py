"""Reverts: other clients read the table, expire what was taken back, and write on it."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, WritingOracle
from tests.support.histories.reverts import KINDS, VERBS, fill, made_by
from tests.support.tables.builders import compact, content, events, rows


@pytest.mark.parametrize(
    ("kind", "verb"),
    [("keyed", "compact"), ("keyed", "drop"), ("append", "drop"), ("vectors", "compact")],
)
def test_other_clients_read_a_reverted_table_and_lose_nothing_of_it(
    catalog: Catalog, java: JavaOracle, pypaimon: WritingOracle, kind: str, verb: str
) -> None:
    table = KINDS[kind].table(catalog)
    fill(table)
    before = content(table)
    made = made_by(table, VERBS[verb])
    table.history.revert(*made)
    assert content(table) == before
    for client in (java, pypaimon):
        assert as_read_by(client, catalog, table) == before
    # Java deletes what expired snapshots removed, and knows nothing of a revert.
    table.write(rows(table, events(20, 22, day="b")))
    settled = content(table)
    java.expire_snapshots(catalog.root, table.name, retain_max=1, retain_min=1)
    assert len(table.history.snapshots()) == 1
    for client in (java, pypaimon):
        assert as_read_by(client, catalog, table) == settled
    java.write(catalog.root, table.name, [{"id": 30, "day": "a", "v": "java"}])
    compact(table, full=True)
    expected = content(table)
    for client in (java, pypaimon):
        assert as_read_by(client, catalog, table) == expected
