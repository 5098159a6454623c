"""Quarantine: what was set aside comes back as it was, until a purge deletes it for good."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    ClockJumped,
    CorruptionError,
    FileMissing,
    InvalidRequestError,
    NotFoundError,
    TargetExists,
    UnreadableManifest,
    UnsupportedError,
)
from lakewright.storage.operations.references.sweep import sweep
from lakewright.storage.operations.state.store_clock import check_clock
from lakewright.storage.plans import OrphanSearch, PurgePlan, RestorePlan
from tests.support.stores.stepped_files import DictFiles
from tests.support.stores.watched_files import Call, interrupted, overtaken
from tests.support.tables.builders import events, new_table, rows, values_of
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import any_catalog
from tests.support.tables.invariants import (
    assert_only_reachable_files,
    assert_sound,
    unreachable_files,
)

__all__ = ["any_catalog"]

DAY = 86_400_000
DEEP = pytest.mark.deep


def with_orphans(catalog: Catalog) -> Table:
    """A partitioned table beside whose files a write that died has left its own."""
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, events(0, 3)))
    table.stage(rows(table, [*events(3, 6, day="a"), *events(6, 9, day="b")]))
    return table


def set_aside(table: Table) -> str:
    """Move every orphan into quarantine, however young; which one."""
    plan = table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True)
    (quarantine_id,) = table.upkeep.run(plan).quarantine_ids
    return quarantine_id


def content_of(table: Table) -> dict[str, bytes]:
    """Every file of a table, by its path."""
    fs, root = table.table_files.fs, table.table_files.paths.root
    return {
        each.path.removeprefix(f"{root}/"): fs.read_bytes(each.path) for each in fs.list_tree(root)
    }


def write(table: Table, path: str, data: bytes) -> None:
    table.table_files.fs.write_bytes(f"{table.table_files.paths.root}/{path}", data)


def manifest_of(table: Table, quarantine_id: str) -> str:
    return table.table_files.paths.quarantine_manifest(quarantine_id)


# --- restore --------------------------------------------------------------------------------------


def test_a_file_with_a_line_end_in_its_name_is_listed_and_comes_back(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 1)))
    write(table, "bucket-0/data-a\nb.parquet", b"rows")
    before = content_of(table)
    quarantine_id = set_aside(table)
    (listed,) = table.upkeep.quarantines()
    assert [each.path for each in listed.files] == ["bucket-0/data-a\nb.parquet"]
    assert table.upkeep.restore(quarantine_id).files_restored == 1
    assert content_of(table) == before
    set_aside(table)
    table.upkeep.purge(ttl_ms=0)
    assert_sound(table)


@pytest.mark.mission("FS19")
def test_what_was_set_aside_comes_back_byte_for_byte(any_catalog: Catalog) -> None:
    table = with_orphans(any_catalog)
    before, orphans = content_of(table), unreachable_files(table)
    quarantine_id = set_aside(table)
    assert_only_reachable_files(table)
    (quarantine,) = table.upkeep.quarantines()
    assert (quarantine.id, quarantine.reason) == (quarantine_id, "remove-orphans")
    assert [file.path for file in quarantine.files] == sorted(orphans)
    assert quarantine.bytes == sum(len(before[path]) for path in orphans)
    assert abs((quarantine.created_ms or 0) - time.time() * 1000) < 60_000

    plan = table.upkeep.plan_restore(quarantine_id)
    assert RestorePlan.from_json(plan.to_json()) == plan
    result = table.upkeep.run(plan)
    assert (result.files_restored, result.bytes_restored) == (len(orphans), quarantine.bytes)
    assert result.missing == ()
    assert 0 < result.duration_ms < DAY
    assert content_of(table) == before
    assert table.upkeep.quarantines() == ()
    assert not table.table_files.fs.list_subdirs(table.table_files.paths.root).count(".lakewright")
    set_aside(table)


def test_some_files_come_back_and_the_others_stay(any_catalog: Catalog) -> None:
    table = with_orphans(any_catalog)
    before = content_of(table)
    quarantine_id = set_aside(table)
    first, *others = [file.path for file in table.upkeep.quarantines()[0].files]
    table.upkeep.run(table.upkeep.plan_restore(quarantine_id, paths=[first]))
    assert content_of(table)[first] == before[first]
    assert unreachable_files(table) == [first]
    (quarantine,) = table.upkeep.quarantines()
    assert [file.path for file in quarantine.files] == others
    with pytest.raises(FileMissing, match=f"no file {first} in quarantine {quarantine_id}"):
        table.upkeep.plan_restore(quarantine_id, paths=[first])
    table.upkeep.run(table.upkeep.plan_restore(quarantine_id))
    assert content_of(table) == before
    set_aside(table)


def test_a_file_whose_place_is_taken_again_is_refused_before_anything_moves(
    any_catalog: Catalog,
) -> None:
    table = with_orphans(any_catalog)
    quarantine_id = set_aside(table)
    first, second, *_ = [file.path for file in table.upkeep.quarantines()[0].files]
    write(table, second, b"somebody else's")
    before = content_of(table)
    with pytest.raises(TargetExists, match=f"{second} of db.t is now another file"):
        table.upkeep.plan_restore(quarantine_id)
    assert content_of(table) == before
    result = table.upkeep.run(table.upkeep.plan_restore(quarantine_id, paths=[first]))
    assert result.files_restored == 1
    assert content_of(table)[second] == b"somebody else's"
    set_aside(table)


def test_a_place_that_is_taken_while_files_come_back_is_told_and_nothing_is_written_over(
    any_catalog: Catalog,
) -> None:
    table = with_orphans(any_catalog)
    quarantine_id = set_aside(table)
    first, second, *_ = [file.path for file in table.upkeep.quarantines()[0].files]
    plan = table.upkeep.plan_restore(quarantine_id)
    broken = overtaken(
        table,
        lambda call: call.name == "move_if_absent" and call.path.endswith(first),
        lambda: write(table, second, b"somebody else's"),
    )
    with pytest.raises(TargetExists, match="; 1 files are restored"):
        broken.upkeep.run(plan)
    assert content_of(table)[second] == b"somebody else's"
    assert len(table.upkeep.quarantines()[0].files) == len(plan.files) - 1
    set_aside(table)


def test_a_file_that_is_back_already_leaves_quarantine(any_catalog: Catalog) -> None:
    """Somebody who stopped halfway through a move has left it in both places."""
    table = with_orphans(any_catalog)
    before = content_of(table)
    quarantine_id = set_aside(table)
    for path in unreachable_files_of(before, table):
        write(table, path, before[path])
    result = table.upkeep.run(table.upkeep.plan_restore(quarantine_id))
    assert result.files_restored == len(unreachable_files(table))
    assert content_of(table) == before
    set_aside(table)


def unreachable_files_of(before: dict[str, bytes], table: Table) -> list[str]:
    return sorted(before.keys() - content_of(table).keys())


@pytest.mark.parametrize("damage", [b"", b"other bytes", None])
def test_a_file_that_was_changed_in_quarantine_does_not_come_back(
    unchecked_catalog: Catalog, damage: bytes | None
) -> None:
    table = with_orphans(unchecked_catalog)
    quarantine_id = set_aside(table)
    file = table.upkeep.quarantines()[0].files[0]
    copy = Path(table.table_files.paths.quarantined(quarantine_id, file.path))
    data = copy.read_bytes()
    copy.write_bytes(bytes([data[0] ^ 1]) + data[1:] if damage is None else damage)
    with pytest.raises(CorruptionError, match="is not the file that was set aside"):
        table.upkeep.run(table.upkeep.plan_restore(quarantine_id))
    assert copy.exists()
    assert not (Path(table.table_files.paths.root) / file.path).exists()


def test_a_restore_that_is_stale_says_what_is_missing(any_catalog: Catalog) -> None:
    table = with_orphans(any_catalog)
    quarantine_id = set_aside(table)
    plan = table.upkeep.plan_restore(quarantine_id)
    first, *others = [file.path for file in plan.files]
    purged = interrupted(
        table,
        when=lambda call: call.name == "open_input",
        meanwhile=lambda: table.upkeep.run(table.upkeep.plan_purge(quarantine_ids=[quarantine_id])),
    )[0]
    result = purged.upkeep.run(plan)
    assert (result.files_restored, result.missing) == (0, (first, *others))
    with pytest.raises(NotFoundError, match="there are none"):
        table.upkeep.run(plan)


def test_a_quarantine_that_is_not_there_is_told_with_those_there_are(any_catalog: Catalog) -> None:
    table = with_orphans(any_catalog)
    quarantine_id = set_aside(table)
    for name in ("20200101-000000-nothing", "..", ""):
        with pytest.raises(NotFoundError, match=f"no quarantine {name} of db.t; there are 2"):
            table.upkeep.plan_restore(name)
    with pytest.raises(NotFoundError, match=quarantine_id):
        table.upkeep.plan_purge(quarantine_ids=["x"])


def test_a_quarantine_is_named_by_when_it_was_made(any_catalog: Catalog) -> None:
    table = with_orphans(any_catalog)
    set_aside(table)
    (found,) = table.upkeep.quarantines()
    named = dt.datetime.strptime(f"{found.id[:15]}+0000", "%Y%m%d-%H%M%S%z")
    assert found.created_ms is not None
    assert abs(found.created_ms / 1000 - named.timestamp()) < 60


def test_a_plan_for_another_table_is_refused(any_catalog: Catalog) -> None:
    table = with_orphans(any_catalog)
    quarantine_id = set_aside(table)
    with pytest.raises(InvalidRequestError, match=r"the plan is for db\.u"):
        table.upkeep.run(replace(table.upkeep.plan_restore(quarantine_id), table="db.u"))
    with pytest.raises(InvalidRequestError, match=r"the plan is for db\.u"):
        table.upkeep.run(replace(table.upkeep.plan_purge(ttl_ms=0), table="db.u"))


# --- purge ----------------------------------------------------------------------------------------


def age(table: Table, quarantine_id: str, days: float) -> None:
    """Let a quarantine on disk be made so long ago."""
    path = Path(manifest_of(table, quarantine_id))
    made_ms = int((time.time() - days * 86_400) * 1000)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"created_ms": made_ms}))
    os.utime(path, (made_ms / 1000, made_ms / 1000))


def test_a_purge_deletes_what_was_set_aside_seven_days_ago(catalog: Catalog) -> None:
    table = with_orphans(catalog)
    old = set_aside(table)
    table.stage(rows(table, events(9, 12)))
    young = set_aside(table)
    age(table, old, 6.9)
    none = table.upkeep.plan_purge()
    assert (none.files, none.quarantine_ids, none.wanted, none.reasons) == ((), (), (), ())
    age(table, old, 7.1)
    plan = table.upkeep.plan_purge()
    assert plan.quarantine_ids == (old,)
    assert PurgePlan.from_json(plan.to_json()) == plan
    before = {each.id: each for each in table.upkeep.quarantines()}
    result = table.upkeep.run(plan)
    assert (result.files_deleted, result.bytes_deleted) == (
        len(before[old].files),
        before[old].bytes,
    )
    assert table.upkeep.quarantines() == (before[young],)
    assert not Path(table.table_files.paths.quarantine(old)).exists()
    assert table.upkeep.run(plan).files_deleted == 0
    table.upkeep.run(table.upkeep.plan_purge(ttl_ms=0))
    assert not Path(table.table_files.paths.upkeep_dir).exists()
    assert values_of(table, "id") == [0, 1, 2]


def test_a_time_to_live_is_told_and_a_name_needs_none(catalog: Catalog) -> None:
    table = with_orphans(catalog)
    quarantine_id = set_aside(table)
    age(table, quarantine_id, 2)
    assert table.upkeep.plan_purge(ttl_ms=3 * DAY).quarantine_ids == ()
    assert table.upkeep.plan_purge(ttl_ms=1 * DAY).quarantine_ids == (quarantine_id,)
    with pytest.raises(InvalidRequestError, match="give 0 or more"):
        table.upkeep.plan_purge(ttl_ms=-1)
    table.upkeep.run(table.upkeep.plan_purge(quarantine_ids=[quarantine_id]))
    assert table.upkeep.quarantines() == ()


def test_what_something_refers_to_by_now_is_not_purged_but_comes_back(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    staged = table.stage(rows(table, events(3, 6)))
    # The commit has looked for its files when they are set aside, and publishes them.
    late, _ = interrupted(
        table,
        when=lambda call: call.name == "put_if_absent" and "snapshot-2" in call.path,
        meanwhile=lambda: set_aside_data(table),
    )
    late.commit(staged)
    with pytest.raises(FileMissing):
        table.read()
    plan = table.upkeep.plan_purge(ttl_ms=0)
    (path,) = plan.wanted
    assert plan.files == ()
    result = table.upkeep.run(plan)
    assert (result.brought_back, result.files_deleted) == ((path,), 0)
    assert values_of(table, "id") == [0, 1, 2, 3, 4, 5]
    assert table.upkeep.quarantines() == ()


def set_aside_data(table: Table) -> None:
    plan = table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True)
    data = tuple(file for file in plan.files if "bucket-" in file.path)
    table.upkeep.run(replace(plan, files=data))


def test_what_is_published_after_a_purge_was_planned_comes_back(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    staged = table.stage(rows(table, events(3, 6)))
    plans: list[PurgePlan] = []

    def set_aside_and_plan() -> None:
        set_aside_data(table)
        plans.append(table.upkeep.plan_purge(ttl_ms=0))

    late, _ = interrupted(
        table,
        when=lambda call: call.name == "put_if_absent" and "snapshot-2" in call.path,
        meanwhile=set_aside_and_plan,
    )
    late.commit(staged)
    (plan,) = plans
    assert len(plan.files) == 1
    result = table.upkeep.run(plan)
    assert len(result.brought_back) == 1
    assert (result.files_deleted, result.bytes_deleted) == (0, 0)
    assert values_of(table, "id") == [0, 1, 2, 3, 4, 5]


def test_nothing_is_purged_when_what_refers_to_files_cannot_be_read(
    unchecked_catalog: Catalog,
) -> None:
    table = with_orphans(unchecked_catalog)
    set_aside(table)
    plan = table.upkeep.plan_purge(ttl_ms=0)
    latest = table.history.latest_snapshot()
    assert latest is not None
    Path(table.table_files.paths.manifest(latest.delta_manifest_list)).write_bytes(b"garbage")
    before = content_of(table)
    for purge in (lambda: table.upkeep.plan_purge(ttl_ms=0), lambda: table.upkeep.run(plan)):
        with pytest.raises(CorruptionError):
            purge()
    assert content_of(table) == before


def test_a_quarantine_from_the_future_makes_a_purge_stop(catalog: Catalog) -> None:
    table = with_orphans(catalog)
    quarantine_id = set_aside(table)
    age(table, quarantine_id, -1)
    with pytest.raises(
        ClockJumped, match=f"{quarantine_id} of db.t has the later time .* nothing was purged"
    ):
        table.upkeep.plan_purge(ttl_ms=0)
    assert table.upkeep.quarantines()[0].id == quarantine_id


def test_one_file_from_the_future_is_found_among_any(catalog: Catalog) -> None:
    files, now, minutes = new_table(catalog).table_files, 10 * DAY, 60_000
    for name in "az":
        others = [("b", now - DAY), ("y", now)]
        with pytest.raises(
            ClockJumped, match=f"file {name} of db.t has the later time .* nothing was moved"
        ):
            check_clock(files, now, [*others, (name, now + 10 * minutes + 1)], what="moved")
        check_clock(files, now, [*others, (name, now + 10 * minutes)], what="moved")
    check_clock(files, now, [], what="moved")


def test_to_live_for_no_time_is_to_go_at_once() -> None:
    """By a store whose clock has not moved on since."""
    table = with_orphans(Catalog(DictFiles(), "/w", FixedEnv()))
    quarantine_id = set_aside(table)
    assert table.upkeep.plan_purge(ttl_ms=1).quarantine_ids == ()
    assert table.upkeep.plan_purge(ttl_ms=0).quarantine_ids == (quarantine_id,)


# --- what cannot be read, and what others see -----------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "error", "match"),
    [
        (b"{", UnreadableManifest, "cannot be read"),
        (b"[]", UnreadableManifest, "cannot be read"),
        (b'{"version": 1, "table": "t"}', UnreadableManifest, "created_ms"),
        (b'{"version": 2}', UnsupportedError, "version 2, and this release reads 1"),
        (b"\xff\xfe", UnreadableManifest, "cannot be read"),
    ],
)
def test_a_quarantine_whose_manifest_cannot_be_read_is_told_and_stays(
    unchecked_catalog: Catalog, damage: bytes, error: type[Exception], match: str
) -> None:
    table = with_orphans(unchecked_catalog)
    bad = set_aside(table)
    table.stage(rows(table, events(9, 12)))
    good = set_aside(table)
    Path(manifest_of(table, bad)).write_bytes(damage)
    (kept,) = (each for each in table.upkeep.quarantines() if each.id == bad)
    assert kept.created_ms is None
    assert match in kept.problem
    assert len(kept.files) == 2
    before = {path for path in content_of(table) if bad in path}
    with pytest.raises(error, match=match):
        table.upkeep.plan_restore(bad)
    with pytest.raises(error, match=match):
        table.upkeep.plan_purge(quarantine_ids=[bad])
    plan = table.upkeep.plan_purge(ttl_ms=0)
    assert plan.quarantine_ids == (good,)
    assert bad in plan.reasons[0]
    table.upkeep.run(plan)
    assert {path for path in content_of(table) if bad in path} == before

    # The way out that the message names.
    Path(manifest_of(table, bad)).unlink()
    assert "its manifest is missing" in table.upkeep.quarantines()[0].problem
    assert table.upkeep.plan_purge(ttl_ms=0).quarantine_ids == ()
    with pytest.raises(UnreadableManifest, match="stays: its manifest is missing"):
        table.upkeep.plan_purge(quarantine_ids=[bad])
    result = table.upkeep.run(table.upkeep.plan_restore(bad))
    assert result.files_restored == len(kept.files)
    assert table.upkeep.quarantines() == ()


def test_a_removal_whose_manifest_somebody_took_away_writes_it_again(catalog: Catalog) -> None:
    """Whoever restores everything there is while files still move in has ended the quarantine."""
    table = with_orphans(catalog)
    plan = table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True)

    def restore_all() -> None:
        (quarantine,) = table.upkeep.quarantines()
        table.upkeep.run(table.upkeep.plan_restore(quarantine.id))

    restored = overtaken(
        table,
        lambda call: call.name == "move_if_absent" and call.path.endswith(plan.files[0].path),
        restore_all,
    )
    restored.upkeep.run(plan)
    (quarantine,) = table.upkeep.quarantines()
    assert [file.path for file in quarantine.files] == [file.path for file in plan.files[1:]]
    assert unreachable_files(table) == [plan.files[0].path]
    set_aside(table)


def test_two_removals_at_once_lose_nothing(any_catalog: Catalog) -> None:
    table = with_orphans(any_catalog)
    before = content_of(table)

    def other_removal() -> None:
        table.upkeep.run(table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True))

    for number in range(len(unreachable_files(table))):
        plan = table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True)
        overtaken(table, nth_move(number), other_removal).upkeep.run(plan)
        assert_only_reachable_files(table)
        for quarantine in table.upkeep.quarantines():
            table.upkeep.run(table.upkeep.plan_restore(quarantine.id))
        assert content_of(table) == before
    set_aside(table)


def nth_move(number: int) -> Callable[[Call], bool]:
    moves = iter(range(1_000))
    return lambda call: call.name == "move_if_absent" and next(moves) == number


def test_a_file_that_a_dead_removal_left_in_both_places_is_lost_from_neither(
    catalog: Catalog,
) -> None:
    """On disk a move is a new link, then the old one goes: it may die in between."""
    table = with_orphans(catalog)
    before = content_of(table)
    first = unreachable_files(table)[0]
    dead = set_aside(table)
    copy = Path(table.table_files.paths.quarantined(dead, first))
    original = Path(table.table_files.paths.root) / first
    original.parent.mkdir(parents=True, exist_ok=True)
    os.link(copy, original)
    again = set_aside(table)
    assert [each.id for each in table.upkeep.quarantines()] == sorted([dead, again])
    assert_only_reachable_files(table)
    for quarantine_id in (again, dead):
        table.upkeep.run(table.upkeep.plan_restore(quarantine_id))
    assert content_of(table) == before
    set_aside(table)


@pytest.mark.parametrize(
    ("count", "held"), [(1_100, [1_100]), pytest.param(10_050, [10_000, 50], marks=DEEP)]
)
def test_orphans_that_are_many_move_in_parts(catalog: Catalog, count: int, held: list[int]) -> None:
    table = new_table(catalog)
    folder = Path(table.table_files.paths.root) / "bucket-0"
    folder.mkdir()
    for number in range(count):
        (folder / f"left-{number}").write_text(str(number))
    plan = table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True)
    result = table.upkeep.run(plan)
    assert result.files_moved == count
    assert [len(each.files) for each in table.upkeep.quarantines()] == held
    assert_only_reachable_files(table)
    table.upkeep.run(table.upkeep.plan_restore(result.quarantine_ids[-1]))
    assert len(list(folder.iterdir())) == held[-1]
    set_aside(table)
    table.upkeep.run(table.upkeep.plan_purge(ttl_ms=0))


def with_many_aside(catalog: Catalog, folders: int, files: int) -> Table:
    """A table with quarantines of so many empty files."""
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    for number in range(folders):
        folder = Path(table.table_files.paths.quarantined(f"q{number:04d}", "bucket-0/x")).parent
        folder.mkdir(parents=True)
        for at in range(files):
            (folder / f"data-3f2504e0-4f89-11d3-9a0c-0305e82c{number:04d}{at:04d}-0").touch()
    return table


def test_memory_holds_a_number_for_each_file_in_quarantine(catalog: Catalog) -> None:
    table = with_many_aside(catalog, folders=30, files=300)
    plan = table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True)
    tracemalloc.start()
    try:
        table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True)
        table.upkeep.run(plan)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        table.table_files.fs.delete_tree(table.table_files.paths.quarantine_dir)
    assert peak < 150 * 30 * 300


def test_steps_of_a_removal_name_each_orphan_once_and_leave_what_is_committed_meanwhile(
    catalog: Catalog,
) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    staged = [table.stage(rows(table, events(at, at + 1))) for at in range(3, 9)]
    left = unreachable_files(table)
    planned = []
    for plan in table.upkeep.orphan_steps(OrphanSearch(age_ms=0, even_recent=True), max_files=2):
        if not planned:
            for each in staged:
                table.commit(each)
        planned += [file.path for file in plan.files]
        assert len(plan.files) == 2
        assert table.upkeep.run(plan).files_moved == 0
    assert sorted(planned) == sorted(left)
    assert len(values_of(table, "id")) == 9
    assert_sound(table)


def test_a_purge_in_parts_deletes_whole_quarantines_and_names_the_others(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    ids = []
    for at in range(3):
        table.stage(rows(table, [*events(at, at + 2)]))
        ids.append(set_aside(table))
    sizes = {each.id: (len(each.files), each.bytes) for each in table.upkeep.each_quarantine()}
    first, *others = sorted(ids)
    plan = table.upkeep.plan_purge(ttl_ms=0, max_files=1)
    assert (plan.quarantine_ids, plan.later) == ((first,), tuple(others))
    assert plan.later_files == sum(sizes[each][0] for each in others)
    assert plan.later_bytes == sum(sizes[each][1] for each in others)
    assert PurgePlan.from_json(plan.to_json()) == plan
    table.upkeep.run(plan)
    assert [each.id for each in table.upkeep.quarantines()] == others


def test_upkeep_beside_a_table_is_no_file_of_the_table(any_catalog: Catalog) -> None:
    table = new_table(any_catalog, partitions=["day"])
    table.write(rows(table, events(0, 3)))
    staged = table.stage(rows(table, events(3, 6)))
    set_aside(table)
    count = table.inspect.file_count_on_disk()
    assert any_catalog.list_tables("db") == ("t",)
    assert len(table.at().partitions()) == 1
    assert table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True).files == ()
    # Neither does giving a write up take away what is accounted for in quarantine.
    table.abort(staged)
    assert sweep(table.table_files, staged.write_id, since_snapshot_id=None) == 0
    assert len(table.upkeep.quarantines()[0].files) == 1
    assert count == len([path for path in content_of(table) if not path.startswith(".")])
    assert_sound(table)


def test_what_upkeep_did_not_finish_goes_with_the_orphans(catalog: Catalog) -> None:
    table = with_orphans(catalog)
    quarantine_id = set_aside(table)
    folder = Path(table.table_files.paths.quarantine(quarantine_id))
    (folder / ".manifest.json.1.tmp").write_text("{")
    (folder.parent.parent / ".book-3.1.tmp").write_text("{")
    (folder.parent.parent / "clock").write_text("?")
    plan = table.upkeep.plan_remove_orphans(age_ms=0, even_recent=True)
    assert [file.path.rsplit("/", 1)[-1] for file in plan.leftovers] == [
        ".book-3.1.tmp",
        ".manifest.json.1.tmp",
    ]
    table.upkeep.run(plan)
    assert_only_reachable_files(table)
