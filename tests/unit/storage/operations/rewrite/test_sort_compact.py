"""Sort compaction: what it leaves in order, and the rows it never touches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, ChangeType, LocalEngine, RenameColumn, Table
from lakewright.storage.errors import CorruptionError, InvalidRequestError, StalePlan
from lakewright.storage.operations.rewrite import compact_append
from lakewright.storage.operations.rewrite.sort_compact import SortCompactionPlan, run_sort_compact
from lakewright.storage.spec.manifest import FileSource
from lakewright.storage.spec.snapshot import CommitKind
from lakewright.storage.sql.where import parse_where
from tests.support.tables.builders import compact, content, events, new_table, rows, values_of
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.meddling import Meddling

POINTS = {"x": "INT", "y": "DOUBLE", "s": "STRING"}


def points(table: Table, seed: int, count: int = 2000) -> pa.Table:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 1000, count), rng.normal(size=count)
    drawn = zip(x.tolist(), y.tolist(), strict=True)
    return rows(
        table,
        [
            {"x": None if a % 97 == 0 else a, "y": b, "s": f"s{a * 7919 % 1000:04d}"}
            for a, b in drawn
        ],
    )


def stored(table: Table, column: str) -> list[list[Any]]:
    """Values of a column file by file, in the order of the files' names."""
    found = []
    for entry in sorted(table.at().files(), key=lambda each: each.file.file_name):
        path = table.table_files.data_file_path(entry.place, entry.file)
        with table.table_files.fs.open_input(path) as source:
            found.append(pq.read_table(source, columns=[column]).column(column).to_pylist())
    return found


@pytest.mark.mission("FS7", "FS19")
def test_rows_lie_in_order_over_all_files(any_catalog: Catalog) -> None:
    table = new_table(any_catalog, POINTS, options={"target-file-size": "10 kb"})
    for seed in range(3):
        table.write(points(table, seed))
    before = content(table)
    plan = table.upkeep.plan_sort_compact(["x", "y"])
    result = table.upkeep.run(plan)
    assert result.rows_before == result.rows_after == 6000
    assert result.snapshot is not None
    assert result.snapshot.commit_kind is CommitKind.COMPACT
    assert result.snapshot.delta_record_count == 0
    assert content(table) == before
    assert {entry.file.file_source for entry in table.at().files()} == {FileSource.COMPACT}
    files = stored(table, "x")
    assert len(files) > 3
    joined = [value for each in sorted(files, key=lambda each: each[-1]) for value in each]
    assert all((a is None) or (b is not None and a <= b) for a, b in pairwise(joined))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", ["order", "zorder", "hilbert"])
@pytest.mark.mission("FS7", "FS19")
def test_more_than_fits_in_memory_is_sorted_part_by_part(catalog: Catalog, order: str) -> None:
    by = ["s"] if order == "order" else ["x", "s"]
    tables = []
    for name in ("db.whole", "db.parts"):
        table = new_table(catalog, POINTS, name=name)
        for seed in range(4):
            table.write(points(table, seed, 5000))
        tables.append(table)
    whole, parts = tables
    whole.upkeep.run(whole.upkeep.plan_sort_compact(by, order=order))
    plan = parts.upkeep.plan_sort_compact(by, order=order)
    # Ten times what a part may hold.
    size = parts.read().nbytes // 10
    run_sort_compact(parts.table_files, plan, LocalEngine(), part_bytes=size)
    assert stored(parts, "s") == stored(whole, "s")
    assert content(parts) == content(whole)


@pytest.mark.mission("FS7", "FS19")
def test_a_curve_lets_filters_on_either_column_skip_files(catalog: Catalog) -> None:
    read: dict[str, list[int]] = {}
    for order in ("order", "zorder"):
        name = f"db.by_{order}"
        table = new_table(catalog, POINTS, name=name, options={"target-file-size": "10 kb"})
        table.write(points(table, 1, 20_000))
        assert table.scan(parse_where("x = 500", table.schema)).plan.files_read > 10
        table.upkeep.run(table.upkeep.plan_sort_compact(["x", "y"], order=order))
        live = len(table.at().files())
        read[order] = [
            table.scan(parse_where(text, table.schema)).plan.files_read * 100 // live
            for text in ("x >= 500 AND x < 510", "y > 0.5 AND y < 0.52")
        ]
    # Percent of the files: by order the second column helps nothing, along a curve both do.
    assert read["order"][0] < 20
    assert read["order"][1] > 80
    assert max(read["zorder"]) < 60


@pytest.mark.mission("FS7")
def test_rows_appended_meanwhile_stay(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, events(5, 9)))
    table.write(rows(table, events(0, 5)))
    plan = table.upkeep.plan_sort_compact(["id"])
    table.write(rows(table, events(100, 103)))
    again = SortCompactionPlan.from_json(plan.to_json())
    assert again == plan
    result = table.upkeep.run(again)
    assert (result.files_before, result.files_after) == (2, 1)
    assert values_of(table, "id") == [*range(9), 100, 101, 102]
    assert sorted(map(len, stored(table, "id"))) == [3, 9]


@pytest.mark.mission("FS7")
def test_rows_appended_while_it_runs_stay(catalog: Catalog) -> None:
    """A writer commits between the sorting and the commit."""
    table = new_table(catalog)
    table.write(rows(table, events(5, 9)))
    new = rows(table, events(100, 103))
    plan = table.upkeep.plan_sort_compact(["id"])
    result = table.upkeep.run(plan, Meddling(lambda: table.write(new)))
    assert result.dropped_tasks == 0
    assert values_of(table, "id") == [5, 6, 7, 8, 100, 101, 102]


