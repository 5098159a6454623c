"""Rollback: what is there afterwards, what went, and that a crash leaves a table."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    InvalidRequestError,
    SnapshotNotFound,
    StalePlan,
    StorageError,
    TagNotFound,
)
from lakewright.storage.operations.references.rollback import RollbackPlan, check_nothing_newer
from lakewright.storage.operations.state.latest import is_latest
from tests.support.stores.watched_files import Call, Crashed, Fault, interrupted, watched
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    replacing,
    rows,
    values_of,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import check_all_tables
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
    assert_sound,
)
from tests.support.tables.remade import Remade

HOUR = 3_600_000
DAY = 24 * HOUR


def ids(table: Table) -> list[int]:
    return [snapshot.id for snapshot in table.history.snapshots()]


@pytest.mark.mission("FS19")
def test_a_table_becomes_what_it_was_and_goes_on_from_there(any_catalog: Catalog) -> None:
    table = replacing(any_catalog, "abcd")
    before = content(table.at(snapshot=4))
    plan = table.history.plan_rollback(snapshot=4, grace_ms=0)
    assert (plan.target_id, plan.latest_id, plan.snapshot_ids) == (4, 8, (5, 6, 7, 8))
    assert plan.bytes == sum(file.size_bytes for file in plan.files) > 0
    assert RollbackPlan.from_json(plan.to_json()) == plan
    result = table.history.run(RollbackPlan.from_json(plan.to_json()))
    assert (result.snapshots_deleted, result.files_condemned) == (4, len(plan.files))
    assert content(table) == before
    assert_sound(table)
    table.write(rows(table, events(7, 8)))
    assert ids(table) == [1, 2, 3, 4, 5]
    assert values_of(table, "id") == [0, 1, 2, 7]


def test_a_tag_is_a_target_and_later_tags_go(catalog: Catalog) -> None:
    table = replacing(catalog, "abcd")
    for number in (2, 4, 6):
        table.history.create_tag(f"t{number}", snapshot=number)
    plan = table.history.plan_rollback(tag="t4", grace_ms=0)
    assert plan.tags == ("t6",)
    table.history.run(plan)
    assert [tag.name for tag in table.history.tags()] == ["t2", "t4"]
    assert ids(table) == [1, 2, 3, 4]
    assert_sound(table)


def test_a_time_is_a_target(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog)
    for number in range(4):
        table.write(rows(table, events(number, number + 1)))
        env.clock.advance(HOUR)
    second = table.history.snapshots()[1].time_millis
    table.history.run(table.history.plan_rollback(time=second + HOUR // 2, grace_ms=0))
    assert ids(table) == [1, 2]
    assert values_of(table, "id") == [0, 1]
    with pytest.raises(SnapshotNotFound, match="no snapshot at or before"):
        table.history.plan_rollback(time=1, grace_ms=0)


@pytest.mark.mission("FS19")
@pytest.mark.parametrize("how", ["tag", "id"])
@pytest.mark.parametrize("target", [2, 5, 6])
@pytest.mark.sampled(each="target")
def test_a_tag_whose_snapshot_expired_is_a_target(
    any_catalog: Catalog, how: str, target: int
) -> None:
    """Also where the snapshot after it is still there."""
    table = replacing(any_catalog, "abcd")
    before = content(table.at(snapshot=target))
    table.history.create_tag("t", snapshot=target, time_retained_ms=HOUR)
    expire(table, keep=2)
    assert ids(table) == [7, 8]
    plan = (
        table.history.plan_rollback(tag="t", grace_ms=0)
        if how == "tag"
        else table.history.plan_rollback(snapshot=target, grace_ms=0)
    )
    assert (plan.restored_tag, plan.snapshot_ids) == ("t", (7, 8))
    table.history.run(plan)
    assert ids(table) == [target]
    assert [tag.name for tag in table.history.tags()] == ["t"]
    assert content(table) == content(table.at(tag="t")) == before
    assert_sound(table)
    restored = table.table_files.snapshots.read_file(target)
    assert b"tagTimeRetained" not in restored
    # And on, with the files of the tag still its own.
    table.write(rows(table, events(0, 3, v="new")))
    compact(table, full=True)
    expire(table)
    assert content(table.at(tag="t")) == before
    assert_only_reachable_files(table)


def test_what_is_not_older_is_refused(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    table.history.create_tag("latest")
    for target in ({"snapshot": 4}, {"tag": "latest"}, {"time": 2**50}):
        with pytest.raises(InvalidRequestError, match=r"nothing of db.t is later than snapshot 4"):
            table.history.plan_rollback(**target)  # type: ignore[arg-type]
    with pytest.raises(SnapshotNotFound, match=r"snapshot 9 does not exist .*there are 1 to 4"):
        table.history.plan_rollback(snapshot=9, grace_ms=0)
    with pytest.raises(TagNotFound, match=r"no tag other .*there are latest"):
        table.history.plan_rollback(tag="other", grace_ms=0)
    with pytest.raises(InvalidRequestError, match="one of a snapshot, a tag and a time"):
        table.history.plan_rollback(grace_ms=0)
    with pytest.raises(InvalidRequestError, match="one of a snapshot, a tag and a time"):
        table.history.plan_rollback(tag="latest", snapshot=1, grace_ms=0)
    with pytest.raises(SnapshotNotFound, match="nothing was committed yet"):
        new_table(catalog, name="db.empty").history.plan_rollback(time=1, grace_ms=0)


def test_consumers_beyond_read_on_from_the_next_snapshot(catalog: Catalog) -> None:
    table = replacing(catalog, "abcd")
    for name, position in (("behind", 3), ("next", 5), ("beyond", 8)):
        table.history.set_consumer(name, position)
    plan = table.history.plan_rollback(snapshot=4, grace_ms=0)
    assert plan.consumers == ("beyond",)
    table.history.run(plan)
    assert {each.name: each.next_snapshot_id for each in table.history.consumers()} == {
        "behind": 3,
        "beyond": 5,
        "next": 5,
    }


def test_branches_keep_what_is_rolled_back(catalog: Catalog) -> None:
    table = replacing(catalog, "abcd")
    later = content(table.at(snapshot=6))
    table.history.create_branch("b", snapshot=6)
    table.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))
    assert content(table.history.at_branch("b")) == later
    assert_sound(table)


@pytest.mark.parametrize("meanwhile", ["commit", "tag", "expiry"])
def test_a_plan_is_stale_when_something_came_or_went(catalog: Catalog, meanwhile: str) -> None:
    table = replacing(catalog, "abcd")
    plan = table.history.plan_rollback(snapshot=2, grace_ms=0)
    match meanwhile:
        case "commit":
            table.write(rows(table, events(5, 6)))
        case "tag":
            table.history.create_tag("later")
        case _:
            expire(table)
    before, tags = content(table), table.history.tags()
    with pytest.raises(StalePlan, match="plan again"):
        table.history.run(plan)
    assert content(table) == before
    assert table.history.tags() == tags


def test_a_write_staged_before_a_rollback_is_committed_after_it(catalog: Catalog) -> None:
    table = replacing(catalog, "abcd")
    staged = table.stage(rows(table, events(5, 6)))
    table.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))
    assert table.commit(staged).snapshot is not None
    assert ids(table) == [1, 2, 3]
    # Giving it up now must find the commit, though it has a smaller id than the staging saw.
    assert table.abort(staged) == 0
    assert values_of(table, "id") == [0, 1, 2, 5]


@pytest.mark.sampled(1)
@pytest.mark.mission("FS19")
@pytest.mark.parametrize(
    "fault",
    [
        Fault.DIES_AFTER,
        pytest.param(Fault.FAILS_BEFORE, marks=pytest.mark.deep),
        pytest.param(Fault.FAILS_AFTER, marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("target", ["snapshot", "expired tag"])
def test_a_rollback_that_failed_anywhere_is_finished_by_the_next(fault: Fault, target: str) -> None:
    def make(catalog: Catalog) -> Table:
        table = replacing(catalog, "abc")
        table.history.create_tag("t", snapshot=3)
        table.history.create_tag("late", snapshot=5)
        if target == "expired tag":
            expire(table, keep=2)
        return table

    made = Remade(make)
    expected = content(made.again().at(tag="t"))
    for number in range(1, 100):
        table = made.again()
        plan = table.history.plan_rollback(tag="t", grace_ms=0)
        broken, fs = watched(table, fail_at=number, fault=fault, counts=lambda call: call.changes)
        with suppress(Crashed, StorageError):
            broken.history.run(plan)
        if fs.counted < number:
            assert number > 5
            return
        place = f"{fs.changes[number - 1]}"
        assert_nothing_missing(table)
        for snapshot in table.history.snapshots():
            assert table.at(snapshot=snapshot.id).read().num_rows == 3, place
        # What is there now is a state the table had.
        assert table.read().num_rows == 3
        with suppress(InvalidRequestError):
            table.history.run(table.history.plan_rollback(tag="t", grace_ms=0))
        assert content(table) == expected, place
        assert [tag.name for tag in table.history.tags()] == ["t"], place
        assert_readable_history(table)
        table.write(rows(table, events(9, 10)))
        assert ids(table)[-1] == 4, place
        assert_nothing_missing(table)
    raise AssertionError("the rollback made too many calls")


def test_beside_half_a_rollback_nothing_is_deleted_that_it_may_put_back(
    catalog: Catalog,
) -> None:
    table = replacing(catalog, "abcd")
    for name in ("old", "begins"):
        table.history.create_tag(name, snapshot=2)
    table.history.create_branch("b", tag="begins")
    expire(table, keep=4)
    on_branch = table.history.at_branch("b")
    on_branch.write(rows(on_branch, events(3, 4)))
    staged = table.stage(rows(table, events(7, 8)))
    before = files_of(table)
    broken, _ = watched(
        table,
        fail_at=1,
        fault=Fault.DIES_AFTER,
        counts=lambda call: call.path.endswith("/snapshot-8") and call.changes,
    )
    plan = broken.history.plan_rollback(snapshot=6, grace_ms=0)
    with suppress(Crashed):
        broken.history.run(plan)
    later = {f"{table.table_files.paths.root}/{each.path}" for each in plan.files}
    assert later <= before
    assert table.abort(staged)
    assert table.history.delete_branch("b", grace_ms=0).files_deleted
    table.history.delete_tags("old", "begins", grace_ms=0)
    assert later <= files_of(table)
    assert table.upkeep.collect(under_way=True).files_deleted
    assert not later & files_of(table)
    assert ids(table) == [5, 6]
    assert_sound(table)


def files_of(table: Table) -> set[str]:
    """Paths of data files, manifests and lists."""
    listed = table.table_files.fs.list_tree(table.table_files.paths.root)
    return {each.path for each in listed if "/bucket-" in each.path or "/manifest/" in each.path}


def test_a_gap_that_a_crash_left_loses_and_leaves_nothing(catalog: Catalog) -> None:
    """Expiry of a table whose rollback to an old tag was stopped halfway."""
    table = replacing(catalog, "abcd")
    table.history.create_tag("t", snapshot=2)
    expire(table, keep=2)
    plan = table.history.plan_rollback(tag="t", grace_ms=0)
    # Died right after the old snapshot was back.
    broken, _ = watched(
        table,
        fail_at=1,
        fault=Fault.DIES_AFTER,
        counts=lambda call: call.path.endswith("/snapshot-2") and call.changes,
    )
    with suppress(Crashed):
        broken.history.run(plan)
    assert ids(table) == [2, 7, 8]
    table.history.run(table.history.plan_delete_tags("t", grace_ms=0))
    with pytest.raises(StalePlan, match="is in progress or was stopped halfway"):
        expire(table)
    table.upkeep.collect(under_way=True)
    expire(table)
    assert ids(table) == [8]
    assert values_of(table, "v") == ["d0", "d1", "d2"]
    check_all_tables(catalog)


def is_of_latest_hint(call: Call) -> bool:
    return call.name == "replace" and call.path.endswith("/LATEST")


def test_what_was_made_on_top_of_what_goes_is_counted_and_leaves_no_files(catalog: Catalog) -> None:
    """By a commit that died before it looked whether its base is there."""
    table = replacing(catalog, "abcd")
    fs, root = table.table_files.fs, table.table_files.paths.root
    table.write(rows(table, events(3, 5)))
    files = {each.path: fs.read_bytes(each.path) for each in fs.list_tree(root)}
    table.history.run(table.history.plan_rollback(snapshot=8, grace_ms=0))
    gone = {path: data for path, data in files.items() if not fs.exists(path)}
    assert table.table_files.paths.snapshot(9) in gone

    def commit_and_die() -> None:
        for path, data in gone.items():
            fs.write_bytes(path, data)

    late, watcher = interrupted(table, when=is_of_latest_hint, meanwhile=commit_and_die)
    plan = late.history.plan_rollback(snapshot=4, grace_ms=0)
    result = late.history.run(plan)
    assert watcher.has_happened
    assert ids(table) == [1, 2, 3, 4]
    assert result.snapshots_deleted == 5
    assert result.files_condemned > len(plan.files)
    assert result.bytes_condemned > plan.bytes
    assert_sound(table)


def half_rolled_back(table: Table, target: int) -> None:
    """Let a rollback die that has taken nothing yet."""
    broken, _ = watched(
        table,
        fail_at=1,
        fault=Fault.DIES_BEFORE,
        counts=lambda call: call.path.endswith("/LATEST") and call.changes,
    )
    with suppress(Crashed):
        broken.history.run(broken.history.plan_rollback(snapshot=target, grace_ms=0))


def age(table: Table) -> None:
    """Let the records be older than an hour, by the store's clock."""
    for each in Path(table.table_files.paths.condemned_dir).iterdir():
        os.utime(each, (0, 0))


