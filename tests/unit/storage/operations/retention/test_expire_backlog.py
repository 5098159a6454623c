"""Expiry of many snapshots in steps: bounded, resumable, and done in the end."""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import InvalidRequestError, StorageError
from lakewright.storage.operations.retention.expire_snapshots import ExpireResult
from tests.support.stores.watched_files import Crashed, Fault, WatchedFiles, watched
from tests.support.tables.backlog import add_history
from tests.support.tables.builders import (
    compact,
    content,
    events,
    new_table,
    replacing,
    rows,
    with_options,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
    assert_true_hints,
)
from tests.support.tables.remade import Remade
from tests.support.tally import tally


def in_steps(table: Table, size: int, *, keep: int = 1, **bounds: Any) -> list[int]:
    """Expire all but the last; how many snapshots each step let go."""
    told = with_options(table, snapshot__expire__limit=str(size))
    steps = told.upkeep.expire_in_steps(retain_min=keep, retain_max=keep, **bounds)
    return [len(step.result.expired) for step in steps]


def left(table: Table) -> list[int]:
    return table.table_files.snapshots.ids()


@pytest.mark.mission("FS19")
def test_each_step_leaves_a_whole_table(any_catalog: Catalog) -> None:
    table = replacing(any_catalog, "abcdef")
    table.history.create_tag("held", snapshot=5)
    before = content(table)
    told = with_options(table, snapshot__expire__limit="3")
    for number, step in enumerate(told.upkeep.expire_in_steps(retain_min=2, retain_max=2)):
        assert left(table) == list(range(min(11, 4 + 3 * number), 13))
        assert len(step.plan.snapshot_ids) <= 3
        assert content(table) == before
        assert table.at(tag="held").read().num_rows == 3
        assert_only_reachable_files(table)
        assert_readable_history(table)
        assert_true_hints(table)
    assert left(table) == [11, 12]


def test_a_plan_is_one_step_and_says_how_many_wait(catalog: Catalog, env: FixedEnv) -> None:
    table = replacing(catalog, "abcde")
    told = with_options(table, snapshot__expire__limit="3")
    plan = told.upkeep.plan_expire_snapshots(retain_min=2, retain_max=2, grace_ms=0)
    assert (plan.snapshot_ids, plan.waiting) == ((1, 2, 3), 5)
    env.clock.advance(10**7)
    table.write(rows(table, events(0, 1)))
    aged = told.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=10**6, grace_ms=0)
    # Snapshot 10 was current until just now.
    assert (aged.snapshot_ids, aged.waiting) == ((1, 2, 3), 6)


def test_a_run_ends_where_it_is_told_to(catalog: Catalog, env: FixedEnv) -> None:
    table = replacing(catalog, "abcdef")
    assert in_steps(table, 3, max_deletes=4) == [3, 1]
    assert left(table)[0] == 5
    # The time is up at once, but a step is made.
    env.clock.step_ms = 0
    assert in_steps(table, 2, max_duration_ms=0) == [2]
    assert in_steps(table, 2, max_deletes=1) == [1]
    assert in_steps(table, 2, max_duration_ms=1) == [2, 2]
    assert in_steps(table, 50) == [0]
    with pytest.raises(InvalidRequestError, match="max_deletes is 0"):
        in_steps(table, 3, max_deletes=0)


def test_a_run_leaves_what_comes_while_it_works_to_the_next(catalog: Catalog) -> None:
    table = replacing(catalog, "abcdef")
    steps = table.upkeep.expire_in_steps(retain_min=2, retain_max=2)
    assert len(next(steps).result.expired) == 10
    table.write(rows(table, events(0, 1)))
    assert list(steps) == []
    assert left(table) == [11, 12, 13]


def test_what_the_steps_did_adds_up() -> None:
    first = ExpireResult(expired=(1, 2), files_deleted=3, bytes_deleted=400, duration_ms=50)
    second = ExpireResult(expired=(3,), files_deleted=1, bytes_deleted=20, duration_ms=7)
    assert first.and_then(second) == ExpireResult(
        expired=(1, 2, 3), files_deleted=4, bytes_deleted=420, duration_ms=57
    )


@pytest.mark.mission("FS9")
def test_a_run_that_died_anywhere_is_gone_on_with_by_the_next() -> None:
    made = Remade(replacing)
    for number in range(1, 400):
        table = made.again()
        before = content(table)
        broken, fs = watched(
            table, fail_at=number, fault=Fault.DIES_AFTER, counts=lambda call: call.changes
        )
        with suppress(Crashed, StorageError):
            in_steps(broken, 2)
        assert content(table) == before
        in_steps(table, 2)
        assert left(table) == [6]
        assert content(table) == before
        assert_only_reachable_files(table)
        assert_true_hints(table)
        if fs.counted < number:
            assert number > 10
            tally("points of failure tried", number - 1)
            return
    raise AssertionError("the expiry made too many calls")


def backlog(path: Path | str, count: int, *, tag_every: int = 0) -> Table:
    """Snapshots that each replace a file; a tag names one of `tag_every`."""
    table = new_table(
        Catalog.open(str(path), env=FixedEnv()), options={"bucket": "1", "bucket-key": "id"}
    )
    table.write(rows(table, events(0, 1)))
    (entry,) = table.at().files()
    add_history(table, entry.file, count - 1, tag_every=tag_every)
    return table


def calls_of_steps(table: Table, size: int) -> list[Counter[str]]:
    """How often the store is asked for what, step by step."""
    seen, fs = watched(with_options(table, snapshot__expire__limit=str(size)))
    assert isinstance(fs, WatchedFiles)
    counted = []
    for step in seen.upkeep.expire_in_steps(retain_min=5, retain_max=5):
        assert len(step.result.expired) <= size
        counted.append(Counter(call.name for call in fs.calls))
        fs.calls.clear()
    return counted


