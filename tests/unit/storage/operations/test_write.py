"""Writing: modes, partitions, numbering, and rows that do not fit."""

from __future__ import annotations

from lakewright.storage import Catalog
from tests.support.builders import compact, content, events, expire, new_table, rows, values_of


def test_appended_rows_are_added_to_those_there(any_catalog: Catalog) -> None:
    table = new_table(any_catalog)
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, events(2, 5)))
    assert values_of(table, "id") == [0, 1, 2, 2, 3, 4]
    before = content(table)
    compact(table, full=True)
    expire(table)
    assert content(table) == before
