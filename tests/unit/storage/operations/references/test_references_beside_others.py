"""Expiry, rollback, tags and branches beside each other: either is refused, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    CorruptionError,
    SnapshotNotFound,
    StalePlan,
    StorageError,
)
from tests.support.stores.watched_files import Call, Crashed, Fault, interrupted, watched
from tests.support.tables.builders import events, expire, replacing, rows
from tests.support.tables.fixtures import memory_catalog
from tests.support.tables.invariants import assert_nothing_missing, assert_readable_history
from tests.support.tables.remade import Remade

Verb = Callable[[Table], object]


def expire_to_last(table: Table) -> object:
    return expire(table, keep=1)


def roll_back(table: Table) -> object:
    return table.history.run(table.history.plan_rollback(snapshot=3, grace_ms=0))


def roll_back_to_tag(table: Table) -> object:
    return table.history.run(table.history.plan_rollback(tag="held", grace_ms=0))


def tag(table: Table) -> object:
    return table.history.create_tag("new", snapshot=4)


def replace_tag(table: Table) -> object:
    return table.history.replace_tag("old", snapshot=4)


def branch(table: Table) -> object:
    return table.history.create_branch("new", snapshot=4)


def branch_of_tag(table: Table) -> object:
    return table.history.create_branch("new", tag="held")


def delete_tag(table: Table) -> object:
    return table.history.run(table.history.plan_delete_tags("held", grace_ms=0))


def whole(table: Table, place: str) -> None:
    """Whatever there is can be read; without what an expiry has begun to take."""
    for each in table.table_files.snapshots.ids():
        assert table.at(snapshot=each).read().num_rows == 3, place
    for each in table.history.tags():
        assert table.at(tag=each.name).read().num_rows == 3, place
    for each in table.history.branches():
        assert table.history.at_branch(each.name).read().num_rows == 3, place
    assert table.history.latest_snapshot() is not None, place
    assert table.read().num_rows == 3, place


@pytest.mark.sampled(1)
@pytest.mark.mission("FS19")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        # tests/races tries expiry, rollback and tags beside each other at all of their calls.
        pytest.param(expire_to_last, roll_back, marks=pytest.mark.deep),
        pytest.param(expire_to_last, roll_back_to_tag, marks=pytest.mark.deep),
        pytest.param(expire_to_last, tag, marks=pytest.mark.deep),
        pytest.param(expire_to_last, replace_tag, marks=pytest.mark.deep),
        (expire_to_last, branch),
        pytest.param(roll_back, expire_to_last, marks=pytest.mark.deep),
        pytest.param(roll_back, tag, marks=pytest.mark.deep),
        pytest.param(roll_back, branch, marks=pytest.mark.deep),
        pytest.param(roll_back_to_tag, expire_to_last, marks=pytest.mark.deep),
        pytest.param(roll_back_to_tag, delete_tag, marks=pytest.mark.deep),
        (delete_tag, branch_of_tag),
        pytest.param(delete_tag, roll_back_to_tag, marks=pytest.mark.deep),
        pytest.param(tag, expire_to_last, marks=pytest.mark.deep),
        pytest.param(tag, roll_back, marks=pytest.mark.deep),
        pytest.param(replace_tag, expire_to_last, marks=pytest.mark.deep),
        pytest.param(branch, expire_to_last, marks=pytest.mark.deep),
        pytest.param(branch, roll_back, marks=pytest.mark.deep),
        (branch_of_tag, delete_tag),
    ],
)
def test_what_comes_between_any_two_calls_loses_nothing(first: Verb, second: Verb) -> None:
    def make(catalog: Catalog) -> Table:
        table = replacing(catalog)
        table.history.create_tag("old", snapshot=1)
        table.history.create_tag("held", snapshot=2)
        if delete_tag in (first, second):
            # So that the tag is the only one to hold it.
            expire(table, keep=4)
        return table

    made = Remade(make)
    for number in range(1, 400):
        table = made.again()
        moments = 0
        was_change = False

        def is_next(call: Call) -> bool:
            nonlocal moments, was_change
            # Before each change and after it: between two reads no other process sees the change.
            moments += call.changes or was_change
            was_change = call.changes
            return moments == number  # noqa: B023

        def meanwhile() -> None:
            with suppress(StorageError):
                second(table)  # noqa: B023

        slow, fs = interrupted(table, when=is_next, meanwhile=meanwhile)
        try:
            first(slow)
        except CorruptionError as error:
            raise AssertionError(f"moment {number}: {error}") from error
        except StorageError:
            pass
        place = f"{second.__name__} at moment {number} of {first.__name__}"
        whole(table, place)
        if not fs.has_happened:
            assert number > 2
            return
        expire(table, keep=1)
        whole(table, place)
        assert_nothing_missing(table)
        assert_readable_history(table)
    raise AssertionError("the verb made too many calls")


def half_expired(make: Callable[[Catalog], Table]) -> Iterator[tuple[int, Table]]:
    """The table after an expiry died at its first deletion, its second, and so on."""
    made = Remade(make)
    for number in range(1, 100):
        table = made.again()
        broken, fs = watched(
            table, fail_at=number, fault=Fault.DIES_AFTER, counts=lambda call: call.name == "delete"
        )
        with suppress(Crashed):
            expire(broken, keep=2)
        if fs.counted < number:
            assert number > 5
            return
        yield number, table
    raise AssertionError("the expiry made too many calls")


@pytest.mark.sampled(1)
@pytest.mark.mission("FS19")
@pytest.mark.parametrize(
    "verb",
    [
        roll_back,
        tag,
        pytest.param(replace_tag, marks=pytest.mark.deep),
        pytest.param(branch, marks=pytest.mark.deep),
    ],
)
def test_what_begins_beside_half_an_expiry_is_whole_or_refused(verb: Verb) -> None:
    def make(catalog: Catalog) -> Table:
        table = replacing(catalog, "abcd")
        table.history.create_tag("old", snapshot=8)
        return table

    for number, table in half_expired(make):
        with suppress(SnapshotNotFound, StalePlan):
            verb(table)
        whole(table, f"{verb.__name__} after {number} deletions")
        table.upkeep.collect(under_way=True)
        whole(table, f"{verb.__name__} after {number} deletions")


@pytest.mark.deep
@pytest.mark.mission("FS19")
def test_an_expiry_that_died_anywhere_keeps_no_other_verb_from_its_work() -> None:
    def make(catalog: Catalog) -> Table:
        table = replacing(catalog, "abcdef")
        table.history.create_tag("held", snapshot=2)
        table.history.create_branch("b", snapshot=12)
        return table

    for number, table in half_expired(make):
        table.upkeep.plan_remove_orphans()
        table.history.plan_rollback(snapshot=11, grace_ms=0)
        table.history.plan_fast_forward("b", grace_ms=0)
        table.upkeep.collect(under_way=True)
        table.history.run(table.history.plan_delete_branch("b", grace_ms=0))
        expire(table, keep=2)
        assert table.history.snapshots()[0].id == 11
        whole(table, f"after {number} deletions")
        if number % 2:
            table.history.run(table.history.plan_rollback(tag="held", grace_ms=0))
        table.history.run(table.history.plan_delete_tags("held", grace_ms=0))
        whole(table, f"after {number} deletions")
        assert_nothing_missing(table)


def test_a_tag_that_moved_to_an_earlier_snapshot_survives_a_rollback_planned_before() -> None:
    table = replacing(memory_catalog())
    table.history.create_tag("late", snapshot=6)
    plan = table.history.plan_rollback(snapshot=4, grace_ms=0)
    table.history.replace_tag("late", snapshot=2)
    with pytest.raises(StalePlan, match=r"late of db\.t came after the plan"):
        table.history.run(plan)
    assert [each.snapshot.id for each in table.history.tags()] == [2]


def test_a_commit_right_before_a_rollback_stands_and_the_rollback_is_told() -> None:
    table = replacing(memory_catalog())
    late, fs = interrupted(
        table,
        when=lambda call: call.name == "delete" and call.path.endswith("/snapshot-5"),
        meanwhile=lambda: table.write(rows(table, events(0, 3, v="late"))),
    )
    before = [snapshot.id for snapshot in table.history.snapshots()]
    plan = late.history.plan_rollback(snapshot=4, grace_ms=0)
    with pytest.raises(StalePlan, match=r"was committed to db\.t just before it was rolled back"):
        late.history.run(plan)
    assert fs.has_happened
    assert [snapshot.id for snapshot in table.history.snapshots()] == [*before, before[-1] + 1]
    whole(table, "after the rollback")
    assert_nothing_missing(table)


def test_a_commit_on_what_a_rollback_left_stands() -> None:
    table = replacing(memory_catalog())
    late, fs = interrupted(
        table,
        when=lambda call: call.name == "replace" and call.path.endswith("/LATEST"),
        meanwhile=lambda: table.write(rows(table, events(0, 3, v="late"))),
    )
    late.history.run(late.history.plan_rollback(snapshot=4, grace_ms=0))
    assert fs.has_happened
    assert [snapshot.id for snapshot in table.history.snapshots()][-2:] == [4, 5]
    whole(table, "after the rollback")
    assert_nothing_missing(table)
