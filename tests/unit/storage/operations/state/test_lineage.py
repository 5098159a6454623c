"""Lineage: histories that hang together are proved to, and those that do not are noticed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.operations.state.lineage import Chain, Lineage
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
    with_options,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_nothing_missing

KINDS: dict[str, dict[str, Any]] = {
    "append": {"options": {"manifest.merge-min-count": "2"}},
    "partitioned": {"partitions": ("day",), "options": {"manifest.merge-min-count": "3"}},
    "keyed": {"keys": ("id",), "options": {"bucket": "1", "manifest.merge-min-count": "2"}},
    "merged in full": {
        "keys": ("id",),
        "options": {"bucket": "1", "manifest.full-compaction-threshold-size": "1 b"},
    },
    "deletion vectors": {
        "keys": ("id",),
        "options": {"bucket": "1", "deletion-vectors.enabled": "true"},
    },
    "dynamic buckets": {"keys": ("id",), "options": {"bucket": "-1"}},
}


def breaks(table: Table, lineage: Lineage | None = None) -> tuple[int, ...]:
    listed = table.table_files.snapshots.listed()
    return (lineage or Lineage()).breaks(table.table_files, listed, min(listed))


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_was_committed_one_after_the_other_is_one_lineage(catalog: Catalog, kind: str) -> None:
    table = new_table(catalog, **KINDS[kind])
    for number in range(8):
        table.write(rows(table, events(number, number + 3, day="ab"[number % 2], v=str(number))))
        if number % 3 == 2:
            compact(table, full=True)
    table.write(rows(table, events(0, 3, day="a")), mode="overwrite")
    table.write(rows(table, events(0, 3, day="b")))
    assert breaks(table) == ()


def test_a_commit_that_changed_no_file_is_followed_where_nothing_else_changed(
    catalog: Catalog,
) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    table.upkeep.run(table.upkeep.plan_analyze())
    table.write(rows(table, events(3, 5)))
    table.write(rows(table, events(5, 7)))
    assert breaks(table) == ()


def test_a_gap_is_a_break(unchecked_catalog: Catalog) -> None:
    table = new_table(unchecked_catalog)
    for number in range(6):
        table.write(rows(table, events(number, number + 1)))
    Path(table.table_files.paths.snapshot(3)).unlink()
    assert breaks(table) == (4,)


def forwarded(catalog: Catalog, *, earlier: int = 0) -> Table:
    """Main became a branch whose first snapshots had expired, as other writers do it.

    After `earlier` ones, snapshots 1 to 3 are main's, 4 and 5 the branch's, which still needs what
    3 replaced.
    """
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    for number in range(earlier):
        table.write(rows(table, events(30 + number, 31 + number)))
    table.write(rows(table, events(0, 3, v="first")))
    branch = table.history.create_branch("b", snapshot=1 + earlier)
    for number in range(4):
        branch.write(rows(branch, events(10 + number, 11 + number)))
    expire(branch, keep=2)
    table.write(rows(table, events(0, 3, v="second")))
    compact(table, full=True)
    for number in range(2):
        table.write(rows(table, events(20 + number, 21 + number)))
    root = Path(table.table_files.paths.root)
    theirs = root / "branch" / "branch-b"
    for number in (4 + earlier, 5 + earlier):
        shutil.copy(theirs / f"snapshot/snapshot-{number}", root / f"snapshot/snapshot-{number}")
    shutil.rmtree(theirs)
    return table


def expire_in_one(table: Table) -> None:
    expire(table, keep=3, max_deletes=2)


def expire_one_by_one(table: Table) -> None:
    for _ in range(2):
        expire(table, keep=3, max_deletes=1)


@pytest.mark.mission("FS19")
@pytest.mark.parametrize("verb", [expire_in_one, expire_one_by_one, remove_orphans])
def test_files_that_a_later_break_needs_again_are_kept(
    unchecked_catalog: Catalog, verb: Callable[[Table], object]
) -> None:
    table = forwarded(unchecked_catalog)
    before = content(table)
    assert breaks(table) == (4,)
    verb(table)
    assert content(table) == before
    assert table.at(snapshot=4).read().num_rows == 6
    assert_nothing_missing(table)
    expire(table)
    assert content(table) == before


def test_a_tag_from_before_a_break_is_read_though_a_later_one_follows(
    unchecked_catalog: Catalog, env: FixedEnv
) -> None:
    table = forwarded(unchecked_catalog, earlier=2)
    for number in (3, 5):
        table.history.create_tag(f"t{number}", snapshot=number)
    states = {name: content(table.at(tag=name)) for name in ("t3", "t5")}
    assert breaks(table) == (6,)
    # Now main removes what t3 still needs, and t5 does not.
    compact(table, full=True)
    table.write(rows(table, events(40, 41)))
    env.clock.advance(3_600_000)
    told = with_options(table, snapshot__expire__limit="1")
    steps = list(told.upkeep.expire_in_steps(retain_min=1, retain_max=1))
    assert len(steps) > 5
    assert {name: content(table.at(tag=name)) for name in states} == states
    assert_nothing_missing(table)


def test_what_is_proved_is_not_read_again_until_something_changes(
    unchecked_catalog: Catalog,
) -> None:
    table = new_table(unchecked_catalog)
    for number in range(6):
        table.write(rows(table, events(number, number + 1)))
    seen, fs = watched(table)
    lineage = Lineage()
    assert breaks(seen, lineage) == ()
    once = len(fs.calls)
    assert breaks(seen, lineage) == ()
    # The first one has nothing before it, by which it would be known again.
    assert [call.name for call in fs.calls[once:]] == ["list_dir", "read_bytes"]
    Path(table.table_files.paths.snapshot(3)).unlink()
    assert breaks(seen, lineage) == (4,)


def test_what_was_written_this_moment_is_proved_again(catalog: Catalog, env: FixedEnv) -> None:
    """A file that is replaced as soon as it is there may look the same in a list."""
    table = new_table(catalog)
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    listed = table.table_files.snapshots.listed()
    env.clock.now_ms = max(each.modified_ms for each in listed.values())
    seen, fs = watched(table)
    lineage = Lineage()
    reads = []
    for _ in range(3):
        before = len(fs.calls)
        assert breaks(seen, lineage) == ()
        reads.append(sum(call.name == "read_bytes" for call in fs.calls[before:]))
        env.clock.advance(2_000)
    first, second, third = reads
    assert first == second > 0
    assert third == 1


def test_a_snapshot_whose_lists_cannot_be_read_is_a_break(unchecked_catalog: Catalog) -> None:
    table = new_table(unchecked_catalog)
    for number in range(5):
        table.write(rows(table, events(number, number + 1)))
    third = table.history.snapshots()[2]
    Path(table.table_files.paths.manifest(third.delta_manifest_list)).unlink()
    assert breaks(table) == (3, 4)


def test_more_than_what_was_there_is_no_sequel(catalog: Catalog) -> None:
    """After a commit of statistics on top of the base of what is asked for."""
    table = new_table(catalog)
    for number in range(4):
        table.write(rows(table, events(number, number + 1)))
    fourth = table.history.snapshots()[3]
    table.history.create_branch("b", snapshot=4)
    table.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))
    table.upkeep.run(table.upkeep.plan_analyze())
    chain = Chain(table.table_files.manifests)
    proved = [chain.goes_on(each) for each in (*table.history.snapshots()[1:], fourth)]
    assert proved == [False, True, False]
