"""Changelog files: they go with their snapshots, or outlive them where the table says so."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import ClockJumped, InvalidRequestError, StalePlan, StorageError
from lakewright.storage.operations.retention.expire_changelogs import (
    ExpireChangelogsPlan,
    ExpireChangelogsResult,
)
from tests.support.stores.watched_files import Call, Crashed, Fault, interrupted, watched
from tests.support.tables.builders import (
    compact,
    events,
    expire,
    new_table,
    rows,
    values_of,
    with_options,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_nothing_missing, assert_only_reachable_files
from tests.support.tables.remade import Remade

HOUR = 3_600_000
LONG_LIVED_NAMES = {"changelog__num_retained__min": "20", "changelog__num_retained__max": "30"}
INPUT = {"bucket": "1", "changelog-producer": "input"}
LONG_LIVED = {"changelog.num-retained.min": "20", "changelog.time-retained": "10 h"}


def history(catalog: Catalog, commits: int = 3, **options: str) -> Table:
    """Every other snapshot is a compaction."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    table = new_table(catalog, keys=["id"], options={**INPUT, **named})
    for number in range(commits):
        write(table, number)
    return table


def write(table: Table, number: int) -> None:
    table.write(rows(table, events(0, 3, v=f"v{number}-")))
    compact(table, full=True)


def names_on_disk(table: Table, prefix: str) -> list[str]:
    found = (each.name for each in table.table_files.fs.list_tree(table.table_files.paths.root))
    return sorted(name for name in found if name.startswith(prefix))


def changelog_ids(table: Table) -> list[int]:
    return [changelog.id for changelog in table.table_files.references.changelogs()]


def hints(table: Table) -> tuple[int | None, int | None]:
    paths = table.table_files.paths
    found = []
    for path in (paths.changelog_earliest_hint, paths.changelog_latest_hint):
        is_there = table.table_files.fs.exists(path)
        found.append(int(table.table_files.fs.read_bytes(path)) if is_there else None)
    return found[0], found[1]


@pytest.mark.mission("FS19")
def test_changelog_files_go_with_their_snapshots(any_catalog: Catalog) -> None:
    table = history(any_catalog)
    assert len(names_on_disk(table, "changelog-")) == 3
    expire(table, keep=3)
    assert len(names_on_disk(table, "changelog-")) == 1
    expire(table)
    assert names_on_disk(table, "changelog-") == []
    assert_only_reachable_files(table)
    assert values_of(table, "v") == ["v2-0", "v2-1", "v2-2"]


def test_a_tag_keeps_rows_and_no_changelog(catalog: Catalog) -> None:
    table = history(catalog)
    table.history.create_tag("t", snapshot=1)
    expire(table)
    assert names_on_disk(table, "changelog-") == []
    assert values_of(table.at(tag="t"), "v") == ["v0-0", "v0-1", "v0-2"]
    table.history.run(table.history.plan_rollback(tag="t", grace_ms=0))
    # The snapshot that is back names no changelog that is gone.
    assert [each.changelog_manifest_list for each in table.history.snapshots()] == [None]
    write(table, 9)
    expire(table)
    assert values_of(table.at(tag="t"), "v") == ["v0-0", "v0-1", "v0-2"]


def test_a_rollback_and_the_end_of_a_branch_take_changelog_files_along(catalog: Catalog) -> None:
    table = history(catalog)
    branch = table.history.create_branch("b", snapshot=2)
    write(branch, 7)
    assert len(names_on_disk(table, "changelog-")) == 4
    table.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))
    table.upkeep.collect(early=True)
    assert len(names_on_disk(table, "changelog-")) == 2
    table.history.run(table.history.plan_delete_branch("b", grace_ms=0))
    assert len(names_on_disk(table, "changelog-")) == 1
    assert_only_reachable_files(table)