def test_a_step_reads_no_more_of_a_long_history_than_of_a_short_one(tmp_path: Path) -> None:
    reads = {}
    for count in (60, 150):
        table = backlog(tmp_path / str(count), count)
        steps = calls_of_steps(table, 25)
        assert left(table) == list(range(count - 4, count + 1))
        assert_only_reachable_files(table)
        # The first step proves the lineage for the others; each lists snapshots a few times, and
        # asks for consumers.
        reads[count] = max(step["read_bytes"] for step in steps[1:])
        assert max(step["list_dir"] for step in steps) < 32
        tally("snapshots expired from backlogs", count - 5)
    assert reads[150] < 1.4 * reads[60]


def test_a_long_backlog_goes_in_larger_steps_unless_the_table_says_how_many(tmp_path: Path) -> None:
    table = backlog(tmp_path, 700)
    steps = [len(each.result.expired) for each in table.upkeep.expire_in_steps(retain_max=10)]
    # The option's default, then an eighth of what waits, of which each step leaves less.
    assert (steps[0], steps[1], sum(steps)) == (50, 80, 690)
    assert max(steps) == steps[1]
    assert_only_reachable_files(table)
    assert_nothing_missing(table)


def test_a_step_reads_the_tags_of_its_range_and_no_others(tmp_path: Path) -> None:
    reads = {}
    for every in (0, 10):
        table = backlog(tmp_path / str(every), 250, tag_every=every)
        wanted = {
            name: content_of(table, name) for name in table.table_files.references.tag_names()
        }
        # Files that were written just now are read each time.
        env = table.table_files.env
        assert isinstance(env, FixedEnv)
        env.clock.now_ms = SystemEnv().now_ms() + 3_600_000
        # The first step reads each tag once.
        steps = calls_of_steps(table, 50)[2:]
        assert {name: content_of(table, name) for name in wanted} == wanted
        assert len(wanted) == (25 if every else 0)
        assert_only_reachable_files(table)
        assert_nothing_missing(table)
        reads[every] = max(step["read_bytes"] for step in steps)
    # A step of 50 snapshots reads six of the 25 tags, each with its list and its manifests.
    assert 10 < reads[10] - reads[0] < 100


def content_of(table: Table, tag: str) -> list[str]:
    return sorted(each.file.file_name for each in table.at(tag=tag).files())


@pytest.mark.sampled(3)
@pytest.mark.mission("FS19")
@pytest.mark.parametrize("seed", range(12))
def test_tags_keep_their_files_whatever_came_between(
    catalog: Catalog, env: FixedEnv, seed: int
) -> None:
    """Commits, rollbacks to snapshots and tags, tags made and deleted, and branches put on main."""
    draw = random.Random(seed)
    table = new_table(
        catalog, keys=["id"], options={"bucket": "1", "manifest.merge-min-count": "3"}
    )
    for number in range(40):
        do_something(table, draw, number)
    states = {
        name: content(table.at(tag=name)) for name in table.table_files.references.tag_names()
    }
    told = with_options(table, snapshot__expire__limit="3")
    # What was written just now is read each time.
    env.clock.advance(3_600_000)
    for step, _ in enumerate(told.upkeep.expire_in_steps(retain_min=1, retain_max=1)):
        for name, rows_then in states.items():
            assert content(table.at(tag=name)) == rows_then, (step, name)
        assert_only_reachable_files(table)
        assert_nothing_missing(table)
        if draw.random() < 0.3:
            do_something(table, draw, 100 + step)
            gone = states.keys() - {*table.table_files.references.tag_names()}
            states = {
                name: content(table.at(tag=name))
                for name in table.table_files.references.tag_names()
            }
            tally("tags deleted between steps", len(gone))
    tally("tags held by expiry in steps", len(states))


def do_something(table: Table, draw: random.Random, number: int) -> None:
    kept, tags = table.table_files.snapshots.ids(), table.table_files.references.tag_names()
    chance = draw.random()
    if chance < 0.5 or len(kept) < 2:
        first = draw.randrange(6)
        table.write(rows(table, events(first, first + 2, v=f"{number}-")))
    elif chance < 0.7:
        compact(table, full=True)
    elif chance < 0.85:
        table.history.create_tag(f"t{number}", snapshot=draw.choice(kept))
    elif chance < 0.9 and tags:
        table.history.run(table.history.plan_delete_tags(draw.choice(tags), grace_ms=0))
    elif chance < 0.95:
        table.history.run(
            table.history.plan_rollback(snapshot=draw.choice(kept[-4:-1]), grace_ms=0)
        )
    elif tags:
        branch = table.history.create_branch(f"b{number}", tag=draw.choice(tags))
        branch.write(rows(branch, events(0, 1, v=f"b{number}-")))
        table.history.run(table.history.plan_fast_forward(f"b{number}", grace_ms=0))


@pytest.mark.deep
def test_a_long_backlog_goes_in_bounded_steps(tmp_path: Path) -> None:
    count = int(os.environ.get("LAKEWRIGHT_TEST_SNAPSHOTS", "7000"))
    table = backlog(tmp_path / "long", count)
    steps = calls_of_steps(table, 1_000)
    assert left(table) == list(range(count - 4, count + 1))
    assert max(step["read_bytes"] for step in steps[1:]) < 20 * 1_000
    assert_only_reachable_files(table)
    assert_nothing_missing(table)
    tally("snapshots expired from backlogs", count - 5)
