"""Renaming a partition: its rows get other values, in one commit, and nothing else changes."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lakewright.storage import Catalog, LocalEngine, Table
from lakewright.storage.errors import (
    InvalidRequestError,
    PartitionExists,
    PartitionNotFound,
    StalePlan,
    VerificationFailed,
)
from lakewright.storage.operations.partitions.rename_partition import RenamePartitionPlan
from lakewright.storage.operations.write.rolling_writer import RollingWriter
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import interrupted, puts_snapshot
from tests.support.tables.builders import compact, content, events, expire, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files
from tests.unit.storage.operations.partitions.test_drop_partitions import KINDS

COUNTED = {"keys": ("day", "id"), "options": {"bucket": "1", "file.format": "orc"}}


def filled(catalog: Catalog, kind: str) -> Table:
    table = new_table(catalog, partitions=("day",), **(KINDS | {"orc": COUNTED})[kind])
    for number, day in enumerate("aaab"):
        table.write(rows(table, events(number, number + 3, day=day, v=f"w{number}-")))
    if table.schema.has_primary_key:
        table.write(rows(table, events(1, 2, day="a"), ["-D"]))
    if kind == "vectors":
        compact(table, full=True)
    return table


def renamed(found: list[str], day: str) -> list[str]:
    return sorted(json.dumps(json.loads(each) | {"day": day}, sort_keys=True) for each in found)


@pytest.mark.sampled(3)
@pytest.mark.mission("CT1")
@pytest.mark.parametrize("kind", sorted({*KINDS, "orc"} - {"postponed"}))
def test_the_rows_have_the_new_values_and_all_others_stay(catalog: Catalog, kind: str) -> None:
    table = filled(catalog, kind)
    before, others = content(table, where="day = 'a'"), content(table, where="day = 'b'")
    last = table.history.latest_snapshot()

    result = table.upkeep.rename_partition({"day": "a"}, {"day": "z"})

    assert content(table, where="day = 'z'") == renamed(before, "z")
    assert content(table, where="day = 'b'") == others
    assert content(table, where="day = 'a'") == []
    assert last is not None
    assert (result.snapshot.id, result.snapshot.commit_kind) == (last.id + 1, CommitKind.OVERWRITE)
    # The table goes on, in both partitions.
    table.write(rows(table, events(2, 4, day="z", v="new")))
    table.write(rows(table, events(2, 4, day="a", v="new")))
    compact(table, full=True)
    assert len(content(table, where="day = 'a'")) == 2
    ids = [json.loads(each)["id"] for each in content(table, where="day = 'z'")]
    assert len(set(ids)) == len(ids) or not table.schema.has_primary_key
    expire(table, keep=1)
    assert_only_reachable_files(table)


def test_a_reader_of_the_snapshot_before_sees_the_old_values(catalog: Catalog) -> None:
    table = filled(catalog, "append")
    before = content(table)
    snapshot = table.history.latest_snapshot()
    assert snapshot is not None
    table.upkeep.rename_partition({"day": "a"}, {"day": None})
    assert content(table.at(snapshot=snapshot.id)) == before
    assert content(table, where="day IS NULL") == renamed(
        [each for each in before if '"day": "a"' in each],
        None,  # type: ignore[arg-type]
    )


def test_keys_that_stay_may_be_left_out(catalog: Catalog) -> None:
    columns = {"id": "INT", "d": "DATE", "h": "INT"}
    table = new_table(catalog, columns, partitions=("d", "h"))
    day = dt.date(2024, 1, 2)
    table.write(rows(table, [{"id": 1, "d": day, "h": 7}]))
    plan = table.upkeep.plan_rename_partition({"d": "2024-01-02", "h": 7}, {"h": 8})
    assert RenamePartitionPlan.from_json(plan.to_json()).to == {"d": "2024-01-02", "h": 8}
    table.upkeep.run(RenamePartitionPlan.from_json(plan.to_json()))
    assert table.read().to_pylist() == [{"id": 1, "d": day, "h": 8}]


@pytest.mark.mission("CT1")
@pytest.mark.parametrize(
    ("partition", "to", "error", "message"),
    [
        ({"day": "x"}, {"day": "z"}, PartitionNotFound, "has no partition"),
        ({"day": "a"}, {"day": "b"}, PartitionExists, "with 1 files; choose other values"),
        ({"day": "a"}, {"day": "a"}, InvalidRequestError, "has these values already"),
        ({}, {"day": "z"}, InvalidRequestError, "give a value of day too"),
        ({"day": "a"}, {"dya": "z"}, InvalidRequestError, "'dya' is not a partition key"),
    ],
)
def test_a_wrong_request_changes_nothing(
    catalog: Catalog,
    partition: dict[str, Any],
    to: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    table = filled(catalog, "append")
    with pytest.raises(error, match=message):
        table.upkeep.rename_partition(partition, to)
    assert len(table.history.snapshots()) == 4


def test_a_key_that_is_not_null_gets_no_null(catalog: Catalog) -> None:
    table = filled(catalog, "keyed")
    with pytest.raises(InvalidRequestError, match="is NOT NULL"):
        table.upkeep.rename_partition({"day": "a"}, {"day": None})


def test_rows_that_wait_for_a_bucket_are_not_renamed(catalog: Catalog) -> None:
    table = filled(catalog, "postponed")
    with pytest.raises(InvalidRequestError, match="wait for a bucket"):
        table.upkeep.rename_partition({"day": "a"}, {"day": "z"})


HASHED = {"options": {"bucket": "8", "bucket-key": "day,id"}}


@pytest.mark.parametrize("saved", [False, True], ids=["a plan", "a saved plan"])
def test_a_value_that_buckets_are_chosen_by_does_not_change(catalog: Catalog, saved: bool) -> None:
    table = new_table(catalog, partitions=("day",), **HASHED)
    table.write(rows(table, events(0, 20, day="a")))
    held = table.upkeep.plan_drop_partitions("day = 'a'").partitions[0]
    plan = RenamePartitionPlan(table="db.t", snapshot_id=1, renamed=held, to={"day": "b"})
    rename = (
        partial(table.upkeep.run, plan)
        if saved
        else partial(table.upkeep.rename_partition, {"day": "a"}, {"day": "b"})
    )
    with pytest.raises(InvalidRequestError, match=r"in its bucket-key.*write the rows.*drop it"):
        rename()
    assert len(table.history.snapshots()) == 1
    assert_only_reachable_files(table)
    # The way out that the message names.
    moved = table.read().to_pylist()
    table.write(rows(table, [{**each, "day": "b"} for each in moved]))
    table.upkeep.drop_partitions("day = 'a'")
    assert len(content(table)) == 20
    found = [content(table, where=f"day = 'b' AND id = {each['id']}") for each in moved]
    assert sorted(each for one in found for each in one) == content(table)


def test_a_value_beside_those_that_buckets_are_chosen_by_changes(catalog: Catalog) -> None:
    columns = {"id": "INT", "d": "STRING", "h": "INT"}
    options = {"bucket": "8", "bucket-key": "d,id"}
    table = new_table(catalog, columns, partitions=("d", "h"), options=options)
    table.write(rows(table, [{"id": n, "d": "a", "h": 7} for n in range(20)]))
    table.upkeep.rename_partition({"d": "a", "h": 7}, {"h": 8})
    for n in range(20):
        assert len(content(table, where=f"d = 'a' AND h = 8 AND id = {n}")) == 1


@pytest.mark.parametrize(
    "meddle",
    [
        lambda table: table.write(rows(table, events(5, 6, day="a"))),
        lambda table: table.write(rows(table, events(5, 6, day="z"))),
        lambda table: table.upkeep.drop_partitions("day = 'a'"),
    ],
    ids=["a write", "a write to the new one", "a drop"],
)
@pytest.mark.parametrize("when", ["before the run", "before the commit"])
def test_a_rename_beside_another_change_of_the_partitions_leaves_nothing(
    catalog: Catalog, meddle: Callable[[Table], object], when: str
) -> None:
    table = filled(catalog, "append")
    plan = table.upkeep.plan_rename_partition({"day": "a"}, {"day": "z"})
    seen = table
    if when == "before the run":
        meddle(table)
    else:
        seen, _ = interrupted(table, when=puts_snapshot, meanwhile=lambda: meddle(table))
    with pytest.raises(StalePlan):
        seen.upkeep.run(plan)
    assert len(table.history.snapshots()) == 5
    assert_only_reachable_files(table)


def test_a_rename_that_fails_after_it_wrote_deletes_what_it_wrote(catalog: Catalog) -> None:
    table = filled(catalog, "append")

    class Failing(LocalEngine):
        def map(self, function: Any, tasks: Any) -> Any:
            super().map(function, tasks)
            raise VerificationFailed("as a test wants it")

    plan = table.upkeep.plan_rename_partition({"day": "a"}, {"day": "z"})
    with pytest.raises(VerificationFailed):
        table.upkeep.run(plan, Failing(env=table.table_files.env))
    assert len(table.history.snapshots()) == 4
    assert_only_reachable_files(table)


def test_new_files_that_differ_from_their_rows_are_not_published(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(catalog, "append")
    write = RollingWriter.write
    monkeypatch.setattr(RollingWriter, "write", lambda self, rows: write(self, rows.slice(1)))
    with pytest.raises(VerificationFailed, match="rows"):
        table.upkeep.rename_partition({"day": "a"}, {"day": "z"})
    monkeypatch.undo()
    assert len(table.history.snapshots()) == 4
    assert_only_reachable_files(table)