@pytest.mark.mission("FS19")
def test_changelogs_outlive_their_snapshots(any_catalog: Catalog, env: FixedEnv) -> None:
    table = history(any_catalog, **LONG_LIVED)
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=0, grace_ms=0)
    assert plan.changelog_ids == plan.snapshot_ids == (1, 2, 3, 4, 5)
    assert "their changelogs stay for longer" in plan.reasons
    files = [table.table_files.snapshots.read_file(number) for number in (1, 2, 3, 4, 5)]
    table.upkeep.run(plan)
    assert changelog_ids(table) == [1, 2, 3, 4, 5]
    assert hints(table) == (1, 5)
    read = [
        table.table_files.fs.read_bytes(table.table_files.paths.changelog(n))
        for n in (1, 2, 3, 4, 5)
    ]
    assert read == files
    # All changelog files are there, and of the data only what the last snapshot needs.
    assert len(names_on_disk(table, "changelog-")) == 3 + 5
    assert len(names_on_disk(table, "data-")) == 1
    assert_only_reachable_files(table)

    write(table, 3)
    expire(table)
    assert changelog_ids(table) == list(range(1, 8))
    assert hints(table) == (1, 7)


@pytest.mark.mission("FS19")
def test_long_lived_changelogs_expire_later(any_catalog: Catalog, env: FixedEnv) -> None:
    options = {"changelog.num-retained.min": "2", "changelog.time-retained": "10 h"}
    table = history(any_catalog, **options, snapshot__num_retained__min="1")
    env.clock.advance(5 * HOUR)
    write(table, 3)
    expire(table)
    assert changelog_ids(table) == [1, 2, 3, 4, 5, 6, 7]
    assert table.upkeep.plan_expire_changelogs(grace_ms=0).changelog_ids == ()
    env.clock.advance(6 * HOUR)
    plan = table.upkeep.plan_expire_changelogs(grace_ms=0)
    assert plan.changelog_ids == (1, 2, 3, 4, 5, 6)
    assert "changelog 7 is of the last 10h" in plan.reasons or len(plan.reasons) == 1
    assert plan.bytes > 0
    assert ExpireChangelogsPlan.from_json(plan.to_json()) == plan
    result = table.upkeep.run(ExpireChangelogsPlan.from_json(plan.to_json()))
    assert result.expired == plan.changelog_ids
    assert changelog_ids(table) == [7]
    assert hints(table) == (7, 7)
    assert_only_reachable_files(table)
    table.upkeep.run(table.upkeep.plan_expire_changelogs(every=True, grace_ms=0))
    assert (changelog_ids(table), hints(table)) == ([], (None, None))
    assert_only_reachable_files(table)
    assert values_of(table, "v") == ["v3-0", "v3-1", "v3-2"]


def test_a_consumer_holds_changelogs_back(catalog: Catalog, env: FixedEnv) -> None:
    options = {**LONG_LIVED, "changelog.num-retained.min": "1", "consumer.changelog-only": "true"}
    table = history(catalog, **options, snapshot__num_retained__min="1")
    table.history.set_consumer("me", 3)
    expire(table)
    env.clock.advance(20 * HOUR)
    plan = table.upkeep.plan_expire_changelogs(grace_ms=0)
    assert plan.changelog_ids == (1, 2)
    assert "consumer me wants to read from snapshot 3" in plan.reasons


def test_no_more_changelogs_stay_than_the_table_says(catalog: Catalog) -> None:
    options = {"changelog.num-retained.max": "4", "changelog.time-retained": "10 h"}
    table = history(
        catalog,
        **options,
        changelog__num_retained__min="1",
        snapshot__num_retained__min="1",
        snapshot__num_retained__max="1",
    )
    expire(table)
    assert table.upkeep.plan_expire_changelogs(grace_ms=0).changelog_ids == (1, 2)


