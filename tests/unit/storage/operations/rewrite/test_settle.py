"""Settling: files come into the folders of their keys, and nothing else changes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, SchemaMoved, StalePlan
from lakewright.storage.operations.rewrite import settle
from lakewright.storage.operations.rewrite.settle import SettlePlan
from lakewright.storage.spec.file_names import first_name
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from tests.support.stores.watched_files import (
    Crashed,
    Fault,
    Meanwhile,
    WatchedFiles,
    over,
    puts_snapshot,
)
from tests.support.tables.builders import compact, content, expire, new_table, remove_orphans
from tests.support.tables.deleted_rows import delete_first_rows
from tests.support.tables.invariants import assert_only_reachable_files, assert_readable_history
from tests.unit.storage.operations.respec.test_respec import by_day, hours, respec

pytestmark = pytest.mark.mission("PT1")
VECTORS = {"deletion-vectors.enabled": "true"}


def away(table: Table) -> list[ManifestEntry]:
    return [each for each in table.at().files() if each.file.external_path is not None]


def restated(catalog: Catalog, **options: str) -> Table:
    table = respec(catalog, by_day(catalog, **options), "dt", "hh")
    assert len(away(table)) == len(table.at().files()) > 4
    return table


def one_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle, "MOST_FILES", 1)


def told(entry: ManifestEntry) -> tuple[bytes, int, int, DataFileMeta]:
    """All that an entry says, but where its file lies."""
    file = replace(entry.file, file_name=first_name(entry.file.file_name), external_path=None)
    return entry.partition, entry.bucket, entry.total_buckets, file


def by_name(table: Table) -> list[tuple[bytes, int, int, DataFileMeta]]:
    return sorted(map(told, table.at().files()), key=lambda each: each[-1].file_name)


def test_files_come_into_their_folders_and_entries_say_the_same(catalog: Catalog) -> None:
    table = restated(catalog)
    due, before = content(table), by_name(table)
    result = table.upkeep.settle()
    assert (result.files, result.files_left, len(result.snapshot_ids)) == (len(before), 0, 1)
    assert content(table) == due
    assert by_name(table) == before
    assert not away(table)
    snapshot = table.history.snapshots()[-1]
    assert (snapshot.commit_kind.value, snapshot.delta_record_count) == ("COMPACT", 0)
    files = table.table_files
    for entry in table.at().files():
        folder = f"{files.paths.root}/{files.partitions.of_entry(entry).path}/bucket-0"
        path = Path(files.data_file_path(entry.place, entry.file))
        assert str(path.parent) == folder
        # A second name on a local disk, and no second file.
        assert path.stat().st_nlink == 2
    assert not table.upkeep.plan_settle().tasks
    assert_readable_history(table)
    expire(table)
    assert_only_reachable_files(table)
    assert content(table) == due


def test_nothing_is_read_of_the_files(catalog: Catalog) -> None:
    table = restated(catalog)
    watched = WatchedFiles(table.table_files.fs)
    over(table, watched).upkeep.settle()
    assert not [c for c in watched.calls if c.name == "open_input" and "/bucket-" in c.path]


def test_a_copy_of_the_folder_is_the_table(catalog: Catalog) -> None:
    table = restated(catalog)
    table.upkeep.settle()
    due = content(table)
    copied = Catalog.open(str(Path(catalog.root).parent / "copied"), env=catalog.env)
    copied.create_database("db")
    shutil.copytree(table.table_files.paths.root, Path(copied.root) / "db.db" / "t")
    for folder in Path(table.table_files.paths.root).glob("dt=*"):
        folder.rename(folder.with_name(f"hidden-{folder.name}"))
    assert content(copied.table("db.t")) == due
    for folder in Path(table.table_files.paths.root).glob("hidden-dt=*"):
        folder.rename(folder.with_name(folder.name.removeprefix("hidden-")))


def test_keys_change_again_and_again_and_each_snapshot_stays_right(catalog: Catalog) -> None:
    table = by_day(catalog)
    due, seen = content(table), {}
    for keys in (("dt", "hh"), ("dt", "hh", "o"), ("dt",), ("o",), (), ("dt", "hh")):
        table = respec(catalog, table, *keys)
        table.upkeep.settle()
        assert not away(table)
        assert content(table) == due
        seen[table.history.snapshots()[-1].id] = keys
        assert_only_reachable_files(table)
    for snapshot_id in seen:
        assert content(table.at(snapshot=snapshot_id)) == due
    remove_orphans(table)
    for snapshot_id in seen:
        assert content(table.at(snapshot=snapshot_id)) == due
    expire(table)
    remove_orphans(table)
    assert_only_reachable_files(table)
    assert content(table) == due


def test_deletion_vectors_come_along(catalog: Catalog) -> None:
    table = by_day(catalog, **VECTORS)
    delete_first_rows(table)
    due = content(table)
    table = respec(catalog, table, "dt", "hh")
    table.upkeep.settle()
    assert not away(table)
    assert content(table) == due
    delete_first_rows(table)
    assert len(content(table)) < len(due)
    compact(table, full=True)
    assert_only_reachable_files(table)


def test_rows_that_are_deleted_meanwhile_stay_deleted(catalog: Catalog) -> None:
    """The rest comes home, and what conflicts at the next run."""
    table = respec(catalog, by_day(catalog, **VECTORS), "dt", "hh")
    marking = Meanwhile(puts_snapshot, lambda: table.delete("hh = 3"))
    result = over(table, WatchedFiles(table.table_files.fs, before=marking)).upkeep.settle()
    assert marking.has_happened
    assert result.files_left == 1
    due = content(table)
    assert all(row["hh"] != 3 for row in table.read().to_pylist())
    table.upkeep.settle()
    assert not away(table)
    assert content(table) == due
    assert_only_reachable_files(table)


def test_rows_that_come_meanwhile_stay(catalog: Catalog) -> None:
    table = restated(catalog)
    writing = Meanwhile(puts_snapshot, lambda: hours(table, "a", 1, 9, first=90))
    result = over(table, WatchedFiles(table.table_files.fs, before=writing)).upkeep.settle()
    assert (writing.has_happened, result.files_left) == (True, 0)
    assert not away(table)
    assert {90, 91} <= set(table.read().column("v").to_pylist())


def test_what_a_compaction_replaced_meanwhile_is_passed_over(catalog: Catalog) -> None:
    table = restated(catalog)
    due, plan = content(table), table.upkeep.plan_settle()
    compact(table, full=True)
    result = table.upkeep.run(plan)
    assert 0 < result.files_left < plan.files_before
    assert not away(table)
    assert content(table) == due
    with pytest.raises(StalePlan, match="plan again"):
        table.upkeep.run(plan)


def test_a_run_commits_some_at_a_time_and_the_next_one_goes_on(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_a_commit(monkeypatch)
    table = restated(catalog)
    due, count = content(table), len(away(table))
    dying = WatchedFiles(
        table.table_files.fs, fail_at=2, fault=Fault.DIES_AFTER, counts=puts_snapshot
    )
    with pytest.raises(Crashed):
        over(table, dying).upkeep.settle()
    assert (len(away(table)), content(table)) == (count - 2, due)
    result = table.upkeep.settle()
    assert (result.files, len(result.snapshot_ids)) == (count - 2, count - 2)
    assert content(table) == due
    remove_orphans(table)
    assert_only_reachable_files(table)


def test_a_bucket_with_deletion_vectors_comes_home_commit_by_commit(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_a_commit(monkeypatch)
    table = by_day(catalog, **VECTORS)
    delete_first_rows(table)
    due = content(table)
    table = respec(catalog, table)
    count = len(away(table))
    assert {each.bucket for each in table.at().files()} == {0}
    result = table.upkeep.settle()
    assert (result.files, len(result.snapshot_ids), away(table)) == (count, count, [])
    assert content(table) == due
    assert_only_reachable_files(table)


@pytest.mark.parametrize("keys", [("dt", "hh", "o"), ("dt",)], ids=["keys come", "keys go"])
@pytest.mark.parametrize("dies_at", ["schema", "snapshot"])
def test_amid_a_change_that_was_stopped_no_row_is_lost(
    catalog: Catalog, keys: tuple[str, ...], dies_at: str
) -> None:
    """The commit of a settling ends the change first, and may leave files to the next run."""
    table = restated(catalog)
    due = content(table)
    dying = WatchedFiles(
        table.table_files.fs,
        fail_at=1 if dies_at == "schema" else 2,
        fault=Fault.DIES_BEFORE,
        counts=lambda call: call.name == "put_if_absent" and f"/{dies_at}/{dies_at}-" in call.path,
    )
    with pytest.raises(Crashed):
        over(table, dying).upkeep.respec(keys)
    for _ in range(3):
        table = catalog.table(table.name)
        with suppress(SchemaMoved):
            table.upkeep.settle()
        assert content(catalog.table(table.name)) == due
        table.upkeep.respec(table.schema.partition_keys)
    table = catalog.table(table.name)
    assert not away(table)
    remove_orphans(table)
    assert content(table) == due


def test_a_plan_of_some_bytes_leaves_the_rest_and_saves_itself(catalog: Catalog) -> None:
    table = restated(catalog)
    count = len(away(table))
    plan = SettlePlan.from_json(table.upkeep.plan_settle(max_bytes=1).to_json())
    assert (len(plan.tasks), plan.files_before) == (1, 1)
    table.upkeep.run(plan)
    assert len(away(table)) == count - 1
    with pytest.raises(InvalidRequestError, match="max_bytes is 0"):
        table.upkeep.plan_settle(max_bytes=0)


def test_former_places_stay_until_nothing_names_them(catalog: Catalog) -> None:
    table = restated(catalog)
    due, former = content(table), places(table)
    table.history.create_tag("kept")
    table.upkeep.settle()
    expire(table)
    remove_orphans(table)
    assert all(Path(each).exists() for each in former)
    assert content(table.at(tag="kept")) == due
    table.history.delete_tags("kept", grace_ms=0)
    assert not any(Path(each).exists() for each in former)
    assert content(table) == due


def places(table: Table) -> list[str]:
    files = table.table_files
    return [files.data_file_path(each.place, each.file) for each in table.at().files()]


def test_a_settling_that_is_taken_back_leaves_rows_and_files_where_they_are(
    catalog: Catalog,
) -> None:
    table = restated(catalog)
    due = content(table)
    table.history.revert(table.upkeep.settle().snapshot_ids[0])
    assert (content(table), away(table)) == (due, [])
    remove_orphans(table)
    assert content(table) == due


def test_a_branch_comes_home_by_itself(catalog: Catalog) -> None:
    table = restated(catalog)
    due = content(table)
    table.history.create_branch("b", snapshot=table.history.snapshots()[-1].id)
    table.upkeep.settle()
    branch = table.history.at_branch("b")
    assert away(branch)
    branch.upkeep.settle()
    assert not away(branch)
    assert content(branch) == content(table) == due
    assert_only_reachable_files(table)


def test_a_table_of_its_first_keys_and_one_with_a_primary_key_are_home(catalog: Catalog) -> None:
    keyed = new_table(
        catalog,
        {"dt": "STRING", "id": "INT"},
        name="db.keyed",
        partitions=["dt"],
        keys=["dt", "id"],
        options={"bucket": "1"},
    )
    for table in (by_day(catalog), keyed):
        result = table.upkeep.settle()
        assert (result.files, result.snapshot_ids) == (0, ())


@pytest.fixture(autouse=True)
def _settled_anew(catalog: Catalog) -> Iterator[None]:
    """Whatever a test did, what it left is brought home, and the rows stay."""
    yield
    for name in catalog.list_tables("db"):
        table = catalog.table(f"db.{name}")
        due = content(table)
        table.upkeep.settle()
        assert content(table) == due
