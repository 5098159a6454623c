"""Branches: a second history over shared files, its end, and main becoming it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import (
    AlreadyExistsError,
    BranchNotFound,
    InvalidRequestError,
    SnapshotNotFound,
    StalePlan,
    StorageError,
    TagNotFound,
)
from lakewright.storage.operations.references.branches import DeleteBranchPlan
from lakewright.storage.operations.references.fast_forward import FastForwardPlan
from lakewright.storage.table_at import TableAt
from tests.support.stores.watched_files import Call, Crashed, Fault, interrupted, overtaken, watched
from tests.support.tables.builders import (
    events,
    expire,
    replace_rows,
    replacing,
    rows,
    values_of,
    with_options,
)
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
    assert_sound,
)
from tests.support.tables.remade import Remade


def ids(table: Table) -> list[int]:
    return [snapshot.id for snapshot in table.history.snapshots()]


def values(table: Table | TableAt, **read: Any) -> str:
    """The version that every row is of."""
    (found,) = {value[0] for value in values_of(table, "v", **read)}
    return str(found)


def names(table: Table) -> list[str]:
    return [branch.name for branch in table.history.branches()]


# --- a branch ----------------------------------------------------------------------------------


@pytest.mark.mission("FS19")
def test_a_branch_goes_its_own_way(any_catalog: Catalog) -> None:
    table = replacing(any_catalog, "ab")
    table.history.create_tag("start", snapshot=2)
    branch = table.history.create_branch("b", tag="start")
    assert branch.name == "db.t$branch_b"
    assert (values(branch), values(table)) == ("a", "b")
    replace_rows(branch, "x")
    assert ids(branch) == [2, 3, 4]
    assert (values(branch), values(table)) == ("x", "b")
    replace_rows(table, "c")
    assert (values(branch), values(table)) == ("x", "c")
    assert [tag.name for tag in branch.history.tags()] == ["start"]
    (listed,) = table.history.branches()
    assert (listed.name, listed.earliest_snapshot_id, listed.latest_snapshot_id) == ("b", 2, 4)
    assert_sound(table)


def test_a_branch_is_found_by_its_name(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    table.history.create_branch("b", snapshot=2)
    assert values(catalog.table("db.t$branch_b")) == "a"
    assert values(table.history.at_branch("b")) == "a"
    assert values(table.history.at_branch("b").history.at_branch("main")) == "b"
    assert table.history.at_branch("main").name == "db.t"
    assert catalog.table_exists("db.t$branch_b")
    assert not catalog.table_exists("db.t$branch_c")
    with pytest.raises(BranchNotFound, match=r"no branch c of db.t; there are main, b"):
        catalog.table("db.t$branch_c")
    with pytest.raises(InvalidRequestError, match=r"delete branch b of db\.t"):
        catalog.drop_table("db.t$branch_b")


def test_an_empty_branch_has_the_schema_and_no_rows(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    branch = table.history.create_branch("b")
    assert branch.schema == table.schema
    assert (branch.history.latest_snapshot(), branch.read().num_rows) == (None, 0)
    branch.write(rows(branch, events(7, 8)))
    assert ids(branch) == [1]
    assert values_of(branch, "id") == [7]
    assert values_of(table, "id") == [0, 1, 2]


def test_a_branch_begins_at_a_tag_whose_snapshot_expired(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    table.history.create_tag("start", snapshot=2, time_retained_ms=1000)
    expire(table)
    branch = table.history.create_branch("b", tag="start")
    table.history.run(table.history.plan_delete_tags("start", grace_ms=0))
    assert values(branch) == "a"
    assert b"tagCreateTime" not in branch.table_files.snapshots.read_file(2)
    replace_rows(branch, "x")
    assert_sound(table)


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", "main", "42", "a$b"])
def test_a_name_that_cannot_be_is_refused(catalog: Catalog, name: str) -> None:
    table = replacing(catalog, "ab")
    with pytest.raises(InvalidRequestError, match="branch"):
        table.history.create_branch(name)
    assert names(table) == []


def test_what_is_there_or_not_is_said(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    table.history.create_branch("b")
    with pytest.raises(AlreadyExistsError, match="branch b of"):
        table.history.create_branch("b")
    with pytest.raises(TagNotFound, match=r"no tag start .*there are none"):
        table.history.create_branch("c", tag="start")
    with pytest.raises(SnapshotNotFound, match="there are 1 to 4"):
        table.history.create_branch("c", snapshot=9)
    with pytest.raises(InvalidRequestError, match="not at both"):
        table.history.create_branch("c", tag="x", snapshot=1)
    with pytest.raises(InvalidRequestError, match="is a branch itself"):
        table.history.at_branch("b").history.create_branch("c")
    assert names(table) == ["b"]


# --- what keeps what ---------------------------------------------------------------------------


@pytest.mark.mission("FS19")
def test_expiring_main_leaves_a_branch_whole_without_its_tag(any_catalog: Catalog) -> None:
    table = replacing(any_catalog, "ab")
    table.history.create_tag("start", snapshot=2)
    branch = table.history.create_branch("b", tag="start")
    table.history.run(table.history.plan_delete_tags("start", grace_ms=0))
    replace_rows(table, "c")
    expire(table)
    assert ids(table) == [6]
    # On the branch the tag is still there, and what it stands for can be read.
    assert values(branch.at(tag="start")) == values(branch) == "a"
    assert_only_reachable_files(table)


@pytest.mark.mission("FS19")
def test_expiring_a_branch_leaves_main_whole(any_catalog: Catalog) -> None:
    table = replacing(any_catalog, "ab")
    branch = table.history.create_branch("b", snapshot=4)
    replace_rows(branch, "x")
    replace_rows(branch, "y")
    expire(branch)
    assert ids(branch) == [8]
    assert (values(table), values(table.at(snapshot=2))) == ("b", "a")
    replace_rows(table, "c")
    expire(table)
    expire(branch)
    assert (values(table), values(branch)) == ("c", "y")
    # Nothing is left of what both had once.
    assert_only_reachable_files(table)


def test_a_tag_of_a_branch_outlives_every_snapshot_of_it(any_catalog: Catalog) -> None:
    table = replacing(any_catalog, "ab")
    branch = table.history.create_branch("b", snapshot=2)
    branch.history.create_tag("beginning")
    replace_rows(branch, "x")
    branch.history.create_tag("here")
    replace_rows(branch, "y")
    expire(branch)
    replace_rows(table, "c")
    expire(table)
    assert (values(branch.at(tag="beginning")), values(branch.at(tag="here"))) == ("a", "x")
    branch.history.run(branch.history.plan_delete_tags("beginning", "here", grace_ms=0))
    assert_only_reachable_files(table)
    assert (values(branch), values(table)) == ("y", "c")


def test_tags_and_rollback_of_a_branch_are_its_own(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    branch = table.history.create_branch("b", snapshot=4)
    replace_rows(branch, "x")
    branch.history.create_tag("here")
    replace_rows(branch, "y")
    branch.history.run(branch.history.plan_rollback(tag="here", grace_ms=0))
    assert (values(branch), values(table)) == ("x", "b")
    branch.history.run(branch.history.plan_rollback(snapshot=4, grace_ms=0))
    assert (values(branch), branch.history.tags(), table.history.tags()) == ("b", (), ())
    assert ids(table) == [1, 2, 3, 4]
    assert_sound(table)


# --- the end of a branch -----------------------------------------------------------------------


@pytest.mark.mission("FS19")
def test_deleting_a_branch_takes_what_only_it_kept(any_catalog: Catalog) -> None:
    table = replacing(any_catalog, "ab")
    branch = table.history.create_branch("b", snapshot=2)
    replace_rows(branch, "x")
    expire(table)
    plan = table.history.plan_delete_branch("b", grace_ms=0)
    assert (plan.branch, plan.snapshot_ids) == ("b", (2, 3, 4))
    assert plan.bytes == sum(file.size_bytes for file in plan.files) > 0
    assert DeleteBranchPlan.from_json(plan.to_json()) == plan
    result = table.history.run(DeleteBranchPlan.from_json(plan.to_json()))
    assert result.files_deleted == len(plan.files)
    assert names(table) == []
    assert values(table) == "b"
    assert_sound(table)
    assert values(table.history.create_branch("b", snapshot=4)) == "b"


def test_a_branch_in_use_stays(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    branch = table.history.create_branch("b", snapshot=2)
    branch.history.set_consumer("me", 3)
    with pytest.raises(InvalidRequestError, match="in use by consumer me"):
        table.history.plan_delete_branch("b", grace_ms=0)
    branch.history.delete_consumer("me")
    used = with_options(table, scan__fallback_branch="b")
    with pytest.raises(InvalidRequestError, match=r"in use by option scan\.fallback-branch"):
        used.history.plan_delete_branch("b", grace_ms=0)
    with pytest.raises(InvalidRequestError, match=r"branch main is db.t itself"):
        table.history.plan_delete_branch("main", grace_ms=0)
    with pytest.raises(BranchNotFound, match="there are main, b"):
        table.history.plan_delete_branch("c", grace_ms=0)
    with pytest.raises(InvalidRequestError, match="is a branch itself"):
        branch.history.plan_delete_branch("b", grace_ms=0)


def test_a_branch_that_went_on_after_the_plan_stays(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    branch = table.history.create_branch("b", snapshot=2)
    plan = table.history.plan_delete_branch("b", grace_ms=0)
    branch.write(rows(branch, events(5, 6)))
    with pytest.raises(
        StalePlan, match=r"b of db.t has changed since the plan was made: snapshot 3"
    ):
        table.history.run(plan)
    assert values_of(branch, "id") == [0, 1, 2, 5]


# --- fast-forward ------------------------------------------------------------------------------


@pytest.mark.mission("FS19")
@pytest.mark.parametrize("main_went_on", [0, 1, 3])
def test_main_becomes_the_branch(any_catalog: Catalog, main_went_on: int) -> None:
    table = replacing(any_catalog, "ab")
    table.history.create_tag("start", snapshot=2)
    table.history.create_tag("main's", snapshot=4)
    branch = table.history.create_branch("b", tag="start")
    for version in "xy":
        replace_rows(branch, version)
    branch.history.create_tag("branch's")
    for _ in range(main_went_on):
        replace_rows(table, "m")
    plan = table.history.plan_fast_forward("b", grace_ms=0)
    assert plan.lost_snapshot_ids == tuple(range(3, 5 + 2 * main_went_on))
    assert (plan.kept_ids, plan.shared_id, plan.lost_tags) == ((1,), 2, ("main's",))
    assert FastForwardPlan.from_json(plan.to_json()) == plan
    table.history.run(FastForwardPlan.from_json(plan.to_json()))
    assert ids(table) == [1, 2, 3, 4, 5, 6]
    assert (values(table), values(table.at(snapshot=4))) == ("y", "x")
    assert [tag.name for tag in table.history.tags()] == ["start", "branch's"]
    assert_sound(table)
    replace_rows(table, "z")
    assert (values(table), values(branch)) == ("z", "y")
    expire(table)
    assert_sound(table)
    table.history.run(table.history.plan_delete_branch("b", grace_ms=0))
    assert_sound(table)


def test_main_becomes_a_branch_that_began_empty(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    branch = table.history.create_branch("b")
    branch.write(rows(branch, events(7, 9)))
    table.history.set_consumer("me", 5)
    plan = table.history.plan_fast_forward("b", grace_ms=0)
    assert (plan.kept_ids, plan.lost_snapshot_ids) == ((), (1, 2, 3, 4))
    table.history.run(plan)
    assert ids(table) == [1]
    assert values_of(table, "id") == [7, 8]
    assert [each.next_snapshot_id for each in table.history.consumers()] == [1]
    assert_sound(table)


def test_main_becomes_a_branch_whose_beginning_expired(catalog: Catalog) -> None:
    """Main's own snapshots do not lead there, and what they held is not left behind."""
    table = replacing(catalog, "ab")
    table.history.create_tag("old", snapshot=1)
    branch = table.history.create_branch("b", snapshot=2)
    for version in "xyz":
        replace_rows(branch, version)
    expire(branch, keep=2)
    assert ids(branch) == [7, 8]
    plan = table.history.plan_fast_forward("b", grace_ms=0)
    assert (plan.kept_ids, plan.lost_snapshot_ids, plan.lost_tags) == ((), (1, 2, 3, 4), ())
    table.history.run(plan)
    assert ids(table) == [7, 8]
    assert (values(table), values(table.at(tag="old"))) == ("z", "a")
    assert_sound(table)


