"""Orphans: what dead processes left goes, and nothing that anything refers to."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import CorruptionError, InvalidRequestError
from lakewright.storage.operations.remove_orphans import OrphansPlan
from tests.support.builders import compact, content, events, expire, new_table, rows
from tests.support.environment import FixedEnv
from tests.support.faults import Crashed, Fault, watched
from tests.support.invariants import assert_only_reachable_files, unreachable_files

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
    table.create_tag("t", snapshot_id=2)
    branch = table.create_branch("b", snapshot_id=4)
    branch.write(rows(branch, events(5, 6)))
    expire(table, keep=2)
    return table


def age(table: Table, env: FixedEnv, hours: float) -> None:
    """Make every file so old by the test's clock."""
    moment = env.clock.now_ms / 1000 - hours * 3600
    for path in Path(table.files.paths.root).rglob("*"):
        os.utime(path, (moment, moment))


def remove(table: Table, **plan: int) -> int:
    return table.run_remove_orphans(table.plan_remove_orphans(**plan)).files_deleted


@pytest.mark.mission("FS19")
def test_what_a_dead_write_left_goes_and_all_else_stays(catalog: Catalog, env: FixedEnv) -> None:
    table = history(catalog)
    before = content(table), content(table, tag="t"), content(table.at_branch("b"))
    broken, _ = watched(
        table,
        fail_at=1,
        fault=Fault.DIES_BEFORE,
        counts=lambda call: call.name == "put_if_absent",
    )
    with suppress(Crashed):
        broken.write(rows(table, events(7, 9)))
    folder = Path(table.files.paths.snapshot_dir)
    (folder / ".snapshot-9.0.tmp").write_text("{")
    left = [*unreachable_files(table)]
    assert any("bucket-0/data-" in path for path in left)
    assert any("bucket-0/changelog-" in path for path in left)
    assert any("manifest/" in path for path in left)

    age(table, env, 23)
    assert table.plan_remove_orphans().files == ()
    age(table, env, 25)
    plan = table.plan_remove_orphans()
    assert [file.path for file in plan.files] == sorted(left)
    assert plan.bytes == sum(file.size_bytes for file in plan.files) > 0
    assert OrphansPlan.from_json(plan.to_json()) == plan
    assert table.run_remove_orphans(OrphansPlan.from_json(plan.to_json())).files_deleted == len(
        left
    )
    assert (content(table), content(table, tag="t"), content(table.at_branch("b"))) == before
    assert_only_reachable_files(table)
    assert remove(table) == 0


def test_files_in_places_of_others_stay(unchecked_catalog: Catalog, env: FixedEnv) -> None:
    table = history(unchecked_catalog)
    root = Path(table.files.paths.root)
    for name in ("_notes/manifest.txt", "README", "manifest/sub/x", "snapshot/notes"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("mine")
    age(table, env, 100)
    assert remove(table) == 0
    assert (root / "_notes" / "manifest.txt").exists()


def test_an_orphan_that_is_committed_after_the_plan_stays(catalog: Catalog, env: FixedEnv) -> None:
    table = history(catalog)
    staged = table.stage(rows(table, events(7, 9)))
    age(table, env, 25)
    plan = table.plan_remove_orphans()
    assert plan.files
    table.commit(staged)
    assert table.run_remove_orphans(plan).files_deleted == 0
    assert table.read().num_rows == 5


def test_nothing_goes_when_what_refers_to_files_cannot_be_read(
    unchecked_catalog: Catalog, env: FixedEnv
) -> None:
    table = history(unchecked_catalog)
    table.stage(rows(table, events(7, 9)))
    latest = table.latest_snapshot()
    assert latest is not None
    Path(table.files.paths.manifest(latest.base_manifest_list)).unlink()
    age(table, env, 25)
    with pytest.raises(CorruptionError, match="is missing"):
        table.plan_remove_orphans()


def test_a_time_to_come_is_refused(catalog: Catalog, env: FixedEnv) -> None:
    table = history(catalog)
    with pytest.raises(InvalidRequestError, match="to come"):
        table.plan_remove_orphans(older_than_ms=env.clock.now_ms + HOUR)


@pytest.mark.parametrize("partitioned", [False, True])
def test_folders_of_people_beside_the_table_are_theirs(
    unchecked_catalog: Catalog, env: FixedEnv, partitioned: bool
) -> None:
    table = new_table(unchecked_catalog, partitions=["day"] if partitioned else [])
    table.write(rows(table, events(0, 3)))
    root = Path(table.files.paths.root)
    ours = "day=a/bucket-0" if partitioned else "bucket-0"
    others = "bucket-0" if partitioned else "day=a/bucket-0"
    theirs = ["backup/2024/bucket-list/notes.txt", f"{others}/x", f"copy/{ours}/x", "bucket-list/x"]
    for name in [*theirs, f"{ours}/left"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    age(table, env, 48)
    assert [file.path for file in table.plan_remove_orphans().files] == [f"{ours}/left"]
