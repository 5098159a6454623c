"""Rescaling: rows move into other buckets, and readers see the same rows throughout."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    BucketCountChanged,
    CorruptionError,
    InvalidRequestError,
    SchemaMoved,
    StalePlan,
    UnavailableError,
)
from lakewright.storage.operations.rewrite.rescale import RescalePlan, RescaleResult
from lakewright.storage.operations.write import dealt_files
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import compact, content, events, new_table, rows, values_of
from tests.support.tables.edited_plans import assert_changes_nothing, edited
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.meddling import Meddling

KEYED: dict[str, Any] = {"partitions": ["day"], "keys": ["day", "id"]}
APPEND: dict[str, Any] = {"partitions": ["day"]}


def table_of(catalog: Catalog, buckets: int, *, keyed: bool = True, **options: str) -> Table:
    settings = KEYED if keyed else APPEND
    named = {"bucket": str(buckets), **{k.replace("_", "-"): v for k, v in options.items()}}
    if not keyed:
        named["bucket-key"] = "id"
    return new_table(catalog, **settings, options=named)


def filled(table: Table) -> Table:
    """Several overlapping commits in two partitions, and deletions in one."""
    for number in range(3):
        table.write(
            rows(
                table, [*events(number, 40, v=f"{number}-"), *events(0, 9, day="b", v=str(number))]
            )
        )
    if table.schema.has_primary_key:
        table.write(rows(table, events(3, 6), ["-D"] * 3))
    return table


def rescale(
    table: Table, buckets: int, partitions: Sequence[dict[str, object]] | None = None
) -> RescaleResult:
    return table.upkeep.run(table.upkeep.plan_rescale(buckets, partitions))


def counts(table: Table) -> dict[Any, set[int]]:
    """How many buckets the files of each partition say there are."""
    found: dict[Any, set[int]] = {}
    for entry in table.at().files():
        day = table.table_files.partitions.of_entry(entry).spec["day"]
        found.setdefault(day, set()).add(entry.total_buckets)
    return found


@pytest.mark.parametrize(("before", "after"), [(1, 4), (2, 4), (4, 2), (6, 4), (3, 5), (5, 1)])
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.mission("BK37")
@pytest.mark.sampled(4)
def test_a_rescaled_table_holds_the_same_rows_in_as_many_buckets_as_asked(
    catalog: Catalog, keyed: bool, before: int, after: int
) -> None:
    table = filled(table_of(catalog, before, keyed=keyed))
    rows_before = content(table)
    result = rescale(table, after)
    assert content(table) == rows_before
    assert counts(table) == {"a": {after}, "b": {after}}
    assert {entry.bucket for entry in table.at().files()} == set(range(after))
    assert [each.commit_kind for each in result.snapshots] == [CommitKind.OVERWRITE] * 2
    assert (result.partitions, result.dropped) == (2, ())
    assert result.rows_after == len(rows_before)
    assert result.files_after == len(table.at().files())
    # The option is the table's from now on, and writes go on.
    table = catalog.table(table.name)
    assert table.options.bucket == after
    table.write(rows(table, [*events(0, 50, v="new"), *events(0, 1, day="c")]))
    assert counts(table) == {day: {after} for day in "abc"}
    expected = 50 + 9 + 1 if keyed else len(rows_before) + 51
    assert table.read().num_rows == expected
    compact(table, full=True)
    assert table.read().num_rows == expected


@pytest.mark.mission("BK37", "FS5")
def test_partitions_may_differ_and_each_goes_on_with_its_own_count(catalog: Catalog) -> None:
    table = filled(table_of(catalog, 2))
    before = content(table)
    result = rescale(table, 5, [{"day": "a"}])
    assert (result.partitions, result.schema_id) == (1, 0)
    assert counts(table) == {"a": {5}, "b": {2}}
    assert content(table) == before
    assert table.options.bucket == catalog.table(table.name).options.bucket == 2
    # A key written again lies in the bucket where it was, whichever the partition.
    table.write(rows(table, [*events(0, 40, v="x"), *events(0, 9, day="b", v="x")]))
    assert counts(table) == {"a": {5}, "b": {2}}
    assert table.read().num_rows == 49
    assert {value[0] for value in values_of(table, "v")} == {"x"}
    compact(table, full=True)
    assert table.read().num_rows == 49
    # Every snapshot is read as it was.
    assert content(table.at(snapshot=4)) == before
    # Bringing the whole table to one count leaves out what has it already.
    plan = table.upkeep.plan_rescale(5)
    assert [task.partition for task in plan.tasks] == [{"day": "b"}]
    table.upkeep.run(plan)
    assert counts(catalog.table(table.name)) == {"a": {5}, "b": {5}}
    assert table.read().num_rows == 49


def test_a_row_keeps_its_sequence_number_and_kind(catalog: Catalog) -> None:
    table = table_of(catalog, 1)
    table.write(rows(table, events(0, 8)))
    table.write(rows(table, events(2, 4, v="new"), ["+U", "+U"]))
    rescale(table, 3)
    table = catalog.table(table.name)
    top = table.options.max_level
    files = [entry.file for entry in table.at().files()]
    assert {file.level for file in files} == {top}
    assert min(file.min_sequence_number for file in files) == 0
    assert max(file.max_sequence_number for file in files) == 9
    # The next number follows those of the bucket, so that later rows win.
    table.write(rows(table, events(0, 8, v="last")))
    assert {value[:4] for value in values_of(table, "v")} == {"last"}


@pytest.mark.parametrize("option", ["4", "1"])
def test_a_plain_write_after_a_changed_option_is_refused_and_not_doubled(
    catalog: Catalog, option: str
) -> None:
    table = filled(table_of(catalog, 2))
    before = content(table)
    changed = altered(table, bucket=option)
    with pytest.raises(BucketCountChanged, match="has 2 buckets and the table's option asks for"):
        changed.write(rows(changed, events(0, 3)))
    assert content(changed) == before
    assert_only_reachable_files(changed)
    # Ways out: overwriting the partition, rescaling it, a new partition.
    changed.write(rows(changed, events(0, 3, day="b", v="over")), mode="overwrite")
    changed.write(rows(changed, events(0, 3, day="c")))
    rescale(changed, int(option), [{"day": "a"}])
    changed.write(rows(changed, [*events(0, 3, v="x"), *events(0, 3, day="b", v="x")]))
    assert counts(changed) == {day: {int(option)} for day in "abc"}
    assert changed.read().num_rows == 37 + 3 + 3 + 3 - 3


def altered(table: Table, **options: str) -> Table:
    """The table after somebody changed options in its schema."""
    schema: TableSchema = replace(
        table.schema, id=table.schema.id + 1, options={**table.schema.options, **options}
    )
    assert table.table_files.schemas.put_schema(schema)
    return Table(replace(table.table_files, schema=schema))


@pytest.mark.mission("FS2")
def test_with_a_merge_engine_the_merged_row_is_what_moves(catalog: Catalog) -> None:
    columns = {"id": "INT", "a": "STRING", "b": "STRING"}
    options = {"bucket": "1", "merge-engine": "partial-update"}
    table = new_table(catalog, columns, keys=["id"], options=options)
    table.write(rows(table, [{"id": n, "a": f"a{n}"} for n in range(9)]))
    table.write(rows(table, [{"id": n, "b": f"b{n}"} for n in range(9)]))
    before = content(table)
    result = rescale(table, 4)
    assert content(table) == before
    assert (result.rows_before, result.rows_after) == (18, 9)


def test_rows_that_a_deletion_vector_names_stay_behind(catalog: Catalog) -> None:
    table = table_of(catalog, 2, **{"deletion-vectors.enabled": "true"})
    table.write(rows(table, events(0, 40)))
    compact(table, full=True)
    table.write(rows(table, events(5, 9, v="new")))
    table.write(rows(table, events(6, 8, v="newer")))
    table.upkeep.run(table.upkeep.plan_compact(min_files=2))
    before = content(table)
    assert len(before) == 40
    rescale(table, 3)
    assert content(table) == before
    table = catalog.table(table.name)
    table.write(rows(table, events(0, 4, v="x")))
    compact(table, full=True)
    assert table.read().num_rows == 40


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_changes_that_nobody_has_told_yet_stand_in_the_way(catalog: Catalog, producer: str) -> None:
    table = table_of(catalog, 2, changelog_producer=producer)
    table.write(rows(table, events(0, 5)))
    with pytest.raises(InvalidRequestError, match="compact the partition fully first"):
        table.upkeep.plan_rescale(4)
    compact(table, full=True)
    before = content(table)
    rescale(table, 4)
    assert content(table) == before


def test_a_plan_says_what_it_would_do_and_goes_to_json_and_back(catalog: Catalog) -> None:
    table = filled(table_of(catalog, 2))
    plan = table.upkeep.plan_rescale(3)
    assert RescalePlan.from_json(plan.to_json()) == plan
    assert {task.from_buckets for task in plan.tasks} == {2}
    assert {task.bucket_count for task in plan.tasks} == {3}
    assert plan.files_before == len(table.at().files())
    assert plan.rows == sum(entry.file.row_count for entry in table.at().files())
    assert plan.bytes_before == sum(entry.file.file_size for entry in table.at().files())
    assert plan.bucket_option == 3
    watching, fs = watched(table)
    watching.upkeep.plan_rescale(3)
    assert fs.changes == []
    # Nothing to do is nothing done.
    assert table.upkeep.plan_rescale(2).tasks == ()
    assert table.upkeep.run(table.upkeep.plan_rescale(2)).snapshots == ()


def test_an_empty_table_only_changes_its_option(catalog: Catalog) -> None:
    table = table_of(catalog, 2)
    assert rescale(table, 7).snapshots == ()
    table = catalog.table(table.name)
    table.write(rows(table, events(0, 3)))
    assert counts(table) == {"a": {7}}


def test_what_cannot_be_rescaled_is_refused(catalog: Catalog) -> None:
    table = table_of(catalog, 2)
    for number in (0, -1):
        with pytest.raises(InvalidRequestError, match=f"cannot have {number} buckets"):
            table.upkeep.plan_rescale(number)
    with pytest.raises(InvalidRequestError, match="its partition keys are day"):
        table.upkeep.plan_rescale(3, [{"id": 1}])
    for name, settings in (
        ("db.unaware", {}),
        ("db.dynamic", {"keys": ["id"], "options": {"bucket": "-1"}}),
    ):
        other = new_table(catalog, name=name, **settings)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequestError, match="buckets, which have no fixed number"):
            other.upkeep.plan_rescale(3)
    with pytest.raises(InvalidRequestError, match=r"the plan is for db.t, and this is db.unaware"):
        catalog.table("db.unaware").upkeep.run(table.upkeep.plan_rescale(3))


# --- others at the same time ------------------------------------------------------------------


def test_rows_written_meanwhile_are_kept_and_their_partition_is_left_alone(
    catalog: Catalog,
) -> None:
    table = filled(table_of(catalog, 2))
    new = rows(table, events(0, 60, v="meanwhile"))
    result = table.upkeep.run(table.upkeep.plan_rescale(3), Meddling(lambda: table.write(new)))
    assert result.dropped == ({"day": "a"},)
    assert counts(table) == {"a": {2}, "b": {3}}
    assert table.read().num_rows == 60 + 9
    assert_only_reachable_files(table)
    # The next one does the rest.
    table = catalog.table(table.name)
    result = rescale(table, 3)
    assert result.partitions == 1
    assert counts(table) == {"a": {3}, "b": {3}}
    assert table.read().num_rows == 69


@pytest.mark.parametrize("verb", ["compact", "overwrite", "rescale"])
def test_files_replaced_meanwhile_are_not_brought_back(catalog: Catalog, verb: str) -> None:
    table = filled(table_of(catalog, 2))
    verbs: dict[str, Callable[[], object]] = {
        "compact": lambda: compact(table, full=True),
        "overwrite": lambda: table.write(rows(table, []), mode="overwrite", dynamic=False),
        "rescale": lambda: rescale(table, 4, [{"day": "a"}, {"day": "b"}]),
    }
    plan = table.upkeep.plan_rescale(3, [{"day": "a"}, {"day": "b"}])
    result = table.upkeep.run(plan, Meddling(verbs[verb]))
    assert (result.snapshots, result.dropped) == ((), ({"day": "a"}, {"day": "b"}))
    assert table.read().num_rows == (0 if verb == "overwrite" else 37 + 9)
    assert_only_reachable_files(table)


def test_a_plan_that_others_overtook_is_stale(catalog: Catalog) -> None:
    table = filled(table_of(catalog, 2))
    plan = table.upkeep.plan_rescale(3, [{"day": "b"}])
    table.write(rows(table, events(0, 1, day="b", v="x")))
    with pytest.raises(
        StalePlan, match=r"other commits up to snapshot 5 changed all .*; plan again"
    ):
        table.upkeep.run(plan)
    whole = table.upkeep.plan_rescale(3)
    altered(table, bucket="4")
    with pytest.raises(SchemaMoved, match="opened with schema 0, and has schema 1 now"):
        table.upkeep.run(whole)
    with pytest.raises(SchemaMoved, match="and the rescale was planned with schema 0"):
        catalog.table(table.name).upkeep.run(whole)
    assert counts(table) == {"a": {2}, "b": {2}}


@pytest.mark.parametrize(
    ("held_bytes", "fail_at"), [(0, 1), (0, 3), (0, 6), (2**20, 1), (2**20, 2)]
)
def test_a_store_that_fails_leaves_the_partition_as_it_was(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, held_bytes: int, fail_at: int
) -> None:
    monkeypatch.setattr(dealt_files, "_HELD_BYTES", held_bytes)
    table = filled(table_of(catalog, 3))
    before = content(table)
    plan = table.upkeep.plan_rescale(2, [{"day": "a"}])
    broken, _ = watched(table, fail_at=fail_at, counts=lambda call: call.name == "open_output")
    with pytest.raises(UnavailableError):
        broken.upkeep.run(plan)
    assert content(table) == before
    assert counts(table) == {"a": {3}, "b": {3}}
    assert_only_reachable_files(table)
    table.upkeep.run(plan)
    assert content(table) == before


def test_rows_that_get_lost_on_the_way_are_noticed(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(table_of(catalog, 1))
    before = content(table)

    class Forgetful(dealt_files.RollingWriter):
        def write(self, rows: Any) -> None:
            super().write(rows.slice(1))

    monkeypatch.setattr(dealt_files, "RollingWriter", Forgetful)
    with pytest.raises(CorruptionError, match="nothing was committed"):
        rescale(table, 2, [{"day": "a"}])
    monkeypatch.undo()
    assert content(table) == before
    assert_only_reachable_files(table)


@pytest.mark.parametrize(
    ("option", "counts"),
    [(option, []) for option in (-5, -2, -1, 0, 2**40)]
    + [(option, [4, 4]) for option in (-1, 0, 7)]
    + [(None, [3, 4]), (None, [0, 0]), (4, [4, 5])],
)
def test_a_plan_makes_one_number_of_buckets(
    catalog: Catalog, option: int | None, counts: list[int]
) -> None:
    plan = filled(table_of(catalog, 2)).upkeep.plan_rescale(4)
    tasks = json.loads(plan.to_json())["tasks"]
    changed = [task | {"bucket_count": count} for task, count in zip(tasks, counts, strict=False)]
    with pytest.raises(InvalidRequestError, match="plan again"):
        edited(plan, bucket_option=option, tasks=changed)


def test_a_plan_gives_no_table_another_kind_of_buckets(catalog: Catalog) -> None:
    table = new_table(catalog, **KEYED, options={"bucket": "-2"})
    plan = table.upkeep.plan_rescale(3)
    assert plan.bucket_option is None
    changed = edited(plan, bucket_option=3)
    run = table.upkeep.run
    assert_changes_nothing(table, lambda: run(changed), InvalidRequestError)
