"""Merging within bounds: windows are as large as asked for, whatever the rows are like."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.merge_read import key_windows, merged_rows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.running.task_memory import MergeMemory
from tests.support.tables.builders import new_table, rows


@pytest.mark.parametrize("text", ["x", "the same text over and over " * 40], ids=["short", "long"])
@pytest.mark.mission("FS16")
def test_rows_that_compress_well_do_not_swell_a_window(catalog: Catalog, text: str) -> None:
    table = new_table(
        catalog, {"id": "BIGINT", "v": "STRING"}, keys=["id"], options={"bucket": "1"}
    )
    for start in range(3):
        table.write(rows(table, [{"id": 3 * n + start, "v": text} for n in range(20_000)]))
    (entry, *others) = table.at().files()
    split = DataSplit(
        partition=entry.partition,
        bucket=0,
        files=tuple(each.file for each in (entry, *others)),
        merge=True,
    )
    window_bytes = 12 * 1024 * 1024
    source = FileRows(table.table_files, table.schema.fields)
    sizes = [
        (groups.rows.num_rows, groups.rows.nbytes)
        for groups in key_windows(source, split, memory=MergeMemory(window_bytes, 0))
    ]
    assert sum(count for count, _ in sizes) == 60_000
    # A run holds 4096 rows at least, and here all of it is in memory at once.
    assert max(size for _, size in sizes) <= max(window_bytes, 3 * 4096 * (len(text) + 100)) * 1.5
    if len(text) > 100:
        assert len(sizes) > 3


@pytest.mark.parametrize("window", [1, 20_000, 200_000])
@pytest.mark.parametrize("held", [0, 40_000, 400_000, 40_000_000])
@pytest.mark.mission("FS16")
@pytest.mark.sampled(3)
def test_runs_that_are_held_and_runs_that_stream_merge_alike(
    catalog: Catalog, window: int, held: int
) -> None:
    table = new_table(
        catalog, {"id": "BIGINT", "v": "STRING"}, keys=["id"], options={"bucket": "1"}
    )
    expected = {}
    for number, (step, count) in enumerate([(1, 3000), (3, 1000), (7, 300), (50, 60)]):
        new = [{"id": step * n, "v": f"{number}-{n}"} for n in range(count)]
        table.write(rows(table, new))
        expected |= {row["id"]: row["v"] for row in new}
    (split,) = table.scan().plan.splits
    source = FileRows(table.table_files, table.schema.fields)
    pieces = list(merged_rows(source, split, ["id", "v"], memory=MergeMemory(window, held)))
    found = [(row["id"], row["v"]) for piece in pieces for row in piece.to_pylist()]
    assert sorted(found) == sorted(expected.items())


@pytest.mark.mission("FS16")
def test_keys_that_nobody_asked_for_are_weighed_too(catalog: Catalog) -> None:
    table = new_table(
        catalog, {"id": "STRING", "v": "BIGINT"}, keys=["id"], options={"bucket": "1"}
    )
    for start in range(2):
        table.write(rows(table, [{"id": f"{n:0400}", "v": n} for n in range(start, 10_000)]))
    (split,) = table.scan().plan.splits
    source = FileRows(table.table_files, [table.schema.field("v")])
    window_bytes = 1024 * 1024
    sizes = [
        groups.rows.nbytes
        for groups in key_windows(source, split, memory=MergeMemory(window_bytes, 0))
    ]
    # A run holds 4096 rows at least where windows have room for as many.
    assert max(sizes) < 3 * window_bytes
