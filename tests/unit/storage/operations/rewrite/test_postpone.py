"""Postponed buckets: rows wait unseen until a compaction gives them their buckets."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    CorruptionError,
    InvalidOption,
    InvalidRequestError,
    InvalidRows,
    StalePlan,
)
from lakewright.storage.operations.rewrite.postpone import (
    PostponePlan,
    PostponeResult,
    in_writing_order,
)
from lakewright.storage.spec.predicate import Leaf, Operator
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    rows,
    spec,
    values_of,
)
from tests.support.tables.edited_plans import assert_changes_nothing, edited
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.meddling import Meddling


def postponed_table(catalog: Catalog, *, name: str = "db.t", **options: str) -> Table:
    settings = {"bucket": "-2", "postpone.default-bucket-num": "3", **options}
    return new_table(catalog, name=name, partitions=["day"], keys=["day", "id"], options=settings)


def settle(table: Table, partitions: Sequence[dict[str, object]] | None = None) -> PostponeResult:
    return table.upkeep.run(table.upkeep.plan_postpone_compact(partitions))


def counts(table: Table) -> dict[Any, set[int]]:
    found: dict[Any, set[int]] = {}
    for entry in table.at().files():
        day = table.table_files.partitions.of_entry(entry).spec["day"]
        found.setdefault(day, set()).add(entry.total_buckets)
    return found


def test_rows_are_unseen_until_they_get_a_bucket(any_catalog: Catalog) -> None:
    table = postponed_table(any_catalog)
    table.write(rows(table, [*events(0, 20), *events(0, 5, day="b")]))
    table.write(rows(table, [*events(10, 30, v="new"), *events(1, 2, day="b")]))
    assert table.read().num_rows == 0
    assert counts(table) == {"a": {-2}, "b": {-2}}
    assert {entry.bucket for entry in table.at().files()} == {-2}
    # What compaction means elsewhere has nothing to do here.
    assert table.upkeep.plan_compact(full=True).tasks == ()
    result = settle(table)
    assert table.read().num_rows == 35
    assert {v for v in values_of(table, "v") if v.startswith("new")} == {
        f"new{number}" for number in range(10, 30)
    }
    assert counts(table) == {"a": {3}, "b": {3}}
    assert [each.commit_kind for each in result.snapshots] == [CommitKind.COMPACT] * 2
    assert (result.partitions, result.rows_before, result.rows_after) == (2, 46, 35)
    assert (result.files_before, result.dropped) == (4, ())
    before = content(table)
    compact(table, full=True)
    expire(table)
    assert content(table) == before
    assert settle(table).snapshots == ()


def test_rows_win_in_the_order_in_which_they_were_written(catalog: Catalog) -> None:
    table = postponed_table(catalog)
    table.write(rows(table, [*events(0, 9, v="1-"), *events(0, 3, v="2-")]))
    settle(table)
    table.write(rows(table, events(2, 6, v="3-")))
    table.write(rows(table, [*events(3, 5), *events(4, 5, v="4-")], ["-D", "-D", "+I"]))
    settle(table)
    assert values_of(table, "v") == ["1-6", "1-7", "1-8", "2-0", "2-1", "3-2", "3-5", "4-4"]
    # Rows that waited in one go and rows that came after a compaction are numbered alike.
    table.write(rows(table, events(0, 9, v="5-")))
    settle(table)
    assert values_of(table, "v") == [f"5-{number}" for number in range(9)]


def test_a_partition_keeps_the_count_it_has_and_a_rescale_changes_it(catalog: Catalog) -> None:
    table = postponed_table(catalog)
    table.write(rows(table, events(0, 30)))
    settle(table)
    table.write(rows(table, events(20, 40, v="waits")))
    before = content(table)
    result = table.upkeep.run(table.upkeep.plan_rescale(5, [{"day": "a"}]))
    assert result.partitions == 1
    # Rows that wait are not touched, and go where the new count says.
    assert content(table) == before
    assert counts(table) == {"a": {-2, 5}}
    table.write(rows(table, events(0, 2, day="b")))
    settle(table)
    assert counts(table) == {"a": {5}, "b": {3}}
    assert table.read().num_rows == 42
    # The option stays -2 when the whole table is rescaled.
    table.upkeep.run(table.upkeep.plan_rescale(2))
    assert counts(table) == {"a": {2}, "b": {2}}
    assert catalog.table(table.name).options.bucket == -2
    assert table.read().num_rows == 42


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"postpone.target-row-num-per-bucket": "10"}, 3),
        ({"postpone.target-row-num-per-bucket": "1000"}, 1),
        ({"postpone.target-size-per-bucket": "1 kb"}, None),
        ({}, 1),
        ({"postpone.default-bucket-num": "4", "postpone.target-row-num-per-bucket": "1"}, 4),
    ],
)
def test_a_new_partition_gets_as_many_buckets_as_its_rows_ask_for(
    catalog: Catalog, options: dict[str, str], expected: int | None
) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "-2", **options})
    table.write(rows(table, events(0, 25)))
    plan = table.upkeep.plan_postpone_compact()
    size = sum(entry.file.file_size for entry in table.at().files())
    assert plan.tasks[0].bucket_count == (-(-size // 1024) if expected is None else expected)
    table.upkeep.run(plan)
    assert table.read().num_rows == 25


@pytest.mark.parametrize(
    "name", ["default-bucket-num", "target-row-num-per-bucket", "target-size-per-bucket"]
)
def test_numbers_that_cannot_be_are_refused(catalog: Catalog, name: str) -> None:
    options = {"bucket": "-2", f"postpone.{name}": "0"}
    with pytest.raises(InvalidOption, match=f"postpone.{name}=0"):
        catalog.create_table("db.t", spec({"id": "INT"}, keys=["id"], options=options))


@pytest.mark.mission("FS2")
def test_postponed_rows_are_merged_by_the_tables_engine(catalog: Catalog) -> None:
    columns = {"id": "INT", "n": "BIGINT"}
    options = {"bucket": "-2", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    table = new_table(catalog, columns, keys=["id"], options=options)
    for number in (1, 10, 100):
        table.write(rows(table, [{"id": k, "n": number} for k in (1, 2, 1)]))
    settle(table)
    assert table.read().sort_by("id").to_pylist() == [{"id": 1, "n": 222}, {"id": 2, "n": 111}]


def test_the_changes_of_postponed_rows_are_told_when_they_get_a_bucket(catalog: Catalog) -> None:
    table = postponed_table(catalog, **{"changelog-producer": "input"})
    written = table.write(rows(table, events(0, 3))).snapshot
    assert written is not None
    assert written.changelog_manifest_list is None
    (settled,) = settle(table).snapshots
    assert settled.changelog_record_count == 3


def test_a_plan_says_what_it_would_do_and_goes_to_json_and_back(catalog: Catalog) -> None:
    table = postponed_table(catalog)
    table.write(rows(table, [*events(0, 20), *events(0, 5, day="b")]))
    plan = table.upkeep.plan_postpone_compact([{"day": "b"}])
    assert PostponePlan.from_json(plan.to_json()) == plan
    assert [(task.partition, task.rows) for task in plan.tasks] == [({"day": "b"}, 5)]
    assert (plan.files_before, plan.rows) == (1, 5)
    assert plan.bytes_before > 0
    watching, fs = watched(table)
    watching.upkeep.plan_postpone_compact()
    assert fs.changes == []
    table.upkeep.run(plan)
    assert table.read().num_rows == 5
    assert counts(table) == {"a": {-2}, "b": {3}}


def test_what_is_not_postponed_is_refused(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "2"})
    with pytest.raises(InvalidRequestError, match="has fixed buckets and no postponed rows"):
        table.upkeep.plan_postpone_compact()
    with pytest.raises(InvalidOption, match="write -1 or a positive number"):
        new_table(catalog, name="db.append", options={"bucket": "-2"})


def test_an_overwrite_takes_waiting_rows_away_too(catalog: Catalog) -> None:
    table = postponed_table(catalog)
    table.write(rows(table, events(0, 5)))
    settle(table)
    table.write(rows(table, events(5, 9)))
    table.write(rows(table, events(20, 22)), mode="overwrite")
    assert table.read().num_rows == 0
    settle(table)
    assert values_of(table, "id") == [20, 21]


def test_files_are_named_after_who_wrote_them(catalog: Catalog) -> None:
    table = postponed_table(catalog)
    table.write(rows(table, events(0, 2)), commit_user="jobs/1 [x]")
    (entry,) = table.at().files()
    assert entry.file.file_name.startswith("data--u-jobs%2F1 %5Bx%5D-s-")
    assert "-w-" in entry.file.file_name
    path = table.table_files.data_file_path(entry.place, entry.file)
    assert path.split("/")[-2] == "bucket-postpone"
    settle(table)
    assert table.read().num_rows == 2


def test_files_of_one_moment_are_read_in_the_order_of_their_manifests(catalog: Catalog) -> None:
    table = postponed_table(catalog)
    for _ in range(4):
        table.write(rows(table, events(0, 1)))
    metas = [replace(entry.file, creation_time=5) for entry in table.at().files()]
    assert in_writing_order(metas) == metas
    assert in_writing_order([replace(metas[0], creation_time=6), metas[1]])[0] == metas[1]


def test_rows_written_meanwhile_wait_for_the_next_compaction(catalog: Catalog) -> None:
    table = postponed_table(catalog)
    table.write(rows(table, events(0, 5)))
    late = rows(table, events(3, 8, v="late"))
    result = table.upkeep.run(
        table.upkeep.plan_postpone_compact(), Meddling(lambda: table.write(late))
    )
    assert result.partitions == 1
    assert values_of(table, "v") == [f"v{number}" for number in range(5)]
    settle(table)
    assert values_of(table, "v") == ["late3", "late4", "late5", "late6", "late7", "v0", "v1", "v2"]


@pytest.mark.parametrize("verb", ["settle", "overwrite", "rescale"])
def test_of_two_that_move_the_same_rows_one_gives_way(catalog: Catalog, verb: str) -> None:
    table = postponed_table(catalog)
    table.write(rows(table, events(0, 9)))
    settle(table)
    table.write(rows(table, events(5, 12, v="new")))
    verbs: dict[str, Callable[[], object]] = {
        "settle": lambda: settle(table),
        "overwrite": lambda: table.write(rows(table, events(0, 1)), mode="overwrite"),
        "rescale": lambda: table.upkeep.run(table.upkeep.plan_rescale(4)),
    }
    plan = table.upkeep.plan_postpone_compact()
    result = table.upkeep.run(plan, Meddling(verbs[verb]))
    assert (result.snapshots, result.dropped) == ((), ({"day": "a"},))
    assert_only_reachable_files(table)
    settle(table)
    assert table.read().num_rows == (1 if verb == "overwrite" else 12)
    with pytest.raises(StalePlan):
        table.upkeep.run(plan)


def test_rows_that_the_engine_refuses_leave_the_partition_as_it_was(catalog: Catalog) -> None:
    options = {"bucket": "-2", "merge-engine": "first-row"}
    table = new_table(catalog, keys=["id"], options=options)
    with pytest.raises(InvalidRows, match="first-row"):
        table.write(rows(table, events(0, 2), ["+I", "-D"]))
    table.write(rows(table, [*events(0, 3), *events(0, 3, v="second")]))
    settle(table)
    compact(table, full=True)
    assert values_of(table, "v") == ["v0", "v1", "v2"]


@pytest.mark.parametrize("lost_at", ["data", "changelog", "reading"])
def test_rows_that_get_lost_on_the_way_are_noticed(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, lost_at: str
) -> None:
    from lakewright.storage.operations.write import bucket_writer, rolling_writer, verify

    class Forgetful(rolling_writer.RollingWriter):
        def write(self, new: Any) -> None:
            changelog = lost_at == "changelog"
            super().write(new.slice(1) if self.target.changelog is changelog else new)

    class Skipping(verify.FileRows):
        def key_value_rows(self, *args: Any, **reading: Any) -> Any:
            return (read.slice(1) for read in super().key_value_rows(*args, **reading))

    table = postponed_table(catalog, **{"changelog-producer": "input"})
    table.write(rows(table, events(0, 20)))
    if lost_at == "reading":
        monkeypatch.setattr(verify, "FileRows", Skipping)
    else:
        monkeypatch.setattr(bucket_writer, "RollingWriter", Forgetful)
    with pytest.raises(CorruptionError, match="nothing was committed"):
        settle(table)
    monkeypatch.undo()
    assert content(table) == []
    assert_only_reachable_files(table)
    settle(table)
    assert len(content(table)) == 20


def test_staged_rows_are_read_as_the_table_would_hold_them(catalog: Catalog) -> None:
    table = postponed_table(catalog)
    new = rows(table, [*events(3, 6), *events(0, 4, v="b"), *events(4, 5)], ["+I"] * 7 + ["-D"])
    staged = table.stage(new)
    seen = table.read_staged(staged, columns=["v"]).column("v").to_pylist()
    assert sorted(seen) == ["b0", "b1", "b2", "b3", "v5"]
    table.commit(staged)
    settle(table)
    assert values_of(table, "v") == sorted(seen)


def test_a_filter_on_keys_reads_the_buckets_that_may_hold_them(catalog: Catalog) -> None:
    table = postponed_table(catalog)
    table.write(rows(table, events(0, 30)))
    settle(table)
    plan = table.scan(Leaf("id", Operator.EQ, (7,))).plan
    assert {split.bucket for split in plan.splits} < {0, 1, 2}
    assert values_of(table, "v", where=Leaf("id", Operator.EQ, (7,))) == ["v7"]


@pytest.mark.parametrize("left_out", [0, 1])
def test_rows_are_placed_in_the_order_of_their_files_even_by_an_edited_plan(
    catalog: Catalog, left_out: int
) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "-2"})
    for version in "abc":
        table.write(rows(table, events(0, 3, v=version)))
    plan = table.upkeep.plan_postpone_compact()
    (task,) = json.loads(plan.to_json())["tasks"]
    del task["files"][left_out]
    changed = edited(plan, tasks=[task])
    run = table.upkeep.run
    assert_changes_nothing(table, lambda: run(changed), StalePlan)
    settle(table)
    assert values_of(table, "v") == ["c0", "c1", "c2"]


def test_a_plan_of_the_oldest_files_leaves_the_others_to_the_next(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "-2"})
    for version in "ab":
        table.write(rows(table, events(0, 3, v=version)))
    plan = table.upkeep.plan_postpone_compact()
    table.write(rows(table, events(0, 3, v="c")))
    table.upkeep.run(plan)
    assert values_of(table, "v") == ["b0", "b1", "b2"]
    settle(table)
    assert values_of(table, "v") == ["c0", "c1", "c2"]
