"""What is said of copied entries is what is said of the entries as objects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lakewright.storage import Catalog
from lakewright.storage.codec.binary_row import encode_row
from lakewright.storage.codec.manifest_columns import ObjectEntries
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.copied_manifests import (
    by_keys,
    contents_of,
    sorted_by_partition,
)
from lakewright.storage.spec.data_types import STRING
from lakewright.storage.spec.manifest import DataFileMeta, FileKind, ManifestContents, ManifestEntry
from tests.support.tables.builders import new_table


def entry(number: int, schema_id: int, *partition: str | None) -> ManifestEntry:
    file = DataFileMeta(
        file_name=f"data-{number}.parquet",
        file_size=1,
        row_count=1,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=schema_id,
        level=number % 3,
    )
    return ManifestEntry(
        kind=FileKind(number % 2),
        partition=encode_row(partition, [STRING] * len(partition)),
        bucket=7 - number,
        total_buckets=-1,
        file=file,
    )


# Of the schema with one key, and of that with two, whose rows one of the former was restated with.
ENTRIES = (
    entry(0, 0, "b"),
    entry(1, 1, "b", "x"),
    entry(2, 0, "b", "x"),
    entry(3, 0, None),
    entry(4, 1, "a", "y"),
    entry(5, 0, "b"),
    entry(6, 1, "b", None),
    entry(7, 1, "b", "x"),
)


@pytest.fixture
def files(catalog: Catalog) -> TableFiles:
    """A table whose key was `dt`, and is `dt, region`."""
    table = new_table(catalog, {"dt": "STRING", "region": "STRING", "v": "INT"}, partitions=["dt"])
    later = replace(table.schema, id=1, partition_keys=("dt", "region"))
    assert table.table_files.schemas.put_schema(later)
    return catalog.table(table.name).table_files


ROWS = np.array([0, 1, 2, 3, 4, 5, 7])


def test_entries_are_divided_by_the_keys_that_their_rows_have(files: TableFiles) -> None:
    found = by_keys(files, ObjectEntries(ENTRIES), ROWS)
    expected = files.partitions.by_keys([ENTRIES[row] for row in ROWS])
    assert len(expected) == 2
    assert [(keys, [ENTRIES[row] for row in rows]) for keys, rows in found] == expected


def test_entries_are_sorted_by_partition_and_bucket(files: TableFiles) -> None:
    for keys, rows in by_keys(files, ObjectEntries(ENTRIES), ROWS):
        found = sorted_by_partition(files, ObjectEntries(ENTRIES), rows)
        expected = sorted(
            rows.tolist(),
            key=lambda row: (files.partitions.of_entry(ENTRIES[row]).order, ENTRIES[row].bucket),
        )
        assert found.tolist() == expected, keys


def test_contents_are_counted(files: TableFiles) -> None:
    found = contents_of(ObjectEntries(ENTRIES), ROWS)
    assert found == ManifestContents.of([ENTRIES[row] for row in ROWS])