def test_a_partition_whose_files_went_is_left_out(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    for day in ("a", "b"):
        for first in (4, 0):
            table.write(rows(table, events(first, first + 4, day=day)))
    plan = table.upkeep.plan_sort_compact(["id"], partitions=[{"day": "a"}])
    assert len(plan.tasks) == 1
    plan = table.upkeep.plan_sort_compact(["id"])
    compact(table, [{"day": "a"}], full=True)
    result = table.upkeep.run(plan)
    assert (result.dropped_tasks, result.files_before) == (1, 2)
    compact(table, full=True)
    with pytest.raises(StalePlan, match="plan again"):
        table.upkeep.run(plan)
    assert_only_reachable_files(table)


def test_a_sort_that_would_lose_a_row_commits_nothing(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forgetful(compact_append.RollingWriter):
        def write(self, new: Any) -> None:
            super().write(new.slice(1))

    table = new_table(catalog)
    table.write(rows(table, events(0, 9)))
    monkeypatch.setattr(compact_append, "RollingWriter", Forgetful)
    with pytest.raises(CorruptionError, match="hold 8 rows, and 9 were expected"):
        table.upkeep.run(table.upkeep.plan_sort_compact(["id"]))
    assert len(table.history.snapshots()) == 1
    assert_only_reachable_files(table)


def test_what_cannot_be_sorted_is_refused(catalog: Catalog) -> None:
    keyed = new_table(catalog, keys=["id"], name="db.keyed", options={"bucket": "1"})
    with pytest.raises(InvalidRequestError, match="lie in the order of its key"):
        keyed.upkeep.plan_sort_compact(["id"])
    bucketed = new_table(catalog, name="db.bucketed", options={"bucket": "1", "bucket-key": "id"})
    with pytest.raises(InvalidRequestError, match="in which they came to a bucket"):
        bucketed.upkeep.plan_sort_compact(["id"])
    table = new_table(catalog, {"id": "INT", "tags": "ARRAY<INT>"}, name="db.plain")
    for by, message in (
        ([], "the columns to sort"),
        (["id", "id"], "each once"),
        (["nope"], "'nope' is not a column of db.plain; there are id, tags"),
        (["tags"], "cannot be sorted by tags, which is ARRAY<INT>"),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            table.upkeep.plan_sort_compact(by)
    with pytest.raises(InvalidRequestError, match="'z' is not one of order, zorder, hilbert"):
        table.upkeep.plan_sort_compact(["id"], order="z")


def test_an_empty_table_has_nothing_to_sort(catalog: Catalog) -> None:
    table = new_table(catalog)
    plan = table.upkeep.plan_sort_compact(["id"])
    assert plan.tasks == ()
    assert table.upkeep.run(plan).snapshot is None


def test_a_column_of_nulls_alone_is_no_obstacle(catalog: Catalog) -> None:
    table = new_table(catalog, POINTS)
    table.write(rows(table, [{"x": 2}, {"x": 1}, {}]))
    for order in ("order", "zorder", "hilbert"):
        table.upkeep.run(table.upkeep.plan_sort_compact(["s", "x"], order=order))
        assert values_of(table, "x") == [1, 2, None]
        if order != "hilbert":
            assert stored(table, "x") == [[None, 1, 2]]


@pytest.mark.parametrize("order", ["order", "zorder", "hilbert"])
def test_only_partitions_with_files_since_their_last_sorting_are_sorted(
    catalog: Catalog, order: str
) -> None:
    table = new_table(catalog, partitions=["day"], options={"target-file-size": "4 kb"})

    def due(by: str = "id") -> list[str]:
        plan = table.upkeep.plan_sort_compact([by], order=order)
        assert all("no file came since" in each.reason for each in plan.skipped)
        return sorted(str(task.partition["day"]) for task in plan.tasks)

    for day in "ab":
        table.write(rows(table, events(0, 400, day=day)))
    assert due() == ["a", "b"]
    table.upkeep.run(table.upkeep.plan_sort_compact(["id"], order=order))
    assert due() == []
    assert (due("v"), len(table.at().files())) == (["a", "b"], 2)
    table.write(rows(table, events(0, 4, day="b")))
    assert due() == ["b"]
    table.upkeep.run(table.upkeep.plan_sort_compact(["id"], order=order))
    assert due() == []


def test_rows_joined_or_sorted_otherwise_since_are_sorted_again(catalog: Catalog) -> None:
    table = new_table(catalog, options={"lakewright.cast-mode": "explicit"})
    table.write(rows(table, events(0, 9)))

    def is_sorted(by: str) -> bool:
        return not table.upkeep.plan_sort_compact([by]).tasks

    table.upkeep.run(table.upkeep.plan_sort_compact(["id"]))
    table.upkeep.run(table.upkeep.plan_sort_compact(["v"]))
    assert (is_sorted("id"), is_sorted("v")) == (False, True)
    table.write(rows(table, events(0, 9)))
    table.upkeep.compact(full=True)
    assert not is_sorted("v")
    table.upkeep.run(table.upkeep.plan_sort_compact(["v"]))
    table = table.alter(RenameColumn("v", "w"))
    assert is_sorted("w")
    table.upkeep.run(table.upkeep.plan_sort_compact(["id"]))
    table = table.alter(ChangeType("id", "STRING"))
    # Numbers lie in another order than their texts.
    assert not is_sorted("id")
