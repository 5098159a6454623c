"""Merging within bounds: windows are as large as asked for, whatever the rows are like."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog
from lakewright.storage.operations.file_rows import FileRows
from lakewright.storage.operations.merge_read import key_windows
from lakewright.storage.operations.scan import DataSplit
from lakewright.storage.operations.task_memory import MergeMemory
from tests.support.builders import new_table, rows


@pytest.mark.parametrize("text", ["x", "the same text over and over " * 40], ids=["short", "long"])
@pytest.mark.mission("FS16")
def test_rows_that_compress_well_do_not_swell_a_window(catalog: Catalog, text: str) -> None:
    table = new_table(
        catalog, {"id": "BIGINT", "v": "STRING"}, keys=["id"], options={"bucket": "1"}
    )
    for start in range(3):
        table.write(rows(table, [{"id": 3 * n + start, "v": text} for n in range(20_000)]))
    (entry, *others) = table.data_files()
    split = DataSplit(
        partition=entry.partition,
        bucket=0,
        files=tuple(each.file for each in (entry, *others)),
        merge=True,
    )
    window_bytes = 12 * 1024 * 1024
    source = FileRows(table.files, table.schema.fields)
    sizes = [
        (groups.rows.num_rows, groups.rows.nbytes)
        for groups in key_windows(source, split, memory=MergeMemory(window_bytes, 0))
    ]
    assert sum(count for count, _ in sizes) == 60_000
    # A run holds 4096 rows at least, and here all of it is in memory at once.
    assert max(size for _, size in sizes) <= max(window_bytes, 3 * 4096 * (len(text) + 100)) * 1.5
    if len(text) > 100:
        assert len(sizes) > 3
