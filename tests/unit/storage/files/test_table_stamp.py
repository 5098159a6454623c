"""Stamps: equal as long as a table is the same, at the same snapshot."""

from __future__ import annotations

from lakewright.storage import Catalog, SetOption
from tests.support.tables.builders import events, new_table, rows

HOUR_MS = 3_600_000


def test_a_stamp_changes_with_commits_and_schemas_and_with_nothing_else(catalog: Catalog) -> None:
    table = new_table(catalog, name="db.t")
    seen = [catalog.stamp("db.t")]
    assert seen[0].snapshot is None
    table.write(rows(table, events(0, 2)))
    seen.append(catalog.stamp("db.t"))
    table.history.create_tag("kept")
    assert catalog.stamp("db.t") == seen[-1]
    table.alter(SetOption("snapshot.num-retained.min", "3"))
    seen.append(catalog.stamp("db.t"))
    assert len(set(seen)) == 3


def test_a_stamp_tells_tables_apart_once_their_schemas_are_older_than_clocks_differ(
    catalog: Catalog,
) -> None:
    new_table(catalog, name="db.t")
    stamp = catalog.stamp("db.t")
    (schema,) = stamp.schemas
    assert not stamp.is_settled(schema.modified_ms + 1000)
    assert stamp.is_settled(schema.modified_ms + HOUR_MS)
    # No table lies there, and none can be told from another one.
    assert not catalog.stamp("db.other").is_settled(schema.modified_ms + HOUR_MS)