def test_schemas_of_the_branch_become_those_of_main(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    branch = table.history.create_branch("b", snapshot=4)
    branch.table_files.schemas.put_schema(replace(branch.schema, id=1, comment="of the branch"))
    branch = table.history.at_branch("b")
    replace_rows(branch, "x")
    for number in (1, 2):
        table.table_files.schemas.put_schema(replace(table.schema, id=number, comment="of main"))
    replace_rows(catalog.table("db.t"), "m")
    assert table.history.at_branch("b").schema.comment == "of the branch"
    table.history.run(table.history.plan_fast_forward("b", grace_ms=0))
    table = catalog.table("db.t")
    assert (table.schema.id, table.schema.comment) == (1, "of the branch")
    assert values(table) == "x"


@pytest.mark.parametrize("main_is_altered", [False, True])
@pytest.mark.mission("SE22")
def test_an_alter_of_the_branchs_schema_stays_where_the_forwarding_ends_after_it(
    catalog: Catalog, *, main_is_altered: bool
) -> None:
    table = replacing(catalog, "ab")
    branch = table.history.create_branch("b", snapshot=4)
    replace_rows(branch, "x")
    if main_is_altered:
        table.alter(AddColumn("of_main", "INT"))

    def moment(call: Call) -> bool:
        """Main's own version was deleted, or the snapshots are being copied."""
        if main_is_altered:
            return call.name == "delete" and call.path.endswith("schema-1")
        return call.changes and call.path.endswith("LATEST")

    def alter() -> None:
        catalog.table("db.t").alter(AddColumn("z", "INT"))

    overtaken(table, moment, alter).history.fast_forward("b", grace_ms=0)
    assert catalog.table("db.t").schema.field_names == (*branch.schema.field_names, "z")
    assert values(catalog.table("db.t")) == "x"


def with_column(table: Table, name: str) -> Table:
    """The table after a column came to its schema."""
    schema = table.schema
    column = replace(schema.fields[-1], id=schema.highest_field_id + 1, name=name)
    wider = replace(
        schema, id=schema.id + 1, fields=(*schema.fields, column), highest_field_id=column.id
    )
    assert table.table_files.schemas.put_schema(wider)
    return Table(replace(table.table_files, schema=wider))


@pytest.mark.parametrize("branch_changes_too", [False, True])
def test_a_tag_of_a_schema_that_main_loses_goes_with_it(
    catalog: Catalog, branch_changes_too: bool
) -> None:
    """The branch's beginning expired, so every snapshot of main is older than the branch."""
    table = replacing(catalog, "ab")
    table.history.create_tag("before", snapshot=2)
    branch = table.history.create_branch("b", snapshot=2)
    table = with_column(table, "of_main")
    table.write(rows(table, [{"id": 1, "day": "a", "v": "m", "of_main": "x"}]))
    table.history.create_tag("after")
    if branch_changes_too:
        branch = with_column(branch, "of_branch")
    for version in "xyz":
        replace_rows(branch, version)
    expire(branch, keep=1)
    assert ids(branch)[0] > 5
    plan = table.history.plan_fast_forward("b", grace_ms=0)
    assert plan.lost_tags == ("after",)
    table.history.run(plan)
    table = catalog.table("db.t")
    assert [tag.name for tag in table.history.tags()] == ["before"]
    assert values_of(table.at(tag="before"), "v") == ["a0", "a1", "a2"]
    assert values(table) == "z"
    assert_sound(table)
    assert_readable_history(table)


@pytest.mark.deep
@pytest.mark.parametrize("first", ["shared", pytest.param("expired", marks=pytest.mark.deep)])
def test_a_forwarding_that_died_leaves_a_readable_table_where_both_changed_the_schema(
    first: str,
) -> None:
    def make(catalog: Catalog) -> Table:
        table = replacing(catalog, "ab")
        branch = with_column(table.history.create_branch("b", snapshot=2), "of_branch")
        replace_rows(branch, "x")
        table = with_column(table, "of_main")
        replace_rows(table, "m")
        if first == "expired":
            expire(branch, keep=1)
        return table

    made = Remade(make)
    for number in range(1, 100):
        table = made.again()
        broken, fs = watched(
            table, fail_at=number, fault=Fault.DIES_AFTER, counts=lambda call: call.changes
        )
        with suppress(Crashed):
            forward(broken)
        if fs.counted < number:
            assert number > 5
            return
        place = f"{fs.changes[number - 1]}"
        table = Table(
            replace(table.table_files, schema=table.table_files.schemas.latest(table="db.t"))
        )
        for snapshot in table.history.snapshots():
            assert table.at(snapshot=snapshot.id).read().num_rows == 3, place
        forward(table)
        table = Table(
            replace(table.table_files, schema=table.table_files.schemas.latest(table="db.t"))
        )
        assert values(table) == "x", place
        assert "of_branch" in table.arrow_schema.names
        assert_nothing_missing(table)
        assert_readable_history(table)
    raise AssertionError("the verb made too many calls")


def test_a_commit_beside_a_forwarding_is_told(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    branch = table.history.create_branch("b", snapshot=4)
    replace_rows(branch, "x")
    records = 0

    def is_over(call: Call) -> bool:
        nonlocal records
        records += call.name == "replace" and call.path.endswith(".json")
        return records == 2

    late, fs = interrupted(table, when=is_over, meanwhile=lambda: replace_rows(table, "late"))
    replace_rows(table, "m")
    with pytest.raises(
        StalePlan, match=r"snapshot 8 was committed to db\.t while it was forwarded"
    ):
        late.history.run(late.history.plan_fast_forward("b", grace_ms=0))
    assert fs.has_happened


def test_what_main_cannot_become_is_refused(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    branch = table.history.create_branch("b")
    with pytest.raises(InvalidRequestError, match=r"branch b of db.t has no snapshot"):
        table.history.plan_fast_forward("b", grace_ms=0)
    with pytest.raises(InvalidRequestError, match=r"main of db.t cannot be forwarded to itself"):
        table.history.plan_fast_forward("main", grace_ms=0)
    with pytest.raises(BranchNotFound, match="there are main, b"):
        table.history.plan_fast_forward("c", grace_ms=0)
    branch.write(rows(branch, events(7, 9)))
    plan = table.history.plan_fast_forward("b", grace_ms=0)
    table.write(rows(table, events(5, 6)))
    with pytest.raises(
        StalePlan, match=r"main of db.t has changed since the plan was made: snapshot 5"
    ):
        table.history.run(plan)
    plan = table.history.plan_fast_forward("b", grace_ms=0)
    branch.write(rows(branch, events(9, 10)))
    with pytest.raises(StalePlan, match=r"branch b of db.t has other snapshots"):
        table.history.run(plan)
    assert values_of(table, "id") == [0, 1, 2, 5]


# --- half a branch -----------------------------------------------------------------------------


def test_a_branch_of_an_older_schema_that_died_while_made_is_made_again() -> None:
    def make(catalog: Catalog) -> Table:
        table = replacing(catalog, "ab")
        table = with_column(table, "one")
        replace_rows(table, "c")
        table.history.create_tag("start")
        return with_column(table, "two")

    made = Remade(make)
    for number in range(1, 100):
        table = made.again()
        broken, fs = watched(
            table, fail_at=number, fault=Fault.DIES_AFTER, counts=lambda call: call.changes
        )
        with suppress(Crashed):
            broken.history.create_branch("b", tag="start")
        if fs.counted < number:
            assert number > 5
            return
        if number % 2:
            with suppress(BranchNotFound):
                table.history.run(table.history.plan_delete_branch("b", grace_ms=0))
        with suppress(AlreadyExistsError):
            table.history.create_branch("b", tag="start")
        assert values(table.history.at_branch("b")) == "c"
        assert_sound(table)
    raise AssertionError("the verb made too many calls")


def test_a_branch_without_a_first_schema_is_one_where_the_table_has_none_either(
    catalog: Catalog,
) -> None:
    """Other writers copy those schemas that there are."""
    table = with_column(replacing(catalog, "ab"), "more")
    replace_rows(table, "c")
    # What was written with it goes first, so that the table can be read without.
    expire(table)
    table.table_files.fs.delete(table.table_files.paths.schema(0))
    branch = table.history.create_branch("b", snapshot=6)
    assert names(table) == ["b"]
    replace_rows(table, "d")
    expire(table)
    assert (values(branch), values(table)) == ("c", "d")
    assert_only_reachable_files(table)


def test_a_commit_to_a_branch_that_is_deleted_meanwhile_harms_nobody(catalog: Catalog) -> None:
    table = replacing(catalog, "ab")
    branch = with_column(table.history.create_branch("b", snapshot=4), "of_branch")
    replace_rows(branch, "x")
    plan = table.history.plan_delete_branch("b", grace_ms=0)
    late, fs = interrupted(
        branch,
        when=lambda call: call.name == "put_if_absent" and "/snapshot-" in call.path,
        meanwhile=lambda: table.history.run(plan),
    )
    with suppress(StorageError, IndexError):
        late.write(rows(late, events(0, 3, v="y")))
    assert fs.has_happened
    assert names(table) == []
    replace_rows(table, "c")
    expire(table)
    assert values(table) == "c"
    if "b" in table.table_files.references.branches():
        table.history.run(table.history.plan_delete_branch("b", grace_ms=0))
    assert "b" not in table.table_files.references.branches()
    assert values(table.history.create_branch("b", snapshot=6)) == "c"
    assert_nothing_missing(table)


# --- crashes -----------------------------------------------------------------------------------

Verb = Callable[[Table], object]


def create(table: Table) -> object:
    return table.history.create_branch("new", tag="start")


def delete(table: Table) -> object:
    return table.history.run(table.history.plan_delete_branch("b", grace_ms=0))


def forward(table: Table) -> object:
    return table.history.run(table.history.plan_fast_forward("b", grace_ms=0))