def test_without_a_producer_what_was_written_is_the_changelog(
    any_catalog: Catalog, env: FixedEnv
) -> None:
    table = history(any_catalog, changelog_producer="none", **LONG_LIVED)
    written = {
        entry.file.file_name
        for snapshot in table.history.snapshots()
        for entry in table.table_files.manifests.entries(
            table.table_files.manifests.read_list(snapshot.delta_manifest_list)
        )
        if snapshot.commit_kind.value == "APPEND"
    }
    expire(table)
    assert changelog_ids(table) == [1, 2, 3, 4, 5]
    # The base lists are no part of the changes.
    assert set(names_on_disk(table, "data-")) > written
    assert_only_reachable_files(table)
    table.upkeep.run(table.upkeep.plan_expire_changelogs(every=True, grace_ms=0))
    assert not set(names_on_disk(table, "data-")) & written
    assert_only_reachable_files(table)


def test_a_rollback_takes_long_lived_changelogs_along(catalog: Catalog) -> None:
    table = history(catalog, **LONG_LIVED)
    table.history.create_tag("t", snapshot=2)
    expire(table)
    plan = table.history.plan_rollback(tag="t", grace_ms=0)
    assert plan.changelog_ids == (3, 4, 5)
    seen, fs = watched(table)
    seen.history.run(plan)
    # The last ones first: a rollback that dies leaves no gap.
    gone = [table.table_files.paths.changelog(each) for each in (5, 4, 3)]
    assert [each.path for each in fs.changes if each.path in gone] == gone
    # The snapshot that is back has its changelog still.
    assert (changelog_ids(table), hints(table)) == ([1, 2], (1, 2))
    assert_only_reachable_files(table)


def test_a_plan_is_stale_when_changelogs_came(catalog: Catalog, env: FixedEnv) -> None:
    table = history(catalog, **LONG_LIVED)
    expire(table, keep=3)
    plan = table.upkeep.plan_expire_changelogs(every=True, grace_ms=0)
    expire(table)
    table.upkeep.run(plan)
    assert changelog_ids(table) == [4, 5]
    late = table.upkeep.plan_expire_changelogs(every=True, grace_ms=0)
    third = {**json.loads(table.table_files.snapshots.read_file(6)), "id": 3}
    table.table_files.references.put_changelog(3, json.dumps(third).encode())
    with pytest.raises(StalePlan, match="plan again"):
        table.upkeep.run(late)
    assert changelog_ids(table) == [3, 4, 5]


def test_changelogs_of_other_writers_are_read_without_their_state(catalog: Catalog) -> None:
    """They delete the lists of a long-lived changelog's state, and keep that of its changes."""
    table = history(catalog, **LONG_LIVED)
    expire(table)
    first = table.table_files.references.changelogs()[0]
    assert first.changelog_manifest_list is not None
    for name in (first.base_manifest_list, first.delta_manifest_list):
        assert not Path(table.table_files.paths.manifest(name)).exists()
    write(table, 5)
    expire(table)
    assert changelog_ids(table) == list(range(1, 8))


def test_a_file_that_moved_to_another_level_is_never_deleted(any_catalog: Catalog) -> None:
    """A compaction of one file takes it out of level 0 and adds it to the last, as it is."""
    table = new_table(any_catalog, keys=["id"], options={"bucket": "1", "num-levels": "6"})
    table.write(rows(table, events(0, 3)))
    (before,) = table.at().files()
    compact(table, full=True)
    (after,) = table.at().files()
    assert (before.file.file_name, after.file.level) == (after.file.file_name, 5)
    table.write(rows(table, events(5, 8)))
    expire(table)
    assert values_of(table, "id") == [0, 1, 2, 5, 6, 7]
    table.history.create_tag("t")
    compact(table, full=True)
    expire(table)
    assert values_of(table.at(tag="t"), "id") == [0, 1, 2, 5, 6, 7]


