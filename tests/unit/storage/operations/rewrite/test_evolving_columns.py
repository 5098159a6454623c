"""Compaction of tables whose columns evolve: health counts what its plan would join."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog
from tests.support.tables.builders import events, new_table, rows

EVOLVING = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}


@pytest.mark.parametrize(
    ("days", "most"),
    [("ababab", 0), ("aaabbb", 3), ("abbab", 2), ("aabaaa", 3), ("a", 0)],
)
def test_small_files_are_those_that_the_plan_joins(catalog: Catalog, days: str, most: int) -> None:
    table = new_table(catalog, partitions=["day"], options=EVOLVING)
    for number, day in enumerate(days):
        table.write(rows(table, events(number, number + 1, day=day)))
    small = max(each.small_file_count for each in table.at().partitions())
    assert small == most
    for needed in range(2, 5):
        plan = table.upkeep.plan_compact(min_files=needed)
        assert (not plan.tasks) is (most < needed)