def test_half_a_rollback_keeps_an_expiry_from_its_target_for_an_hour(catalog: Catalog) -> None:
    table = replacing(catalog, "abcd")
    half_rolled_back(table, 4)
    with pytest.raises(StalePlan, match=r"rollback of db\.t needs snapshot 4"):
        expire(table)
    assert expire(table, keep=5).expired == (1, 2, 3)
    age(table)
    assert expire(table).expired
    table.upkeep.collect()


def half_expired(table: Table) -> None:
    """Let an expiry die that was about to take snapshots 1 to 5."""
    plan = table.upkeep.plan_expire_snapshots(
        retain_min=3, retain_max=3, time_retained_ms=0, grace_ms=0
    )
    broken, _ = watched(
        table, fail_at=1, fault=Fault.DIES_BEFORE, counts=lambda call: call.name == "delete"
    )
    with suppress(Crashed):
        broken.upkeep.run(plan)
    assert ids(table)[0] == 1


def test_half_an_expiry_keeps_a_rollback_from_its_snapshots_for_an_hour(catalog: Catalog) -> None:
    table = replacing(catalog, "abcd")
    half_expired(table)
    with pytest.raises(StalePlan, match="expire_snapshots deletes it; plan again"):
        table.history.rollback(snapshot=3, grace_ms=0)
    table.history.rollback(snapshot=7, grace_ms=0)
    age(table)
    table.history.rollback(snapshot=3, grace_ms=0)
    assert ids(table) == [1, 2, 3]
    table.upkeep.collect()