@pytest.mark.mission("FS19")
def test_an_expiry_with_changelogs_that_died_anywhere_is_finished_by_the_next() -> None:
    def run(table: Table) -> Any:
        expire(table)
        return table.upkeep.run(table.upkeep.plan_expire_changelogs(every=True, grace_ms=0))

    made = Remade(lambda catalog: history(catalog, 2, **LONG_LIVED))
    for number in range(1, 100):
        table = made.again()
        broken, fs = watched(
            table, fail_at=number, fault=Fault.DIES_AFTER, counts=lambda call: call.changes
        )
        with suppress(Crashed, StorageError):
            run(broken)
        if fs.counted < number:
            assert number > 5
            return
        run(table)
        assert changelog_ids(table) == []
        assert values_of(table, "v") == ["v1-0", "v1-1", "v1-2"]
        assert_nothing_missing(table)
        assert json.loads(table.table_files.snapshots.read_file(4))["id"] == 4


def test_changelogs_of_before_a_producer_was_chosen_keep_their_files(catalog: Catalog) -> None:
    """Without a producer what a commit added is its changelog, whatever the table does later."""
    table = history(catalog, changelog_producer="none", **LONG_LIVED_NAMES)
    expire(table)
    assert changelog_ids(table) == [1, 2, 3, 4, 5]
    options = {**table.schema.options, "changelog-producer": "input"}
    table.table_files.schemas.put_schema(replace(table.schema, id=1, options=options))
    table = catalog.table("db.t")
    assert table.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True).files == ()
    assert_only_reachable_files(table)
    table.upkeep.run(table.upkeep.plan_expire_changelogs(every=True, grace_ms=0))
    assert_only_reachable_files(table)


def test_a_consumer_begins_where_changelogs_are_left(catalog: Catalog) -> None:
    table = history(catalog, **LONG_LIVED_NAMES)
    expire(table)
    assert (table.history.snapshots()[0].id, changelog_ids(table)[0]) == (6, 1)
    table.history.set_consumer("me", 2)
    assert [each.next_snapshot_id for each in table.history.consumers()] == [2]


@pytest.mark.parametrize("other", ["snapshots", pytest.param("changelogs", marks=pytest.mark.deep)])
def test_two_expiries_at_once_do_their_work_or_say_plan_again(other: str) -> None:
    def make(catalog: Catalog) -> Table:
        table = history(catalog, **LONG_LIVED_NAMES)
        table.history.create_tag("t", snapshot=1)
        expire(table, keep=4)
        return table

    made = Remade(make)
    for number in range(1, 200):
        table = made.again()
        calls = 0

        def is_next(call: Call) -> bool:
            nonlocal calls
            calls += not call.changes
            return calls == 3 * number  # noqa: B023

        def meanwhile() -> None:
            if other == "snapshots":
                expire(table)  # noqa: B023
            else:
                table.upkeep.run(table.upkeep.plan_expire_changelogs(every=True, grace_ms=0))  # noqa: B023

        slow, fs = interrupted(table, when=is_next, meanwhile=meanwhile)
        with suppress(StalePlan):
            expire(slow, keep=2)
        if not fs.has_happened:
            assert number > 5
            return
        expire(table)
        table.upkeep.run(table.upkeep.plan_expire_changelogs(every=True, grace_ms=0))
        assert values_of(table, "v") == ["v2-0", "v2-1", "v2-2"]
        assert_nothing_missing(table)
    raise AssertionError("the expiry made too many calls")


