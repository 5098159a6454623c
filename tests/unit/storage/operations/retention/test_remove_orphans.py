"""Orphans: what dead processes left is condemned, and nothing that anything refers to."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    ClockJumped,
    CorruptionError,
    FilesGone,
    InvalidRequestError,
    UnsupportedError,
)
from lakewright.storage.operations.retention.remove_orphans import (
    OrphanFile,
    OrphansOptions,
    OrphansPlan,
)
from lakewright.storage.operations.running.plan import UnreachableFile
from tests.support.stores.watched_files import (
    Call,
    Crashed,
    Fault,
    WatchedFiles,
    over,
    overtaken,
    watched,
)
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
    values_of,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_only_reachable_files, unreachable_files

HOUR = 3_600_000


def history(catalog: Catalog) -> Table:
    """Snapshots, a tag, a branch and long-lived changelogs, each with files of its own."""
    options = {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog.num-retained.min": "20",
        "changelog.num-retained.max": "30",
    }
    table = new_table(catalog, keys=["id"], options=options)
    for version in "abcd":
        table.write(rows(table, events(0, 3, v=version)))
        compact(table, full=True)
    table.history.create_tag("t", snapshot=2)
    branch = table.history.create_branch("b", snapshot=4)
    branch.write(rows(branch, events(5, 6)))
    expire(table, keep=2)
    return table


def age(table: Table, hours: float) -> None:
    """Make every file so old by the clock of the disk."""
    moment = time.time() - hours * 3600
    for path in Path(table.table_files.paths.root).rglob("*"):
        os.utime(path, (moment, moment))


def listed(table: Table) -> set[str]:
    root = table.table_files.paths.root
    return {each.path.removeprefix(root) for each in table.table_files.fs.list_tree(root)}


def remove(table: Table, **plan: int) -> int:
    return table.upkeep.run(table.upkeep.plan_remove_orphans(**plan)).files_condemned


@pytest.mark.mission("FS19")
def test_what_a_dead_write_left_goes_and_all_else_stays(catalog: Catalog) -> None:
    table = history(catalog)
    before = content(table), content(table.at(tag="t")), content(table.history.at_branch("b"))
    broken, _ = watched(
        table, fail_at=1, fault=Fault.DIES_BEFORE, counts=lambda call: call.name == "put_if_absent"
    )
    with suppress(Crashed):
        broken.write(rows(table, events(7, 9)))
    folder = Path(table.table_files.paths.snapshot_dir)
    (folder / ".snapshot-9.0.tmp").write_text("{")
    left = [*unreachable_files(table)]
    assert any("bucket-0/data-" in path for path in left)
    assert any("bucket-0/changelog-" in path for path in left)
    assert any("manifest/" in path for path in left)

    age(table, 23)
    assert table.upkeep.plan_remove_orphans().files == ()
    age(table, 25)
    plan = table.upkeep.plan_remove_orphans()
    assert [file.path for file in plan.files] == sorted(left)
    assert plan.bytes == sum(file.size_bytes for file in plan.files) > 0
    assert OrphansPlan.from_json(plan.to_json()) == plan
    result = table.upkeep.run(OrphansPlan.from_json(plan.to_json()))
    assert (result.files_condemned, result.bytes_condemned) == (len(left), plan.bytes)
    assert result.files_deleted == 0
    assert (
        content(table),
        content(table.at(tag="t")),
        content(table.history.at_branch("b")),
    ) == before
    assert_only_reachable_files(table)
    assert remove(table) == 0


def test_it_is_told_how_many_files_were_looked_at(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{OrphansPlan.__module__}._TOLD_EVERY", 4)
    table = new_table(catalog, partitions=("day",))
    table.write(rows(table, events(0, 3)))
    for day in "abcd":
        table.stage(rows(table, events(3, 6, day=day)))
    looked: list[int] = []
    options = OrphansOptions(older_than_ms=0, even_recent=True)
    plan = next(table.upkeep.orphan_steps(options, looked=looked.append))
    assert looked[:2] == [4, 8]
    assert looked == sorted(looked)
    listed = table.table_files.fs.list_tree(table.table_files.paths.root)
    hidden = "/.lakewright/"
    assert looked[-1] == sum(hidden not in each.path for each in listed)
    assert table.upkeep.run(plan).files_condemned == 4


def test_files_in_places_of_others_stay(unchecked_catalog: Catalog) -> None:
    table = history(unchecked_catalog)
    root = Path(table.table_files.paths.root)
    for name in ("_notes/manifest.txt", "README", "manifest/sub/x", "snapshot/notes"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("mine")
    age(table, 100)
    assert remove(table) == 0
    assert (root / "_notes" / "manifest.txt").exists()


def test_an_orphan_that_is_committed_after_the_plan_stays(catalog: Catalog) -> None:
    table = history(catalog)
    staged = table.stage(rows(table, events(7, 9)))
    age(table, 25)
    plan = table.upkeep.plan_remove_orphans()
    assert plan.files
    table.commit(staged)
    assert table.upkeep.run(plan).files_condemned == 0
    assert table.read().num_rows == 5


def test_nothing_goes_when_what_refers_to_files_cannot_be_read(unchecked_catalog: Catalog) -> None:
    table = history(unchecked_catalog)
    table.stage(rows(table, events(7, 9)))
    latest = table.history.latest_snapshot()
    assert latest is not None
    Path(table.table_files.paths.manifest(latest.base_manifest_list)).unlink()
    age(table, 25)
    before = listed(table)
    with pytest.raises(CorruptionError, match="is missing"):
        table.upkeep.plan_remove_orphans()
    assert listed(table) == before


# --- a commit that publishes what is taken for orphans ------------------------------------------


def published_late(catalog: Catalog) -> tuple[Table, bytes]:
    """A table whose second commit has done all but create its snapshot, and that snapshot."""
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, [*events(3, 5, day="a"), *events(5, 7, day="b")]))
    path = Path(table.table_files.paths.snapshot(2))
    snapshot = path.read_bytes()
    path.unlink()
    Path(table.table_files.paths.latest_hint).write_text("1")
    age(table, 25)
    return table, snapshot


def publish(table: Table, snapshot: bytes) -> None:
    Path(table.table_files.paths.snapshot(2)).write_bytes(snapshot)
    Path(table.table_files.paths.latest_hint).write_text("2")


@pytest.mark.mission("FS19")
def test_what_a_commit_publishes_before_the_collection_stays(catalog: Catalog) -> None:
    table, snapshot = published_late(catalog)
    plan = table.upkeep.plan_remove_orphans()
    for kind in ("manifest/manifest-0", "manifest/manifest-list-", "day=b/bucket-0/data-"):
        assert any(file.path.startswith(kind) for file in plan.files)
    before = listed(table)
    table.upkeep.run(plan)
    assert before <= listed(table)
    publish(table, snapshot)
    assert values_of(table, "id") == list(range(7))
    result = table.upkeep.collect(early=True)
    assert (result.files_deleted, result.left, len(result.records)) == (0, 0, 1)
    assert listed(table) == before | {"/snapshot/snapshot-2"}
    assert table.upkeep.condemned() == ()


@pytest.mark.parametrize("grace_ms", [0, HOUR])
def test_what_a_commit_publishes_before_the_record_is_not_condemned(
    catalog: Catalog, grace_ms: int
) -> None:
    table, snapshot = published_late(catalog)
    plan = table.upkeep.plan_remove_orphans(grace_ms=grace_ms)
    late = overtaken(table, lambda call: call.name == "list_dir", lambda: publish(table, snapshot))
    result = late.upkeep.run(plan)
    assert (result.files_condemned, result.files_deleted) == (0, 0)
    assert values_of(table, "id") == list(range(7))


def test_what_a_commit_publishes_after_the_record_of_orphans_without_grace_stays(
    catalog: Catalog,
) -> None:
    table, snapshot = published_late(catalog)
    late = overtaken(
        table,
        lambda call: call.name == "replace" and call.path.endswith(".json"),
        lambda: publish(table, snapshot),
    )
    assert late.upkeep.remove_orphans(grace_ms=0).files_deleted == 0
    assert values_of(table, "id") == list(range(7))


def test_a_staged_write_whose_files_were_collected_is_refused(catalog: Catalog) -> None:
    table = new_table(catalog)
    first, second = (table.stage(rows(table, events(n, n + 3))) for n in (0, 3))
    age(table, 25)
    table.upkeep.run(table.upkeep.plan_remove_orphans())
    table.commit(first)
    assert table.upkeep.collect(early=True).files_deleted == 1
    with pytest.raises(FilesGone):
        table.commit(second)
    assert values_of(table, "id") == [0, 1, 2]


# --- time -----------------------------------------------------------------------------------------


def test_a_time_to_come_is_refused(catalog: Catalog) -> None:
    table = history(catalog)
    to_come = int(time.time() * 1000) + HOUR
    with pytest.raises(
        InvalidRequestError, match="is in the future: the clock of the store says 20"
    ):
        table.upkeep.plan_remove_orphans(before_ms=to_come)
    with pytest.raises(InvalidRequestError, match="is in the future"):
        table.upkeep.plan_remove_orphans(older_than_ms=-HOUR, even_recent=True)


def test_less_than_an_hour_is_refused_unless_it_is_meant(catalog: Catalog) -> None:
    table = history(catalog)
    table.stage(rows(table, events(7, 9)))
    age(table, 0.5)
    for plan in ({"older_than_ms": HOUR // 2}, {"before_ms": int(time.time() * 1000) - HOUR // 2}):
        with pytest.raises(
            InvalidRequestError, match=r"allow recent files \(--even-recent, even_recent\) if no"
        ):
            table.upkeep.plan_remove_orphans(**plan)
    assert table.upkeep.plan_remove_orphans(older_than_ms=HOUR).files == ()
    plan = table.upkeep.plan_remove_orphans(older_than_ms=HOUR // 3, even_recent=True)
    assert {file.path for file in plan.files} == set(unreachable_files(table)) != set()
    table.upkeep.run(plan)


@pytest.mark.parametrize("jump_ms", [-3000 * 24 * HOUR, 3000 * 24 * HOUR])
def test_a_clock_of_ours_that_jumps_makes_no_file_older(
    catalog: Catalog, env: FixedEnv, jump_ms: int
) -> None:
    table = history(catalog)
    table.stage(rows(table, events(7, 9)))
    age(table, 23)
    env.clock.advance(jump_ms)
    assert table.upkeep.plan_remove_orphans().files == ()
    age(table, 25)
    plan = table.upkeep.plan_remove_orphans()
    assert len(plan.files) == len(unreachable_files(table)) > 0
    assert table.upkeep.run(plan).files_condemned == len(plan.files)


def test_a_clock_of_the_store_that_jumped_back_is_told_and_nothing_is_touched(
    unchecked_catalog: Catalog,
) -> None:
    table = history(unchecked_catalog)
    table.stage(rows(table, events(7, 9)))
    age(table, 48)
    newest = Path(table.table_files.paths.snapshot(8))
    for minutes in (9, 11):
        moment = time.time() + minutes * 60
        os.utime(newest, (moment, moment))
        if minutes < 10:
            assert table.upkeep.plan_remove_orphans().files
            continue
        with pytest.raises(
            ClockJumped, match=r"snapshot-8 of db\.t has the later time 20.*nothing was"
        ):
            table.upkeep.plan_remove_orphans()
    assert not Path(table.table_files.paths.upkeep_dir).exists()


def test_a_store_that_keeps_no_times_has_no_orphans(catalog: Catalog) -> None:
    table = history(catalog)

    def without_times(call: Call, answer: Any) -> Any:
        is_listing = call.name == "list_dir"
        return [replace(each, modified_ms=0) for each in answer] if is_listing else answer

    timeless = over(table, WatchedFiles(table.table_files.fs, tells=without_times))
    with pytest.raises(UnsupportedError, match="does not say when files were written"):
        timeless.upkeep.plan_remove_orphans()


def test_orphans_are_deleted_at_once_where_that_is_asked_for(catalog: Catalog) -> None:
    table = history(catalog)
    table.stage(rows(table, events(7, 9)))
    left = unreachable_files(table)
    age(table, 25)
    result = table.upkeep.remove_orphans(grace_ms=0)
    assert (result.files_deleted, result.files_condemned) == (len(left), 0)
    assert table.upkeep.condemned() == ()
    assert not Path(table.table_files.paths.upkeep_dir).exists()
    assert_only_reachable_files(table)


@pytest.mark.parametrize(
    "path", ["snapshot/snapshot-8", "bucket-0/..", "../other/bucket-0/data", "schema/schema-0"]
)
def test_a_plan_that_names_what_can_be_no_orphan_is_refused(catalog: Catalog, path: str) -> None:
    table = history(catalog)
    plan = table.upkeep.plan_remove_orphans()
    with pytest.raises(
        InvalidRequestError, match=r"cannot be an orphan|is not a place below the table"
    ):
        table.upkeep.run(replace(plan, files=(OrphanFile(path, 1, 0),)))
    with pytest.raises(
        InvalidRequestError, match=r"is not a leftover|is not a place below the table"
    ):
        table.upkeep.run(replace(plan, files=(), leftovers=(UnreachableFile(path, 1),)))


def test_an_orphan_that_is_written_anew_after_the_plan_stays(unchecked_catalog: Catalog) -> None:
    table = history(unchecked_catalog)
    orphan = Path(table.table_files.paths.root) / "bucket-0" / "left"
    orphan.write_text("old")
    age(table, 25)
    plan = table.upkeep.plan_remove_orphans()
    orphan.write_text("new")
    assert table.upkeep.run(plan).files_condemned == 0
    assert orphan.read_text() == "new"
    assert table.upkeep.condemned() == ()


@pytest.mark.parametrize("partitioned", [False, True])
def test_folders_of_people_beside_the_table_are_theirs(
    unchecked_catalog: Catalog, partitioned: bool
) -> None:
    table = new_table(unchecked_catalog, partitions=["day"] if partitioned else [])
    table.write(rows(table, events(0, 3)))
    root = Path(table.table_files.paths.root)
    ours = "day=a/bucket-0" if partitioned else "bucket-0"
    others = "bucket-0" if partitioned else "day=a/bucket-0"
    theirs = ["backup/2024/bucket-list/notes.txt", f"{others}/x", f"copy/{ours}/x", "bucket-list/x"]
    for name in [*theirs, f"{ours}/left"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    age(table, 48)
    assert [file.path for file in table.upkeep.plan_remove_orphans().files] == [f"{ours}/left"]


def test_the_moment_given_is_the_last_that_counts(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.stage(rows(table, events(0, 3)))
    leftover = Path(table.table_files.paths.upkeep_dir) / ".book-1.1.tmp"
    leftover.parent.mkdir()
    leftover.write_text("{")
    moment = int(time.time()) - 2 * 3600
    for path in Path(table.table_files.paths.root).rglob("*"):
        os.utime(path, (moment, moment))
    before = table.upkeep.plan_remove_orphans(before_ms=moment * 1000 - 1)
    assert (before.files, before.leftovers) == ((), ())
    then = table.upkeep.plan_remove_orphans(before_ms=moment * 1000)
    assert (len(then.files), len(then.leftovers)) == (1, 1)
    table.upkeep.run(then)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("wanted", [True, False], ids=["wanted", "not wanted"])
def test_folders_that_orphans_leave_empty_go_if_the_table_says_so(
    catalog: Catalog, wanted: bool
) -> None:
    options = {"snapshot.clean-empty-directories": str(wanted).lower()}
    table = new_table(catalog, partitions=["day"], options=options)
    table.write(rows(table, events(0, 3, day="a")))
    table.stage(rows(table, events(3, 6, day="b")))
    result = remove_orphans(table, grace_ms=None)
    assert result.files_condemned == 1
    assert 0 < result.duration_ms < HOUR
    assert table.upkeep.collect(early=True).files_deleted == 1
    folders = {each.name for each in Path(table.table_files.paths.root).glob("day=*")}
    assert folders == ({"day=a"} if wanted else {"day=a", "day=b"})
