"""A filter decodes the row groups that may hold matching rows, and no others."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.sql import parse_where
from tests.support.tables.builders import compact, events, new_table, rows


def _decoded(table: Table, where: Predicate | None) -> int:
    """The rows of all files that a reader with a filter decodes."""
    reader = FileRows(table.table_files, table.schema.fields, where=where)
    scan = table.scan()
    return sum(
        found.num_rows
        for split in scan.splits
        for file in split.files
        for found in reader.rows(split, file, batch_rows=100)
    )


@pytest.mark.mission("MT19")
@pytest.mark.parametrize(
    ("where", "most"),
    [
        ("id = 5000", 1),
        ("id BETWEEN 100 AND 300", 2),
        ("id IN (1, 9999)", 2),
        ("v = 'v5000'", 2),
        ("id > 20000", 0),
        ("day IS NULL", 10),
    ],
)
def test_a_filter_decodes_the_row_groups_that_may_match(
    catalog: Catalog, where: str, most: int
) -> None:
    table = new_table(catalog, options={"file.block-size": "30 kb"})
    table.write(rows(table, events(0, 10_000)))
    groups = 10
    total = _decoded(table, None)
    decoded = _decoded(table, parse_where(where, table.schema))
    assert total == 10_000
    assert decoded <= most * total / groups * 1.5
    expected = {
        "id = 5000": 1, "id BETWEEN 100 AND 300": 201, "id IN (1, 9999)": 2, "v = 'v5000'": 1,
    }  # fmt: skip
    assert table.read(where).num_rows == expected.get(where, 0)


def test_a_filter_on_whole_numbers_decodes_the_stripes_that_may_match(catalog: Catalog) -> None:
    table = new_table(catalog, options={"file.format": "orc", "orc.stripe.size": "64 kb"})
    table.write(rows(table, [*events(-60_000, 60_000), {"day": "b"}]))
    total = _decoded(table, None)
    assert total == 120_001
    for where, count, is_less in (
        ("id = -50000", 1, True), ("id BETWEEN 59000 AND 59010", 11, True), ("id > 70000", 0, True),
        ("id IN (-60000, 59999)", 2, False), ("id IS NULL", 1, False), ("v = 'v7'", 1, False),
        ("id < -60000 OR id > 59990", 9, True),
    ):  # fmt: skip
        assert table.read(where).num_rows == count, where
        decoded = _decoded(table, parse_where(where, table.schema))
        assert (decoded < total) is is_less, where


def test_rows_of_other_keys_alone_are_left_out_before_a_merge(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1", "file.block-size": "1 b"})
    table.write(rows(table, events(0, 10, v="old")))
    compact(table, full=True)
    table.write(rows(table, events(0, 10, v="new")))
    assert table.read("v = 'old3'").num_rows == 0
    assert table.read("v = 'new3'")["id"].to_pylist() == [3]
    assert table.read("id = 3 AND v = 'old3'").num_rows == 0
    assert table.read("id = 3")["v"].to_pylist() == ["new3"]