def test_so_many_changelogs_go_at_once_and_it_is_said_why_others_stay(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = history(catalog, **LONG_LIVED, snapshot__expire__limit="2")
    for _ in range(3):
        expire(table)
    assert changelog_ids(table) == [1, 2, 3, 4, 5]
    few = with_options(table, changelog__num_retained__min="1")
    young = few.upkeep.plan_expire_changelogs(grace_ms=0)
    assert young.changelog_ids == ()
    assert "changelog 1 is of the last 10h" in young.reasons
    env.clock.advance(11 * HOUR)
    # However old, so many stay.
    assert table.upkeep.plan_expire_changelogs(grace_ms=0).changelog_ids == ()
    table.upkeep.run(few.upkeep.plan_expire_changelogs(grace_ms=0))
    assert changelog_ids(table) == [3, 4, 5]


def test_a_call_may_keep_fewer_changelogs_than_the_options_and_for_less_time(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = history(catalog, **LONG_LIVED)
    expire(table)
    plan = table.upkeep.plan_expire_changelogs
    assert changelog_ids(table) == [1, 2, 3, 4, 5]
    assert plan().changelog_ids == ()
    assert plan(retain_min=1, retain_max=3).changelog_ids == (1, 2, 3)
    assert plan(retain_min=1).changelog_ids == ()
    env.clock.advance(2 * HOUR)
    assert plan(retain_min=1, time_retained_ms=3 * HOUR).changelog_ids == ()
    assert plan(retain_min=1, time_retained_ms=HOUR).changelog_ids == (1, 2, 3, 4, 5)
    # However old, so many stay: the last of them is a snapshot still.
    assert plan(retain_min=3, time_retained_ms=HOUR).changelog_ids == (1, 2, 3)
    table.upkeep.run(plan(retain_min=3, time_retained_ms=HOUR))
    assert changelog_ids(table) == [4, 5]
    assert_only_reachable_files(table)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"retain_max": 2}, r"retain_max \(2\) of the changelogs of .* below retain_min \(20\)"),
        ({"retain_min": 0}, "retain_min is 0"),
        ({"time_retained_ms": -1}, "time_retained_ms is -1"),
        ({"every": True, "retain_min": 1}, "leave one of them out"),
    ],
)
def test_a_retention_of_changelogs_that_cannot_be_is_refused(
    catalog: Catalog, given: dict[str, Any], said: str
) -> None:
    table = history(catalog, **LONG_LIVED)
    expire(table)
    with pytest.raises(InvalidRequestError, match=said):
        table.upkeep.plan_expire_changelogs(**given)
    assert changelog_ids(table) == [1, 2, 3, 4, 5]


def test_by_a_clock_that_jumped_back_no_changelog_expires(catalog: Catalog, env: FixedEnv) -> None:
    table = history(catalog, **LONG_LIVED)
    expire(table)
    env.clock.advance(-HOUR)
    with pytest.raises(ClockJumped, match="snapshot 6 of"):
        with_options(table, changelog__num_retained__min="1").upkeep.plan_expire_changelogs(
            grace_ms=0
        )
    assert changelog_ids(table) == [1, 2, 3, 4, 5]


def test_what_two_expiries_did_adds_up() -> None:
    first = ExpireChangelogsResult(
        expired=(1, 2), files_deleted=3, bytes_deleted=400, duration_ms=50
    )
    second = ExpireChangelogsResult(expired=(3,), files_deleted=1, bytes_deleted=20, duration_ms=7)
    assert first.and_then(second) == ExpireChangelogsResult(
        expired=(1, 2, 3), files_deleted=4, bytes_deleted=420, duration_ms=57
    )


@pytest.mark.mission("FS19")
def test_what_an_expiry_that_died_has_yet_to_keep_is_not_deleted_as_orphans(
    catalog: Catalog,
) -> None:
    table = history(catalog, **LONG_LIVED_NAMES)
    expected = values_of(table, "v")
    broken, _ = watched(
        table,
        fail_at=1,
        fault=Fault.DIES_BEFORE,
        counts=lambda call: "/changelog/" in call.path and call.changes,
    )
    with suppress(Crashed):
        expire(broken)
    assert not table.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True).files
    expire(table)
    table.upkeep.collect(under_way=True)
    assert changelog_ids(table) == [1, 2, 3, 4, 5]
    assert values_of(table, "v") == expected
    assert_nothing_missing(table)
    assert_only_reachable_files(table)
