"""Dropping partitions: exactly the planned ones go, in one commit, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import (
    InvalidPredicate,
    InvalidRequestError,
    PartitionNotFound,
    SchemaMoved,
    StalePlan,
)
from lakewright.storage.operations.partitions.drop_partitions import DropPartitionsPlan
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import interrupted, puts_snapshot
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
from tests.support.tables.invariants import assert_only_reachable_files

KEYS = ("day", "id")
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "bucketed": {"options": {"bucket": "2", "bucket-key": "id"}},
    "keyed": {"keys": KEYS, "options": {"bucket": "2"}},
    "dynamic": {"keys": KEYS, "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}},
    "postponed": {"keys": KEYS, "options": {"bucket": "-2"}},
    "vectors": {"keys": KEYS, "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
    "telling": {"keys": KEYS, "options": {"bucket": "1", "changelog-producer": "input"}},
}


def filled(catalog: Catalog, kind: str = "append") -> Table:
    table = new_table(catalog, partitions=("day",), **KINDS[kind])
    for number, day in enumerate(["a", "b", "c", None, "a"]):
        if day is None and kind != "append":
            continue
        table.write(rows(table, events(number, number + 3, day=day)))
    return table


@pytest.mark.mission("PT68")
@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_dropped_partitions_go_and_all_others_stay(catalog: Catalog, kind: str) -> None:
    table = filled(catalog, kind)
    if kind == "vectors":
        compact(table, full=True)
        table.write(rows(table, events(0, 1, day="a"), ["-D"]))
        compact(table, full=True)
    before, kept = table.history.latest_snapshot(), content(table, where="day = 'b'")

    result = table.upkeep.drop_partitions("day IN ('a', 'c')")

    assert content(table, where="day IN ('a', 'b', 'c')") == kept
    assert before is not None
    assert result.snapshot is not None
    assert (result.snapshot.id, result.snapshot.commit_kind) == (
        before.id + 1,
        CommitKind.OVERWRITE,
    )
    assert result.snapshot.delta_record_count == -sum(each.rows for each in result.partitions)
    assert [each.partition for each in result.partitions] == [{"day": "a"}, {"day": "c"}]
    assert not {each.spec["day"] for each in table.at().partitions()} & {"a", "c"}
    # The table goes on: the partition comes back with new rows alone.
    table.write(rows(table, events(7, 8, day="a")))
    if kind == "postponed":
        table.upkeep.postpone_compact()
    compact(table, full=True)
    assert values_of(table, "id", where="day = 'a'") == [7]
    expire(table, keep=1)
    assert_only_reachable_files(table)


def test_a_dry_run_shows_the_partitions_and_writes_nothing(catalog: Catalog) -> None:
    table = filled(catalog)
    plan = table.upkeep.drop_partitions(partitions=[{"day": "a"}, {"day": None}], dry_run=True)
    assert [(each.partition["day"], each.rows, len(each.files)) for each in plan.partitions] == [
        (None, 3, 1),
        ("a", 6, 2),
    ]
    assert len(table.history.snapshots()) == 5
    assert DropPartitionsPlan.from_json(plan.to_json()) == plan


def test_the_files_stay_as_long_as_a_snapshot_or_a_tag_keeps_them(catalog: Catalog) -> None:
    table = filled(catalog)
    rows_before = content(table)
    table.history.create_tag("before")
    table.upkeep.drop_partitions("day = 'a'")
    expire(table, keep=1)
    assert content(table.at(tag="before")) == rows_before
    table.history.delete_tags("before", grace_ms=0)
    assert_only_reachable_files(table)
    remove_orphans(table)
    assert len(content(table)) == 9


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({}, InvalidRequestError, "say which partitions"),
        ({"partitions": []}, InvalidRequestError, "say which partitions"),
        ({"partitions": [{}]}, InvalidRequestError, "say which partitions"),
        ({"where": "id = 1"}, InvalidPredicate, "keys alone; those of db.t are day"),
        ({"where": "day = 'z'"}, PartitionNotFound, r'there are {"day": null}; day=a; day=b'),
        ({"partitions": [{"day": "a"}, {"day": "z"}]}, PartitionNotFound, "no partition day=z"),
        ({"partitions": [{"dya": "a"}]}, InvalidRequestError, "'dya' is not a partition key"),
    ],
)
def test_a_wrong_request_drops_nothing(
    catalog: Catalog, asked: dict[str, Any], error: type[Exception], message: str
) -> None:
    table = filled(catalog)
    with pytest.raises(error, match=message):
        table.upkeep.drop_partitions(**asked)
    assert len(table.history.snapshots()) == 5


def test_partitions_that_may_be_missing_are_no_error_if_the_caller_says_so(
    catalog: Catalog,
) -> None:
    table = filled(catalog)
    asked: list[dict[str, object]] = [{"day": "a"}, {"day": "z"}]
    result = table.upkeep.drop_partitions(partitions=asked, if_exists=True)
    assert [each.partition for each in result.partitions] == [{"day": "a"}]
    again = table.upkeep.drop_partitions(partitions=asked, if_exists=True)
    assert (again.snapshot, again.partitions) == (None, ())


def test_a_table_without_partition_keys_has_nothing_to_drop(catalog: Catalog) -> None:
    table = new_table(catalog)
    with pytest.raises(InvalidRequestError, match="has no partition keys"):
        table.upkeep.drop_partitions("day = 'a'")


def test_partly_named_partitions_of_two_keys_go_together(catalog: Catalog) -> None:
    columns = {"id": "INT", "day": "STRING", "hour": "INT"}
    table = new_table(catalog, columns, partitions=("day", "hour"))
    for day in "ab":
        for hour in (1, 2):
            table.write(rows(table, [{"id": hour, "day": day, "hour": hour}]))
    table.upkeep.drop_partitions(partitions=[{"day": "a"}, {"hour": 2}])
    assert [each.spec for each in table.at().partitions()] == [{"day": "b", "hour": 1}]


@pytest.mark.parametrize(
    "meddle",
    [
        lambda table: table.write(rows(table, events(5, 6, day="a"))),
        lambda table: compact(table, [{"day": "a"}], full=True),
        lambda table: table.upkeep.drop_partitions("day = 'a'"),
    ],
    ids=["a write", "a compaction", "a drop"],
)
@pytest.mark.parametrize("when", ["before the run", "before the commit"])
def test_nothing_goes_that_the_plan_did_not_show(
    catalog: Catalog, meddle: Callable[[Table], object], when: str
) -> None:
    table = filled(catalog)
    plan = table.upkeep.plan_drop_partitions("day IN ('a', 'b')")
    seen = table
    if when == "before the run":
        meddle(table)
    else:
        seen, _ = interrupted(table, when=puts_snapshot, meanwhile=lambda: meddle(table))
    with pytest.raises(StalePlan, match=r"other commits changed partition day=a"):
        seen.upkeep.run(plan)
    assert len(values_of(table, "id", where="day = 'b'")) == 3


def test_commits_to_other_partitions_do_not_disturb_a_drop(catalog: Catalog) -> None:
    table = filled(catalog)
    plan = table.upkeep.plan_drop_partitions("day = 'a'")
    write = rows(table, events(5, 6, day="b"))
    seen, other = interrupted(table, when=puts_snapshot, meanwhile=lambda: table.write(write))
    seen.upkeep.run(plan)
    assert other.has_happened
    assert values_of(table, "id", where="day = 'b'") == [1, 2, 3, 5]
    assert values_of(table, "id", where="day = 'a'") == []


def test_a_table_opened_before_an_alter_drops_nothing(catalog: Catalog) -> None:
    table = filled(catalog)
    table.alter(AddColumn("w", "INT"))
    with pytest.raises(SchemaMoved, match="open the table and plan again"):
        table.upkeep.drop_partitions("day = 'a'")


def test_an_edited_plan_drops_no_other_partition(catalog: Catalog) -> None:
    table = filled(catalog)
    plan = table.upkeep.plan_drop_partitions("day = 'a'")
    (held,) = plan.partitions
    other = replace(plan, partitions=(replace(held, partition={"day": "b"}),))
    with pytest.raises(StalePlan):
        table.upkeep.run(other)
    with pytest.raises(InvalidRequestError, match="names 2 partitions, and 1 of them"):
        table.upkeep.run(replace(plan, partitions=(held, held)))
    assert len(content(table)) == 15
