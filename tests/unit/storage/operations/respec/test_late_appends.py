"""Late files of append tables are brought to the present keys in one snapshot, without a schema.

A client that opened the table before its keys changed may go on for days, so what one `respec`
costs, it costs at each look of the upkeep.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.state.live_files import index_entries, live_entries
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import (
    Call,
    Crashed,
    Fault,
    WatchedFiles,
    looked_at,
    puts_snapshot,
)
from tests.support.tables.builders import content, expire, new_table, remove_orphans, rows
from tests.support.tables.deleted_rows import delete_first_rows
from tests.support.tables.invariants import assert_nothing_missing, assert_only_reachable_files
from tests.support.tables.late_commits import as_other_clients_do, commit_late

pytestmark = pytest.mark.mission("PT1", "PT4")

COLUMNS = {"dt": "STRING", "hh": "INT", "o": "STRING", "v": "INT"}
CHANGES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("dt",), ("dt", "hh")),
    (("dt",), ("o",)),
    (("dt", "hh"), ("dt", "o")),
    (("dt", "hh"), ("dt",)),
]
OPTIONS: dict[str, dict[str, str]] = {"unaware": {}, "buckets": {"bucket": "2", "bucket-key": "v"}}


def late_rows(number: int = 0) -> list[dict[str, object]]:
    """Rows of one day, three hours and two origins, and one of nulls."""
    known = [
        {"dt": "late", "hh": hour, "o": f"o{hour % 2}", "v": 10 * number + hour}
        for hour in (1, 2, 3)
    ]
    return [*known, {"dt": "late", "hh": None, "o": None, "v": 10 * number}]


def changed(
    catalog: Catalog, old: tuple[str, ...], new: tuple[str, ...], **options: str
) -> tuple[Table, Table]:
    """A table with other keys than before, and as a client knows it that opened it before."""
    opened = new_table(catalog, COLUMNS, partitions=old, options=options)
    for day in "ab":
        opened.write(rows(opened, [{"dt": day, "hh": 1, "o": "o1", "v": each} for each in (1, 2)]))
    opened.upkeep.respec(new)
    return catalog.table(opened.name), opened


def schema_ids(table: Table) -> list[int]:
    return table.table_files.schemas.ids()


def last_id(table: Table) -> int:
    latest = table.history.latest_snapshot()
    assert latest is not None
    return latest.id


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize(("old", "new"), CHANGES, ids=str)
def test_each_look_costs_one_snapshot_and_no_schema(
    catalog: Catalog, old: tuple[str, ...], new: tuple[str, ...], kind: str
) -> None:
    table, opened = changed(catalog, old, new, **OPTIONS[kind])
    schemas, due = schema_ids(table), content(table)
    for number in range(3):
        commit_late(opened, opened.stage(rows(opened, late_rows(number))))
        before = last_id(table)
        due = sorted([*due, *(json.dumps(each, sort_keys=True) for each in late_rows(number))])
        assert content(table) == due
        plan = table.upkeep.plan_respec(new)
        assert not plan.steps
        assert not plan.changes_nothing
        result = table.upkeep.respec(new)
        assert list(result.snapshot_ids) == [before + 1] == [last_id(table)]
        assert schema_ids(table) == schemas
        table = catalog.table(table.name)
        assert content(table) == due
        assert table.upkeep.plan_respec(new).changes_nothing
        latest = table.history.latest_snapshot()
        assert latest is not None
        assert latest.commit_kind is CommitKind.COMPACT
        assert latest.total_record_count == len(due)
    for where in ("hh = 2", "o = 'o0'", "o IS NULL", "dt = 'late' AND hh IS NULL"):
        assert table.read(where).num_rows == 3, where
    table.write(rows(table, [{"dt": "c", "hh": 1, "o": "o1", "v": 1}]))
    expire(table)
    assert table.read("dt = 'late'").num_rows == 12
    remove_orphans(table)
    assert_only_reachable_files(table)


def test_a_file_with_several_values_lies_in_its_present_partitions_afterwards(
    catalog: Catalog,
) -> None:
    table, opened = changed(catalog, ("dt",), ("dt", "hh"))
    commit_late(opened, opened.stage(rows(opened, late_rows())))
    result = table.upkeep.respec(("dt", "hh"))
    assert (result.files_split, result.files_written, result.rows_written) == (1, 4, 4)
    table = catalog.table(table.name)
    late = [each for each in table.at().files() if each.file.row_count == 1]
    folders = {table.table_files.data_file_path(e.place, e.file).split("/")[-4:-2][1] for e in late}
    assert {each.split("=")[0] for each in folders} == {"hh"}
    assert len(late) == len(folders) == 4
    assert all(each.file.external_path is None for each in late)


def test_deleted_rows_of_a_late_file_stay_deleted(catalog: Catalog) -> None:
    table, opened = changed(catalog, ("dt",), ("dt", "hh"), **{"deletion-vectors.enabled": "true"})
    commit_late(opened, opened.stage(rows(opened, late_rows())))
    with as_other_clients_do():
        delete_first_rows(opened)
    due = content(catalog.table(table.name))
    assert len(due) == 2 + 3
    table.upkeep.respec(("dt", "hh"))
    table = catalog.table(table.name)
    assert content(table) == due
    files = table.table_files
    latest = files.snapshots.latest()
    names = {each.file.file_name for each in live_entries(files, latest)}
    marked = [
        v.data_file for e in index_entries(files, latest) for v in e.file.deletion_vectors or ()
    ]
    assert len(marked) == 2
    assert names.issuperset(marked)
    expire(table)
    remove_orphans(table)
    assert_only_reachable_files(table)


def test_rows_with_the_columns_of_long_ago_are_written_anew(catalog: Catalog) -> None:
    """No schema with the present keys has these columns, so other clients would misread them."""
    opened = new_table(catalog, COLUMNS, partitions=("dt",))
    opened.write(rows(opened, [{"dt": "a", "hh": 1, "o": "o1", "v": 1}]))
    table = opened.alter(AddColumn("w", "INT"))
    table.write(rows(table, [{"dt": "a", "hh": 1, "o": "o1", "v": 2, "w": 3}]))
    table.upkeep.compact(full=True)
    table.upkeep.respec(("o",))
    table = catalog.table(table.name)
    given = [each for each in late_rows() if each["o"] == "o1"]
    commit_late(opened, opened.stage(rows(opened, given)))
    due = content(table)
    schemas = schema_ids(table)
    assert table.upkeep.plan_respec(("o",)).split.files == 1
    table.upkeep.respec(("o",))
    table = catalog.table(table.name)
    assert content(table) == due
    assert schema_ids(table) == schemas
    used = {each.file.schema_id for each in table.at().files()}
    keys = {table.table_files.at_schema(each).schema.partition_keys for each in used}
    assert ("dt",) not in keys


def test_late_files_that_come_meanwhile_are_restated_by_the_same_run(catalog: Catalog) -> None:
    table, opened = changed(catalog, ("dt",), ("dt", "hh"))
    commit_late(opened, opened.stage(rows(opened, late_rows())))
    schemas, more = schema_ids(table), [1, 2]

    def look(call: Call) -> None:
        if call.name == "close" and "hh=" in call.path and more:
            number = more.pop()
            commit_late(opened, opened.stage(rows(opened, late_rows(number))))

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, after=looked_at(look)))
    watched.table(table.name).upkeep.respec(("dt", "hh"))
    assert not more
    table = catalog.table(table.name)
    assert table.upkeep.plan_respec(("dt", "hh")).changes_nothing
    assert len(content(table)) == 4 + 12
    assert schema_ids(table) == schemas
    assert_only_reachable_files(table)


def test_a_late_file_that_its_client_replaces_meanwhile_leaves_nothing(catalog: Catalog) -> None:
    table, opened = changed(catalog, ("dt",), ("dt", "hh"))
    commit_late(opened, opened.stage(rows(opened, late_rows())))
    over = opened.stage(rows(opened, late_rows(1)), mode="overwrite", partition={"dt": "late"})
    waiting = [over]

    def look(call: Call) -> None:
        if puts_snapshot(call) and waiting:
            commit_late(opened, waiting.pop())

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, before=looked_at(look)))
    watched.table(table.name).upkeep.respec(("dt", "hh"))
    assert not waiting
    table = catalog.table(table.name)
    table.upkeep.respec(("dt", "hh"))
    table = catalog.table(table.name)
    found = [each["v"] for each in table.read("dt = 'late'").to_pylist()]
    assert sorted(found) == [10, 11, 12, 13]
    remove_orphans(table)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda each: each.value)
@pytest.mark.sampled(4)
def test_a_run_that_stops_at_any_call_loses_and_doubles_no_row(
    catalog: Catalog, fault: Fault
) -> None:
    stopped = 0
    for fail_at in range(1, 100):
        place = replace(catalog, root=f"{catalog.root}/{fail_at}")
        table, opened = changed(place, ("dt",), ("dt", "hh"))
        commit_late(opened, opened.stage(rows(opened, late_rows())))
        due, schemas = content(table), schema_ids(table)
        fs = WatchedFiles(place.fs, fail_at=fail_at, fault=fault, counts=_counts(fault))
        with suppress(Crashed, StorageError):
            replace(place, fs=fs).table(table.name).upkeep.respec(("dt", "hh"))
        told = f"call {fail_at}: {fs.failed}"
        now = place.table(table.name)
        assert content(now) == due, told
        assert_nothing_missing(now)
        now.upkeep.respec(("dt", "hh"))
        now = place.table(table.name)
        assert content(now) == due, told
        assert now.upkeep.plan_respec(("dt", "hh")).changes_nothing, told
        assert schema_ids(now) == schemas, told
        remove_orphans(now)
        assert_only_reachable_files(now)
        if fs.failed is None:
            break
        stopped += 1
    assert stopped > (2 if fault.is_halfway else 4)


def _counts(fault: Fault) -> Callable[[Call], bool]:
    def counts(call: Call) -> bool:
        if not call.changes or call.name in ("open_output", "close"):
            return False
        return call.can_be_half_done or not fault.is_halfway

    return counts
