"""A plan is untrusted: edited, it deletes nothing that a new plan would not delete."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, StalePlan
from tests.support.tables.builders import events, expire, replacing, rows, values_of
from tests.support.tables.edited_plans import assert_changes_nothing, content_of, edited, with_files

REFUSED = (StalePlan, InvalidRequestError)
RETENTION = {"retain_min": 2, "retain_max": 2, "time_retained_ms": 0}


@pytest.mark.parametrize(
    "changes",
    [
        {"snapshot_ids": [1, 2, 3, 4, 5]},
        {"snapshot_ids": [1, 2, 3, 4, 5, 6]},
        {"snapshot_ids": [1, 2, 3, 4, 6]},
        {"snapshot_ids": [1, 1, 2, 3, 4]},
        {"snapshot_ids": [-1, 1, 2, 3, 4]},
        {"end_id": None},
        {"end_id": 99},
        {"changelog_ids": [1, 2]},
        {"changelog_ids": [5]},
        {"changelog_ids": [99]},
    ],
    ids=str,
)
def test_an_edited_plan_expires_no_other_snapshot(
    catalog: Catalog, changes: dict[str, object]
) -> None:
    table = replacing(catalog)
    plan = table.upkeep.plan_expire_snapshots(**RETENTION)
    assert (plan.snapshot_ids, plan.end_id) == ((1, 2, 3, 4), 5)
    run = table.upkeep.run
    assert_changes_nothing(table, lambda: run(edited(plan, **changes)), *REFUSED)


def test_a_plan_with_a_negative_size_or_a_file_twice_is_refused(catalog: Catalog) -> None:
    table = replacing(catalog)
    plan = table.upkeep.plan_expire_snapshots(**RETENTION)
    files = json.loads(plan.to_json())["files"]
    with pytest.raises(InvalidRequestError, match="a size of -1 bytes; plan again"):
        edited(plan, files=[files[0] | {"size_bytes": -1}])
    with pytest.raises(InvalidRequestError, match=r"names 2 files, and 1 of them are different"):
        edited(plan, files=[files[0], files[0]])


def with_changelogs(catalog: Catalog) -> Table:
    """Six snapshots, of which only the changelogs of the first four are left."""
    table = replacing(
        catalog,
        changelog_producer="input",
        changelog__num_retained__min="10",
        changelog__num_retained__max="20",
        snapshot__num_retained__min="1",
        snapshot__num_retained__max="2",
    )
    expire(table, keep=2)
    assert [each.id for each in table.history.changelogs()] == [1, 2, 3, 4]
    return table


@pytest.mark.parametrize(
    "changes",
    [
        {"changelog_ids": [2, 3]},
        {"changelog_ids": [4]},
        {"changelog_ids": [99]},
        {"changelog_ids": [1, 1, 2, 3, 4]},
        {"changelog_ids": [-1]},
        {"files": ["schema/schema-0"]},
        {"files": ["snapshot/LATEST"]},
        {"files": ["changelog/EARLIEST"]},
    ],
    ids=str,
)
def test_an_edited_plan_expires_no_other_changelog(
    catalog: Catalog, changes: dict[str, object]
) -> None:
    table = with_changelogs(catalog)
    plan = table.upkeep.plan_expire_changelogs(every=True, grace_ms=0)
    assert plan.changelog_ids == (1, 2, 3, 4)
    if isinstance(more := changes.get("files"), list):
        changes = {"files": with_files(plan, *more)}
    run = table.upkeep.run
    assert_changes_nothing(table, lambda: run(edited(plan, **changes)), *REFUSED)


def paths_of(table: Table) -> set[str]:
    return set(content_of(table))


@pytest.mark.parametrize("grace_ms", [0, 1])
def test_an_edited_plan_removes_no_file_that_was_written_just_now(
    catalog: Catalog, grace_ms: int
) -> None:
    table = replacing(catalog)
    orphan = Path(table.table_files.paths.root) / "bucket-0" / "left"
    orphan.write_text("old")
    os.utime(orphan, (10**9, 10**9))
    plan = table.upkeep.plan_remove_orphans(grace_ms=grace_ms)
    assert [file.path for file in plan.files] == ["bucket-0/left"]
    before = paths_of(table)
    staged = table.stage(rows(table, events(9, 12)))
    young = sorted(paths_of(table) - before)
    changed = edited(plan, files=with_files(plan, *young, modified_ms=1))
    table.upkeep.run(changed)
    table.upkeep.collect(early=True)
    assert not orphan.exists()
    table.commit(staged)
    assert values_of(table, "id") == [0, 1, 2, 9, 10, 11]


def test_an_edited_plan_deletes_no_unfinished_file_that_was_written_just_now(
    unchecked_catalog: Catalog,
) -> None:
    table = replacing(unchecked_catalog)
    folder = Path(table.table_files.paths.upkeep_dir)
    folder.mkdir(exist_ok=True)
    young = folder / ".lease.tmp"
    young.write_text("x")
    plan = table.upkeep.plan_remove_orphans()
    assert plan.leftovers == ()
    leftover = {"path": ".lakewright/.lease.tmp", "size_bytes": 1}
    table.upkeep.run(edited(plan, leftovers=[leftover]))
    assert young.exists()


def test_an_edited_plan_collects_nothing_that_can_still_be_undone(catalog: Catalog) -> None:
    table = replacing(catalog)
    table.stage(rows(table, events(9, 12)))
    table.upkeep.remove_orphans(older_than_ms=0, even_recent=True)
    (run,) = table.upkeep.condemned()
    plan = table.upkeep.plan_collect()
    assert plan.records == ()
    changed = edited(plan, records=[run.id])
    assert_changes_nothing(table, lambda: table.upkeep.run(changed), StalePlan)
    twice = edited(table.upkeep.plan_collect(early=True), records=[run.id] * 2)
    assert table.upkeep.run(twice).files_deleted == run.files
