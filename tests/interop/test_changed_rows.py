"""Every client reads the rows that deletes, updates and merges leave."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from tests.interop.test_they_read_ours import assert_read_alike
from tests.oracles.client import Oracle
from tests.support.tables.builders import compact, content, events, expire, new_table, rows

KEYED: dict[str, Any] = {"keys": ("id", "day"), "partitions": ("day",)}
KINDS: dict[str, dict[str, Any]] = {
    "append": {"partitions": ("day",)},
    "append in orc": {"options": {"file.format": "orc"}},
    "append in buckets": {"options": {"bucket": "2", "bucket-key": "id"}},
    "deletion vectors": {"partitions": ("day",), "options": {"deletion-vectors.enabled": "true"}},
    "keyed": {**KEYED, "options": {"bucket": "2"}},
    "keyed with deletion vectors": {
        **KEYED,
        "options": {"bucket": "1", "deletion-vectors.enabled": "true"},
    },
    "dynamic": {**KEYED, "options": {"bucket": "-1"}},
    "partial update": {
        **KEYED,
        "options": {
            "bucket": "1",
            "merge-engine": "partial-update",
            "partial-update.remove-record-on-delete": "true",
        },
    },
}


def filled(catalog: Catalog, kind: str) -> Table:
    table = new_table(catalog, **KINDS[kind])
    for day in ("a", "b"):
        table.write(rows(table, events(0, 6, day=day)))
        table.write(rows(table, events(6, 9, day=day)))
    return table


@pytest.mark.mission("MT18")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", list(KINDS))
def test_they_read_the_rows_that_changes_leave(
    catalog: Catalog, released_pypaimon: Oracle, java: Oracle, rust: Oracle, kind: str
) -> None:
    # The client in Rust refuses tables with deletion vectors that merge.
    readers = [java]
    if kind != "partial update":
        # This client refuses the option that deletes rows of a partial update.
        readers.append(released_pypaimon)
        readers += [] if "deletion" in kind else [rust]
    table = filled(catalog, kind)
    if kind == "keyed with deletion vectors":
        compact(table, full=True)
    table.delete("id = 1 OR (id = 7 AND day = 'a')")
    assert_read_alike(readers, catalog, table)
    table.update({"v": "v || '!'"}, "id IN (2, 8)")
    assert_read_alike(readers, catalog, table)
    table.merge(
        [{"id": 3, "day": "a", "v": "merged"}, {"id": 40, "day": "c", "v": "merged"}],
        on=["id", "day"],
        when_matched="update",
        when_not_matched="insert",
        when_not_matched_by_source=[("t.id = 5", "delete")],
    )
    assert_read_alike(readers, catalog, table)
    table.delete("day = 'b'")
    assert_read_alike(readers, catalog, table)
    after = content(table)
    compact(table, full=True)
    expire(table)
    assert content(table) == after
    assert_read_alike(readers, catalog, table)