def test_a_target_that_expires_once_it_is_held_makes_the_plan_stale(catalog: Catalog) -> None:
    table = replacing(catalog, "abcd")
    late, fs = interrupted(
        table,
        when=lambda call: call.name == "replace" and "/condemned/" in call.path,
        meanwhile=lambda: expire(table),
    )
    plan = late.history.plan_rollback(snapshot=2, grace_ms=0)
    with pytest.raises(StalePlan, match="has expired since the plan was made"):
        late.history.run(plan)
    assert fs.has_happened
    assert ids(table) == [8]
    assert table.history.tags() == ()


def test_what_an_expiry_pointed_to_is_pointed_to_no_more_when_it_is_gone(
    unchecked_catalog: Catalog,
) -> None:
    table = replacing(unchecked_catalog, "abcd")
    late, _ = interrupted(
        table,
        when=lambda call: call.name == "delete" and call.path.endswith("/LATEST"),
        meanwhile=lambda: table.table_files.snapshots.hint_earliest(7),
    )
    late.history.run(late.history.plan_rollback(snapshot=4, grace_ms=0))
    assert table.table_files.snapshots.earliest_id() == 1
    assert_sound(table)


def test_what_was_committed_on_top_of_what_is_gone_is_told(catalog: Catalog) -> None:
    table = replacing(catalog, "abcd")
    check_nothing_newer(table.table_files, 8, "it was being watched")
    told = r"snapshot 8 was committed to db\.t while it was being watched, .* roll back to 7"
    with pytest.raises(StalePlan, match=told):
        check_nothing_newer(table.table_files, 7, "it was being watched")


def test_the_latest_snapshot_is_told_from_another_one_of_its_id(catalog: Catalog) -> None:
    table, empty = replacing(catalog, "a"), new_table(catalog, name="db.empty")
    first, second = table.history.snapshots()
    assert is_latest(empty.table_files, None)
    assert not is_latest(empty.table_files, first)
    assert not is_latest(table.table_files, None)
    assert [is_latest(table.table_files, each) for each in (first, second)] == [False, True]
    table.history.run(table.history.plan_rollback(snapshot=1, grace_ms=0))
    table.write(rows(table, events(5, 6)))
    assert ids(table) == [1, 2]
    assert not is_latest(table.table_files, second)
