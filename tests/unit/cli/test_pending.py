"""`lakewright pending`: batches that wait are seen, committed and aborted."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import events, new_table, rows, values_of
from tests.support.tables.invariants import assert_only_reachable_files
from tests.unit.cli.conftest import Lakewright


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Three batches of one writer, one of another."""
    made = new_table(catalog, partitions=("day",))
    for user, number in (("loader", 1), ("loader", 2), ("loader", 10), ("other", 1)):
        made.keep_pending(
            made.stage(
                rows(made, events(number, number + 2)), commit_user=user, commit_identifier=number
            )
        )
    return made


def test_batches_that_wait_are_listed(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    listed = lakewright(catalog, "pending", "list", "db.t")
    assert listed.lines[0].split() == ["user", "batch", "mode", "rows", "files", "size"]
    assert [line.split()[:5] for line in listed.lines[2:]] == [
        ["loader", "1", "append", "2", "1"],
        ["loader", "2", "append", "2", "1"],
        ["loader", "10", "append", "2", "1"],
        ["other", "1", "append", "2", "1"],
    ]
    told = lakewright(catalog, "pending", "list", "db.t", "--format", "json").json
    assert [each["batch"] for each in told] == [1, 2, 10, 1]
    assert told[0]["rows"] == 2


def test_batches_up_to_one_are_committed_in_order_and_the_rest_waits(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    done = lakewright(catalog, "pending", "commit", "db.t", "loader", "--up-to", "2")
    assert done.lines == [
        "batch 1 of loader is committed as snapshot 1",
        "batch 2 of loader is committed as snapshot 2",
    ]
    assert values_of(table, "id") == [1, 2, 2, 3]
    again = lakewright(catalog, "pending", "commit", "db.t", "loader", "--up-to", "2")
    assert again.lines == ["no batch of loader waits to be committed to db.t"]
    assert len(table.pending_batches()) == 2


def test_an_aborted_batch_goes_with_its_files(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    gone = lakewright(catalog, "pending", "abort", "db.t", "loader", "2")
    assert gone.lines == ["batch 2 of loader aborted: 1 file deleted"]
    again = lakewright(catalog, "pending", "abort", "db.t", "loader", "2", code=3)
    assert "no batch 2 of loader waits" in again.err
    assert again.err.endswith("of that user there are 1, 10\n")
    lakewright(catalog, "pending", "commit", "db.t", "loader")
    lakewright(catalog, "pending", "abort", "db.t", "other", "1")
    empty = lakewright(catalog, "pending", "list", "db.t")
    assert empty.lines == ["no batch of db.t waits to be committed"]
    assert_only_reachable_files(table)
