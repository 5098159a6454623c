"""Consumers: where they stand, what they hold back, and when they are given up."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import ConsumerNotFound, InvalidRequestError
from tests.support.tables.builders import events, expire, new_table, rows, with_options
from tests.support.tables.environment import FixedEnv

HOUR = 3_600_000


def commits(catalog: Catalog, count: int = 5) -> Table:
    table = new_table(catalog)
    for number in range(count):
        table.write(rows(table, events(number, number + 1)))
    return table


def moved(table: Table, name: str, time_ms: int) -> None:
    """Make a consumer's file as old as it would be by the test's clock."""
    os.utime(Path(table.table_files.paths.consumer(name)), (time_ms / 1000, time_ms / 1000))


def ids(table: Table) -> list[int]:
    return [snapshot.id for snapshot in table.history.snapshots()]


@pytest.mark.mission("LG11")
def test_a_consumer_holds_expiry_back_until_it_moves_or_is_deleted(any_catalog: Catalog) -> None:
    table = commits(any_catalog)
    table.history.set_consumer("me", 3)
    assert json.loads(table.table_files.fs.read_bytes(table.table_files.paths.consumer("me"))) == {
        "nextSnapshot": 3
    }
    expire(table)
    assert ids(table) == [3, 4, 5]
    table.history.set_consumer("me", 4)
    expire(table)
    assert ids(table) == [4, 5]
    table.history.delete_consumer("me")
    expire(table)
    assert ids(table) == [5]
    assert table.history.consumers() == ()


def test_a_consumer_reads_what_is_there_or_comes_next(catalog: Catalog) -> None:
    table = commits(catalog)
    expire(table, keep=3)
    for wrong in (2, 7, -1):
        with pytest.raises(InvalidRequestError, match="name a snapshot from 3 to 6, the next one"):
            table.history.set_consumer("me", wrong)
    table.history.set_consumer("me", 6)
    empty = new_table(catalog, name="db.empty")
    empty.history.set_consumer("first", 1)
    for name in ("", "a/b", ".x"):
        with pytest.raises(InvalidRequestError, match="consumer name"):
            table.history.set_consumer(name, 3)


def test_what_is_not_there_is_said_with_what_is(catalog: Catalog) -> None:
    table = commits(catalog)
    with pytest.raises(ConsumerNotFound, match=r"no consumer me of db.t; there are none"):
        table.history.delete_consumer("me")
    table.history.set_consumer("other", 1)
    with pytest.raises(ConsumerNotFound, match="there are other"):
        table.history.delete_consumer("me")


@pytest.mark.mission("LG11")
def test_a_consumer_that_stands_still_is_given_up(catalog: Catalog, env: FixedEnv) -> None:
    table = with_options(commits(catalog), consumer__expiration_time="2 h")
    table.history.set_consumer("gone", 2)
    table.history.set_consumer("slow", 3)
    now = env.clock.now_ms
    moved(table, "gone", now - 3 * HOUR)
    moved(table, "slow", now - HOUR)
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    assert plan.consumers == ("gone",)
    assert "consumer gone has not moved for 2h, and is deleted" in plan.reasons
    assert "consumer slow wants to read from snapshot 3" in plan.reasons
    table.upkeep.run(plan)
    assert ids(table) == [3, 4, 5]
    assert [each.name for each in table.history.consumers()] == ["slow"]


def test_a_consumer_that_moved_after_the_plan_stays(catalog: Catalog, env: FixedEnv) -> None:
    table = with_options(commits(catalog), consumer__expiration_time="2 h")
    table.history.set_consumer("me", 5)
    moved(table, "me", env.clock.now_ms - 3 * HOUR)
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    assert plan.consumers == ("me",)
    moved(table, "me", env.clock.now_ms)
    table.upkeep.run(plan)
    assert [each.name for each in table.history.consumers()] == ["me"]


def test_consumers_are_expired_by_age(catalog: Catalog, env: FixedEnv) -> None:
    table = commits(catalog)
    for name in ("old", "young"):
        table.history.set_consumer(name, 1)
    moved(table, "old", env.clock.now_ms - 3 * HOUR)
    moved(table, "young", env.clock.now_ms)
    assert table.history.expire_consumers().consumers == ()
    planned = table.history.expire_consumers(older_than_ms=HOUR, dry_run=True)
    assert [each.name for each in planned.consumers] == ["old"]
    assert table.history.expire_consumers(older_than_ms=HOUR).consumers == ("old",)
    assert [each.name for each in table.history.consumers()] == ["young"]


def test_a_consumer_that_moved_within_the_time_step_of_its_store_stays(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = commits(catalog)
    table.history.set_consumer("me", 1)
    moved(table, "me", env.clock.now_ms - 3 * HOUR)
    plan = table.history.expire_consumers(older_than_ms=HOUR, dry_run=True)
    table.history.set_consumer("me", 2)
    moved(table, "me", env.clock.now_ms - 3 * HOUR)
    assert table.history.run(plan).consumers == ()
    assert [each.name for each in table.history.consumers()] == ["me"]


def test_consumers_of_changelogs_alone_hold_no_snapshot(catalog: Catalog) -> None:
    table = with_options(commits(catalog), consumer__changelog_only="true")
    table.history.set_consumer("me", 2)
    expire(table)
    assert ids(table) == [5]
