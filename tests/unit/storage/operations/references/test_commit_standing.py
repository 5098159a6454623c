"""What follows a commit knows of it, however manifests were merged; and nothing else does."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.operations.references.commit_standing import (
    follows,
    is_followed,
    is_on_top,
    remove_stray,
    trace_of,
)
from lakewright.storage.operations.references.condemn import condemn, held_file
from tests.support.tables.builders import compact, events, new_table, rows


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
    files = table.table_files
    history = table.history.snapshots()
    assert len(history) == 9
    for before, after in pairwise(history):
        assert follows(files, after, trace_of(files, before)), after.id


def test_what_was_made_on_top_of_another_snapshot_is_told_apart(catalog: Catalog) -> None:
    table = new_table(catalog)
    for number in range(4):
        table.write(rows(table, events(number, number + 1)))
    fourth = table.history.snapshots()[3]
    table.history.create_branch("b", snapshot=4)
    table.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))
    table.write(rows(table, events(9, 10)))
    assert not follows(
        table.table_files, fourth, trace_of(table.table_files, table.history.snapshots()[2])
    )


def test_what_follows_a_commit_that_added_nothing_may_know_of_it(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    table.upkeep.run(table.upkeep.plan_analyze())
    table.write(rows(table, events(3, 4)))
    _, analyzed, following = table.history.snapshots()
    assert follows(table.table_files, following, trace_of(table.table_files, analyzed))


@pytest.mark.parametrize("merge_from", ["2", "30"])
def test_what_follows_a_commit_that_only_removed_files_knows_of_it_and_nothing_else_does(
    catalog: Catalog, merge_from: str
) -> None:
    options = {
        "bucket": "1",
        "manifest.merge-min-count": merge_from,
        "manifest.full-compaction-threshold-size": "1 b",
    }
    table = new_table(catalog, partitions=["day"], keys=["day", "id"], options=options)
    for day in "ab":
        table.write(rows(table, events(0, 3, day=day)))
    files = table.table_files
    table.upkeep.drop_partitions(partitions=[{"day": "a"}])
    trace = trace_of(files, table.history.snapshots()[-1])
    table.write(rows(table, events(3, 4, day="b")))
    assert follows(files, table.history.snapshots()[-1], trace)

    table.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))
    # It removes the same file, and keeps its rows in another one.
    compact(table, full=True)
    table.write(rows(table, events(3, 4, day="b")))
    assert not follows(files, table.history.snapshots()[-1], trace)


def write(table: Table, *numbers: int) -> None:
    for number in numbers:
        table.write(rows(table, events(number, number + 1)))


def test_a_snapshot_stands_on_its_base_and_not_on_another_one_of_that_id(catalog: Catalog) -> None:
    table = new_table(catalog)
    write(table, 1, 2, 3, 4)
    base, ours = table.history.snapshots()[2:]
    trace = trace_of(table.table_files, ours)
    assert is_on_top(table.table_files, base, ours, trace)
    table.history.create_branch("b", snapshot=4)
    table.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))
    write(table, 5, 6)
    assert not is_on_top(table.table_files, base, ours, trace)


def test_a_snapshot_that_gave_way_to_another_one_is_told_by_what_follows_that(
    catalog: Catalog,
) -> None:
    table = new_table(catalog)
    write(table, 1, 2, 3, 4)
    base, ours = table.history.snapshots()[2:]
    trace = trace_of(table.table_files, ours)
    table.history.create_branch("b", snapshot=4)
    table.history.run(table.history.plan_rollback(snapshot=3, grace_ms=0))
    write(table, 5)
    assert not is_followed(table.table_files, ours, trace)
    write(table, 6)
    assert not is_on_top(table.table_files, base, ours, trace)
    assert not is_followed(table.table_files, ours, trace)
    write(table, 7)
    assert not is_followed(table.table_files, ours, trace)


def test_above_a_gap_a_snapshot_counts_as_followed(unchecked_catalog: Catalog) -> None:
    """The next snapshot is gone, so it is unknown; a commit that stays loses nothing."""
    table = new_table(unchecked_catalog)
    write(table, 1, 2)
    ours = table.history.snapshots()[1]
    trace = trace_of(table.table_files, ours)
    table.history.create_branch("b", snapshot=2)
    table.history.run(table.history.plan_rollback(snapshot=1, grace_ms=0))
    write(table, 3, 4, 5)
    assert not is_followed(table.table_files, ours, trace)
    table.table_files.fs.delete(table.table_files.paths.snapshot(3))
    assert is_followed(table.table_files, ours, trace)


def test_a_stray_stays_while_a_rollback_may_see_to_it(unchecked_catalog: Catalog) -> None:
    table = new_table(unchecked_catalog)
    write(table, 1, 2, 3, 4)
    files, latest = table.table_files, table.history.snapshots()[1]
    pin = held_file(files, files.paths.snapshot(2), files.snapshots.read_file(2))
    rollback = condemn(files, "rollback", [], [], pins=[pin])
    files.fs.delete(files.paths.snapshot(3))
    files.snapshots.hint_latest(2)
    assert not remove_stray(files, latest)
    assert files.snapshots.exists(4)
    rollback.end()
    assert remove_stray(files, latest)
    assert not files.snapshots.exists(4)


def test_a_rollback_that_died_an_hour_ago_lets_a_commit_go_on(
    unchecked_catalog: Catalog,
) -> None:
    table = new_table(unchecked_catalog)
    write(table, 1, 2, 3, 4)
    files = table.table_files
    pin = held_file(files, files.paths.snapshot(2), files.snapshots.read_file(2))
    condemn(files, "rollback", [], [], pins=[pin])
    files.fs.delete(files.paths.snapshot(3))
    files.snapshots.hint_latest(2)
    for each in Path(files.paths.condemned_dir).iterdir():
        moment = each.stat().st_mtime - 3601
        os.utime(each, (moment, moment))
    write(table, 5)
    assert [each.id for each in table.history.snapshots()] == [1, 2, 3]
