"""What follows a commit knows of it, however manifests were merged; and nothing else does."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lakewright.storage import Catalog
from lakewright.storage.operations.commit_standing import follows, trace_of
from tests.support.builders import compact, events, new_table, rows


@pytest.mark.parametrize("merge_from", ["2", "30"])
def test_every_snapshot_is_known_to_the_one_made_on_top_of_it(
    catalog: Catalog, merge_from: str
) -> None:
    options = {
        "bucket": "1",
        "manifest.merge-min-count": merge_from,
        "manifest.full-compaction-threshold-size": "1 b",
    }
    table = new_table(catalog, keys=["id"], options=options)
    for number in range(3):
        table.write(rows(table, events(number, number + 4, v=f"v{number}-")))
        table.write(rows(table, events(number, number + 1, v=f"w{number}-")))
        compact(table, full=number == 1)
    table.write(rows(table, events(2, 3)), mode="overwrite")
    table.write(rows(table, events(3, 4)))
    files = table.files
    history = table.snapshots()
    assert len(history) == 9
    for before, after in pairwise(history):
        assert follows(files, after, trace_of(files, before)), after.id


def test_what_was_made_on_top_of_another_snapshot_is_told_apart(catalog: Catalog) -> None:
    table = new_table(catalog)
    for number in range(4):
        table.write(rows(table, events(number, number + 1)))
    fourth = table.snapshots()[3]
    table.create_branch("b", snapshot_id=4)
    table.run_rollback(table.plan_rollback(snapshot_id=2))
    table.write(rows(table, events(9, 10)))
    assert not follows(table.files, fourth, trace_of(table.files, table.snapshots()[2]))
