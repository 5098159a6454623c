"""A clock that is ahead for one run deletes nothing, and what it dated stops no expiry for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import ClockJumped
from tests.support.stores.stepped_files import DictFiles
from tests.support.tables.builders import content, events, expire, new_table, remove_orphans, rows
from tests.support.tables.environment import FixedClock, FixedEnv, SeededIds
from tests.support.tables.invariants import assert_only_reachable_files

DAY = 86_400_000
YEARS = 3_650 * DAY


@pytest.fixture
def env() -> FixedEnv:
    return FixedEnv(FixedClock(), SeededIds())


@pytest.fixture
def place(env: FixedEnv) -> Catalog:
    """A warehouse in a store with a clock of its own, which is right."""
    return Catalog(DictFiles({}, env.clock.now_ms), "/w", env)


def written(catalog: Catalog, **options: str) -> Table:
    table = new_table(catalog, partitions=["day"], options=options)
    for day in ("2023-12-30", "2023-12-31", "2024-01-01"):
        table.write(rows(table, events(0, 2, day=day)))
    table.history.create_tag("made")
    table.history.set_consumer("reader", 3)
    return table


AGES: dict[str, Callable[[Table], Any]] = {
    "partitions by values": lambda table: table.upkeep.expire_partitions(
        older_than_ms=30 * DAY, strategy="values-time", formatter="yyyy-MM-dd"
    ),
    "partitions by update": lambda table: table.upkeep.expire_partitions(
        older_than_ms=30 * DAY, strategy="update-time"
    ),
    "tags": lambda table: table.upkeep.expire_tags(older_than_ms=30 * DAY, grace_ms=0),
    "snapshots": lambda table: table.upkeep.expire_snapshots(
        retain_min=1, time_retained_ms=30 * DAY, grace_ms=0
    ),
    "consumers": lambda table: table.history.expire_consumers(),
}


@pytest.mark.parametrize("verb", AGES)
def test_nothing_goes_by_age_while_the_clock_of_the_machine_is_ahead(
    place: Catalog, env: FixedEnv, verb: str
) -> None:
    table = written(place, **{"consumer.expiration-time": "30 d"})
    due, ids = content(table), [each.id for each in table.history.snapshots()]
    env.clock.advance(YEARS)
    with pytest.raises(ClockJumped, match=r"this machine says 2033-.*db\.t says 2024-01-01"):
        AGES[verb](table)
    assert content(table) == due
    assert [each.id for each in table.history.snapshots()] == ids
    assert [each.name for each in table.history.tags()] == ["made"]
    assert [each.name for each in table.history.consumers()] == ["reader"]
    assert_only_reachable_files(table)


@pytest.mark.parametrize("verb", ["partitions by values", "partitions by update", "tags"])
def test_a_snapshot_from_the_future_is_told_with_both_times_and_the_way_out(
    place: Catalog, env: FixedEnv, verb: str
) -> None:
    table = written(place)
    env.clock.advance(YEARS)
    table.write(rows(table, events(5, 6, day="2024-01-01")))
    env.clock.advance(-YEARS)
    with pytest.raises(ClockJumped, match=r"of 2033-.*says 2024-.*lakewright analyze db\.t"):
        AGES[verb](table)
    # The way out that the message names.
    table.upkeep.run(table.upkeep.plan_analyze())
    AGES[verb](table)
    assert len(content(table)) == 7


def test_one_commit_under_a_clock_that_is_ahead_stops_no_expiry_for_good(
    place: Catalog, env: FixedEnv
) -> None:
    table = written(place)
    table.history.delete_tags("made", grace_ms=0)
    table.history.delete_consumer("reader")
    env.clock.advance(YEARS)
    for number in (5, 6):
        table.write(rows(table, events(number, number + 1, day="2024-01-01")))
    env.clock.advance(-YEARS)
    table.write(rows(table, events(7, 8, day="2024-01-01")))
    snapshots = table.history.snapshots()
    assert [each.time_millis > env.clock.now_ms for each in snapshots] == [
        *[False] * 3,
        True,
        True,
        False,
    ]
    # They are as old as what followed them.
    assert not table.upkeep.expire_snapshots(retain_min=1, time_retained_ms=DAY, grace_ms=0).expired
    env.clock.advance(2 * DAY)
    place.fs.now_ms += 2 * DAY  # type: ignore[attr-defined]
    table.write(rows(table, events(8, 9, day="2024-01-01")))
    done = table.upkeep.expire_snapshots(retain_min=1, time_retained_ms=DAY, grace_ms=0)
    assert done.expired == (1, 2, 3, 4, 5)
    assert len(content(table)) == 6 + 4
    expire(table)
    remove_orphans(table)
    assert_only_reachable_files(table)


def test_a_clock_that_is_behind_dates_no_commit_before_the_last(
    place: Catalog, env: FixedEnv
) -> None:
    """The store's clock says that the last snapshot is right."""
    table = written(place)
    env.clock.advance(-YEARS)
    table.write(rows(table, events(5, 6, day="2024-01-01")))
    *_, before, last = table.history.snapshots()
    assert last.time_millis == before.time_millis
