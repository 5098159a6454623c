"""A plan is untrusted: edited, it deletes nothing that a new plan would not delete."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import BranchNotFound, InvalidRequestError, StalePlan
from tests.support.tables.builders import events, expire, replace_rows, replacing, rows
from tests.support.tables.copied import copied
from tests.support.tables.edited_plans import assert_changes_nothing, edited, with_files

# What a table has beside the files that a deletion may name: no root names these.
OTHER_FILES = [
    "schema/schema-0",
    "snapshot/snapshot-6",
    "snapshot/LATEST",
    "snapshot/EARLIEST",
    "tag/tag-kept",
    "branch/branch-b/schema/schema-0",
    "consumer/consumer-c",
]
STALE = (StalePlan, InvalidRequestError)


def branched(catalog: Catalog) -> Table:
    """Six snapshots with tags of some, a branch that went on from the fourth, and a consumer."""
    return copied(catalog, _branched)


def _branched(catalog: Catalog) -> Table:
    table = replacing(catalog)
    for snapshot_id in (1, 2, 5):
        table.history.create_tag(f"t{snapshot_id}", snapshot=snapshot_id)
    table.history.create_tag("kept", snapshot=4)
    replace_rows(table.history.create_branch("b", tag="kept"), "x")
    table.history.set_consumer("c", 2)
    table.history.set_consumer("late", 6)
    return table


def staged_files(table: Table) -> list[str]:
    """The paths of the files of a pending batch, and of the batch itself."""
    before = {each.path for each in table.table_files.fs.list_tree(table.table_files.paths.root)}
    table.keep_pending(
        table.stage(rows(table, events(9, 12)), commit_user="u", commit_identifier=7)
    )
    after = {each.path for each in table.table_files.fs.list_tree(table.table_files.paths.root)}
    return [
        path.removeprefix(f"{table.table_files.paths.root}/") for path in sorted(after - before)
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("verb", ["delete tags", "delete branch", "fast-forward", "rollback"])
def test_an_edited_plan_deletes_no_file_that_a_new_plan_would_not(
    catalog: Catalog, verb: str
) -> None:
    table = branched(catalog)
    history = table.history
    plan: Any
    match verb:
        case "delete tags":
            plan, run = history.plan_delete_tags("t2", grace_ms=0), history.run
        case "delete branch":
            plan, run = history.plan_delete_branch("b", grace_ms=0), history.run
        case "fast-forward":
            plan, run = history.plan_fast_forward("b", grace_ms=0), history.run
        case _:
            plan, run = history.plan_rollback(snapshot=4, grace_ms=0), history.run
    for path in [*OTHER_FILES, *staged_files(table)]:
        changed = edited(plan, files=with_files(plan, path))
        assert_changes_nothing(table, lambda each=changed: run(each), StalePlan)
    assert table.commit_pending("u")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"branch": ""}, BranchNotFound),
        ({"branch": "main"}, InvalidRequestError),
        ({"branch": ".."}, BranchNotFound),
        ({"branch": "nope"}, BranchNotFound),
        ({"branch": "../branch/branch-b"}, BranchNotFound),
        ({"branch": "used"}, InvalidRequestError),
    ],
)
def test_an_edited_plan_deletes_no_other_branch(
    catalog: Catalog, changes: dict[str, object], error: type[InvalidRequestError]
) -> None:
    table = branched(catalog)
    table.history.create_branch("used", snapshot=4).history.set_consumer("reader", 5)
    plan = table.history.plan_delete_branch("b", grace_ms=0)
    everything = {"snapshot_ids": list(range(1, 9)), "tags": ["t1", "t2", "t5", "kept"]}
    changed = edited(plan, **everything, **changes)
    assert_changes_nothing(table, lambda: table.history.run(changed), error)


@pytest.mark.parametrize(
    "changes",
    [
        {"branch": "main"},
        {"branch": ""},
        {"branch": "../x"},
        {"branch": "nope"},
        {"branch": "nope", "new_snapshot_ids": []},
        {"new_snapshot_ids": []},
        {"new_snapshot_ids": [4, 5, 6, 7]},
        {"lost_snapshot_ids": [1, 2, 3, 4, 5, 6]},
        {"lost_snapshot_ids": [99]},
        {"lost_snapshot_ids": []},
        {"lost_tags": ["t1", "t5"]},
        {"lost_tags": ["nope"]},
        {"lost_tags": ["../../schema/schema-0"]},
        {"lost_changelog_ids": [1]},
        {"consumers": ["c"]},
        {"consumers": ["../x"]},
        {"shared_id": -5},
        {"shared_id": 99},
        {"kept_ids": []},
        {"snapshot_ids": [1, 2, 3, 4, 5, 6, 7]},
    ],
    ids=str,
)
def test_an_edited_plan_forwards_no_table_otherwise(
    catalog: Catalog, changes: dict[str, object]
) -> None:
    table = branched(catalog)
    changed = edited(table.history.plan_fast_forward("b", grace_ms=0), **changes)
    run = table.history.run
    assert_changes_nothing(table, lambda: run(changed), *STALE, BranchNotFound)


@pytest.mark.sampled(14)
@pytest.mark.parametrize(
    "changes",
    [
        {"target_id": 0},
        {"target_id": -1},
        {"target_id": 2},
        {"target_id": 5},
        {"target_id": 99},
        {"latest_id": 77},
        {"restored_tag": "t2"},
        {"restored_tag": "nope"},
        {"snapshot_ids": []},
        {"snapshot_ids": [1, 2, 3, 4, 5, 6]},
        {"snapshot_ids": [4, 5, 6]},
        {"snapshot_ids": [5, 6, 7]},
        {"snapshot_ids": [5, 5, 6]},
        {"snapshot_ids": [-5, 5, 6]},
        {"changelog_ids": [1, 2]},
        {"tags": ["t5", "t1"], "tag_snapshot_ids": [5, 1]},
        {"tags": ["t5", "nope"], "tag_snapshot_ids": [5, 1]},
        {"tags": ["t5", "../../schema/schema-0"], "tag_snapshot_ids": [5, 1]},
        {"consumers": ["c", "late"]},
        {"consumers": ["late", "new"]},
        {"consumers": ["late", "../x"]},
    ],
    ids=str,
)
def test_an_edited_plan_rolls_nothing_else_back(
    catalog: Catalog, changes: dict[str, object]
) -> None:
    table = branched(catalog)
    changed = edited(table.history.plan_rollback(snapshot=4, grace_ms=0), **changes)
    assert_changes_nothing(table, lambda: table.history.run(changed), *STALE)


def test_a_snapshot_that_is_made_while_an_old_plan_names_its_id_stays(catalog: Catalog) -> None:
    table = replacing(catalog)
    plan = table.history.plan_rollback(snapshot=2, grace_ms=0)
    table.history.rollback(snapshot=4, grace_ms=0)
    assert_changes_nothing(table, lambda: table.history.run(plan), StalePlan)
    table.history.rollback(snapshot=2, grace_ms=0)
    assert [each.id for each in table.history.snapshots()] == [1, 2]


def test_a_plan_of_a_tag_whose_snapshot_expired_is_carried_out_after_its_text(
    catalog: Catalog,
) -> None:
    table = replacing(catalog)
    table.history.create_tag("t", snapshot=2)
    expire(table)
    plan = table.history.plan_rollback(tag="t", grace_ms=0)
    assert table.history.run(edited(plan)).target_id == 2
