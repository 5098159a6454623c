"""Changing partition keys of primary-key tables: rows, history and writers across the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, SetOption, Table
from lakewright.storage.errors import InvalidRequestError, SchemaMoved, UnsupportedError
from lakewright.storage.operations.commit.commit_loop import end_change_of_keys
from lakewright.storage.operations.state.keys_of_files import is_bridged_row
from lakewright.storage.operations.write import dealt_files
from tests.support.stores.watched_files import Call, WatchedFiles, looked_at
from tests.support.tables.builders import compact, content, expire, new_table, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files, assert_readable_history

pytestmark = pytest.mark.mission("PT1")

COLUMNS = {
    "dt": "STRING NOT NULL",
    "hh": "INT NOT NULL",
    "id": "BIGINT NOT NULL",
    "v": "STRING",
    "w": "INT",
}
KEY = ["dt", "hh", "id"]


def event(day: str, hour: int, number: int, **values: Any) -> dict[str, Any]:
    return {"dt": day, "hh": hour, "id": number, **values}


def by_day(
    catalog: Catalog,
    partitions: Sequence[str] = ("dt",),
    key: Sequence[str] = KEY,
    buckets: int = 3,
    **options: str,
) -> Table:
    """Two days of two hours; some rows are replaced, and one of each hour is deleted."""
    named = {name.replace("_", "-"): value for name, value in options.items()}
    table = new_table(
        catalog, COLUMNS, partitions=partitions, keys=key, options={"bucket": str(buckets), **named}
    )
    hours = [(day, hour) for day in "ab" for hour in (1, 2)]
    table.write(rows(table, [event(*each, n, v="old", w=1) for each in hours for n in range(6)]))
    table.write(rows(table, [event(*each, n, v="new", w=2) for each in hours for n in (2, 3)]))
    if "merge-engine" not in named:
        gone = [event(*each, 5) for each in hours]
        table.write(rows(table, gone, ["-D"] * len(gone)))
    return table


def respec(catalog: Catalog, table: Table, *keys: str) -> Table:
    table.upkeep.respec(keys)
    return catalog.table(table.name)


def found(table: Table, day: str, hour: int, number: int) -> list[dict[str, Any]]:
    keys = {"dt": [day], "hh": pa.array([hour], pa.int32()), "id": [number]}
    return list(table.lookup(pa.table(keys)).to_pylist())


WAYS = [[("dt", "hh")], [()], [("hh",)], [("dt", "hh"), ("dt",), (), ("hh", "dt"), ("dt",)]]


@pytest.mark.sampled(each="held_bytes")
@pytest.mark.mission("PT2", "PT3", "PT4")
@pytest.mark.parametrize("key", [KEY, ["id", "hh", "dt"]], ids=["dates first", "dates last"])
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("held_bytes", [0, 2000, 2**20])
def test_rows_and_history_stay_and_later_rows_replace_those_of_before(
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    way: Sequence[tuple[str, ...]],
    key: list[str],
    held_bytes: int,
) -> None:
    """Runs are files, held and then files, or held."""
    monkeypatch.setattr(dealt_files, "_HELD_BYTES", held_bytes)
    table = by_day(catalog, key=key)
    due = content(table)
    old = {each.id: content(table.at(snapshot=each.id)) for each in table.history.snapshots()}
    for number, keys in enumerate(way):
        table = respec(catalog, table, *keys)
        assert table.schema.partition_keys == keys
        assert content(table) == due
        assert table.upkeep.plan_respec(keys).changes_nothing
        assert sum(each.row_count for each in table.at().partitions()) == len(due)
        assert not any(entry.file.external_path for entry in table.at().files())
        assert_readable_history(table, mixed=False)
        table.write(rows(table, [event("a", 1, 2, v=f"after {number}")]))
        assert [each["v"] for each in found(table, "a", 1, 2)] == [f"after {number}"]
        assert len(content(table)) == len(due)
        due = content(table)
        compact(table, full=True)
        assert content(table) == due
        assert_only_reachable_files(table)
    for snapshot_id, then in old.items():
        assert content(table.at(snapshot=snapshot_id)) == then
    expire(table)
    assert content(table) == due
    assert_only_reachable_files(table)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keys", [("dt", "hh"), (), ("hh",)], ids=str)
def test_our_readers_see_the_same_rows_at_every_moment(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    table = by_day(catalog)
    due = content(table)
    bridged = 0

    def look(call: Call) -> None:
        nonlocal bridged
        if call.changes and ("/snapshot/snapshot-" in call.path or "/schema/schema-" in call.path):
            now = catalog.table(table.name)
            assert content(now) == due
            assert now.read("dt = 'a' AND hh = 2 AND id = 3").column("v").to_pylist() == ["new"]
            assert now.read("hh = 1").num_rows == now.read("dt = 'b'").num_rows == 10
            assert now.read("v = 'new'").num_rows == 8
            is_bridged = any(
                is_bridged_row(now.table_files, entry.partition, entry.file.schema_id)
                for entry in now.at().files()
            )
            bridged += is_bridged
            if is_bridged:
                with pytest.raises(SchemaMoved, match="are changing"):
                    found(now, "a", 1, 2)
            else:
                assert len(found(now, "a", 1, 2)) == 1

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, after=looked_at(look)))
    watched.table(table.name).upkeep.respec(keys)
    assert bridged >= 3
    assert content(catalog.table(table.name)) == due


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keys", [("dt", "hh"), ("hh",), ()], ids=str)
def test_a_rollback_takes_it_back(catalog: Catalog, keys: tuple[str, ...]) -> None:
    table = by_day(catalog)
    due = content(table)
    last = table.history.snapshots()[-1].id
    table = respec(catalog, table, *keys)
    table.write(rows(table, [event("z", 8, 9)]))
    table.history.rollback(snapshot=last, grace_ms=0)
    table = catalog.table(table.name)
    assert table.schema.partition_keys == ("dt",)
    assert content(table) == due
    table.write(rows(table, [event("a", 1, 2, v="later")]))
    assert len(content(table)) == len(due)
    remove_orphans(table)
    assert_only_reachable_files(table)


ENGINES = [
    {"merge_engine": "partial-update"},
    {"merge_engine": "aggregation", "fields.w.aggregate-function": "sum"},
    {"sequence.field": "w"},
    {"changelog_producer": "input"},
    {"data-file.thin-mode": "true"},
    {"file.format": "orc"},
    {"bucket-key": "id"},
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", ENGINES, ids=str)
@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=["finer", "coarser"])
def test_what_later_rows_make_of_rows_of_before_stays(
    catalog: Catalog, keys: tuple[str, ...], options: dict[str, str]
) -> None:
    """The same writes with and without a change of keys between them give the same rows."""
    later = [event("a", 1, 2, w=1), event("b", 2, 3, v="x", w=9), event("c", 1, 1, v="y")]
    made = []
    for number in range(2):
        place = replace(catalog, root=f"{catalog.root}/{number}")
        table = by_day(place, **options)
        if number:
            table = respec(place, table, *keys)
        table.write(rows(table, later))
        made.append(content(table))
        compact(table, full=True)
        assert content(table) == made[-1]
        assert_only_reachable_files(table)
    assert made[0] == made[1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "options",
    [
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "first-row"},
        {"changelog-producer": "lookup"},
        {"changelog-producer": "full-compaction"},
    ],
    ids=str,
)
def test_tables_whose_rows_wait_for_a_compaction_are_compacted_first(
    catalog: Catalog, options: dict[str, str]
) -> None:
    table = by_day(catalog, **options)
    with pytest.raises(InvalidRequestError, match="compact the table fully first"):
        table.upkeep.plan_respec(["dt", "hh"])
    compact(table, full=True)
    due = content(table)
    assert due
    for keys in (("dt", "hh"), ("dt",)):
        table = respec(catalog, table, *keys)
        assert content(table) == due
    table.write(rows(table, [event("a", 1, 2, v="later", w=5), event("a", 1, 9)]))
    compact(table, full=True)
    assert len(content(table)) == len(due) + 1
    assert_only_reachable_files(table)
    last = by_day(replace(catalog, root=f"{catalog.root}/last"), key=["id", "hh", "dt"], **options)
    compact(last, full=True)
    with pytest.raises(UnsupportedError, match="does not come first in its primary key"):
        last.upkeep.plan_respec([])


def test_a_write_between_staging_and_swap_is_written_anew(catalog: Catalog) -> None:
    table = by_day(catalog)
    meanwhile = 0

    def look(call: Call) -> None:
        nonlocal meanwhile
        if call.changes and "/hh=2/bucket-" in call.path and not meanwhile:
            meanwhile += 1
            catalog.table(table.name).write(rows(table, [event("b", 1, 2, v="meanwhile")]))

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, after=looked_at(look)))
    watched.table(table.name).upkeep.respec(["dt", "hh"])
    now = catalog.table(table.name)
    assert meanwhile
    assert len(content(now)) == 20
    assert [each["v"] for each in found(now, "b", 1, 2)] == ["meanwhile"]
    assert_only_reachable_files(now)


@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=str)
def test_a_process_that_stood_still_creates_no_schema_over_files_that_were_restored(
    catalog: Catalog, keys: tuple[str, ...]
) -> None:
    table = by_day(catalog)
    due = content(table)
    others = 0

    def look(call: Call) -> None:
        nonlocal others
        now = catalog.table(table.name)
        entries = now.at().files()
        if call.changes and "/schema/schema-" in call.path and not others:
            if not all(
                is_bridged_row(now.table_files, each.partition, each.file.schema_id)
                for each in entries
            ):
                return
            others += 1
            end_change_of_keys(now.table_files)
            catalog.table(table.name).write(rows(table, [event("a", 1, 77)]))
        if others:
            read = content(catalog.table(table.name))
            assert len(read) - len(due) in (0, 1)

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, before=looked_at(look)))
    watched.table(table.name).upkeep.respec(keys)
    # It planned again, from what the others left.
    assert others == 1
    now = catalog.table(table.name)
    assert now.schema.partition_keys == keys
    assert len(content(now)) == len(due) + 1
    assert now.upkeep.plan_respec(keys).changes_nothing
    # No commit names the removal of what the first swap wrote.
    expire(now)
    remove_orphans(now)
    assert_only_reachable_files(now)


def test_a_write_staged_before_it_is_refused(catalog: Catalog) -> None:
    table = by_day(catalog)
    staged = table.stage(rows(table, [event("a", 1, 1)]))
    now = respec(catalog, table, "dt", "hh")
    for opened in (table, now):
        with pytest.raises(SchemaMoved, match="keys"):
            opened.commit(staged)
    now.abort(staged)
    assert_only_reachable_files(now)


@pytest.mark.parametrize("buckets", [3, -1], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=["finer", "coarser"])
def test_who_opened_the_table_before_is_told_to_open_it_again(
    catalog: Catalog, keys: tuple[str, ...], buckets: int
) -> None:
    table = by_day(catalog, buckets=buckets)
    respec(catalog, table, *keys)
    for use in (
        table.read,
        lambda: table.read("dt = 'a' AND v = 'new'"),
        # Its partition and bucket are others now; an empty answer would be wrong.
        lambda: found(table, "a", 1, 2),
        lambda: table.write(rows(table, [event("a", 1, 1)])),
        lambda: table.upkeep.compact(full=True),
    ):
        with pytest.raises(SchemaMoved, match="open the table"):
            use()


def test_a_plan_tells_what_is_written_anew(catalog: Catalog) -> None:
    plan = by_day(catalog).upkeep.plan_respec(["dt", "hh"])
    assert (plan.restate.files, plan.split.files, plan.steps) == (0, 14, (("dt", "hh"),))
    assert (plan.partitions_before, plan.partitions_after, plan.files_after) == (2, 4, 12)
    assert plan.becomes[0].becomes == ("dt=a/hh=1", "dt=a/hh=2")


@pytest.mark.parametrize(
    ("table", "keys", "named"),
    [
        ({}, ["v"], r"'v' is not in the primary key \(dt, hh, id\)"),
        ({}, KEY, "would be the whole primary key"),
        ({"bucket": "-2"}, ["dt", "hh"], "postpone"),
        ({"bucket-key": "hh"}, ["dt", "hh"], "bucket-key"),
    ],
)
def test_keys_that_a_primary_key_does_not_allow_are_refused(
    catalog: Catalog, table: dict[str, str], keys: list[str], named: str
) -> None:
    made = new_table(catalog, COLUMNS, partitions=["dt"], keys=KEY, options={"bucket": "1"} | table)
    with pytest.raises((InvalidRequestError, UnsupportedError), match=named):
        made.upkeep.plan_respec(keys)
    with pytest.raises(
        (InvalidRequestError, UnsupportedError), match=r"no part|rewritten|" + named
    ):
        made.upkeep.plan_respec(keys, [{}])


def test_an_empty_table_gets_keys_by_its_schema_alone(catalog: Catalog) -> None:
    table = new_table(catalog, COLUMNS, partitions=["dt"], keys=KEY, options={"bucket": "1"})
    for keys in (("dt", "hh"), ()):
        table = respec(catalog, table, *keys)
        assert table.schema.partition_keys == keys
    assert table.history.snapshots() == ()


def test_files_of_another_prefix_hinder_no_change(catalog: Catalog) -> None:
    table = by_day(catalog).alter(SetOption("data-file.prefix", "ours-"))
    due = content(table)
    assert content(respec(catalog, table)) == due
