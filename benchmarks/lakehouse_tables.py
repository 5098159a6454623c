"""Tables of Delta Lake and Apache Iceberg for the case `planning`, without their data files.

`python -m benchmarks.lakehouse_tables FORMAT FILES FOLDER` makes one table in the environment of
`lakehouses.lock`. delta-rs and pyiceberg write everything themselves: commits, and the checkpoint
that delta-rs leaves after them, or a manifest of eight megabytes for each commit of pyiceberg.
"""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, Schema
from deltalake.schema import Field, PrimitiveType
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

from benchmarks.contestants.iceberg_client import open_catalog
from benchmarks.planned_files import (
    COLUMNS,
    DATABASE,
    FILES_A_PARTITION,
    HIGHEST,
    LOWEST,
    ROWS_A_FILE,
    TABLE,
    PlannedFile,
    planned_files,
)

NAME = f"{DATABASE}.{TABLE}"
_DELTA_FILES_A_COMMIT = 100_000
# About eight megabytes of pyiceberg's manifests, the size at which Iceberg stops to merge them.
_ICEBERG_FILES_A_COMMIT = 25_000
_DELTA_TYPES = ("string", "long", "integer", "double", "string", "long", "integer", "string")


def make_delta(files: int, folder: Path) -> None:
    """Commits of `add` actions, the last of them with a checkpoint."""
    path = str(folder / NAME)
    types = zip(COLUMNS, _DELTA_TYPES, strict=True)
    schema = Schema([Field(name, PrimitiveType(each), nullable=True) for name, each in types])
    for begin, end in _parts(files, _DELTA_FILES_A_COMMIT):
        added = [_add_action(each) for each in planned_files(begin, end, FILES_A_PARTITION)]
        if begin == 0:
            create_table_with_add_actions(path, schema, added, partition_by=["day"])
        else:
            DeltaTable(path).create_write_transaction(added, "append", schema, ["day"])
    DeltaTable(path).create_checkpoint()


def _add_action(file: PlannedFile) -> Any:
    names = COLUMNS[1:]
    stats = {
        "numRecords": ROWS_A_FILE,
        "minValues": dict(zip(names, (file.first_id, *LOWEST), strict=True)),
        "maxValues": dict(zip(names, (file.last_id, *HIGHEST), strict=True)),
        "nullCount": dict.fromkeys(names, 0),
    }
    return AddAction(
        path=f"day={file.day}/part-00000-{file.unique}-c000.zstd.parquet",
        size=file.size,
        partition_values={"day": file.day},
        modification_time=file.created_ms,
        data_change=True,
        stats=json.dumps(stats, separators=(",", ":")),
    )


def make_iceberg(files: int, folder: Path) -> None:
    """A table partitioned by the identity of its day, with an append for each manifest."""
    folder.mkdir(parents=True)
    catalog = open_catalog(str(folder))
    catalog.create_namespace(DATABASE)
    text, long, integer, double = StringType(), LongType(), IntegerType(), DoubleType()
    types = (text, long, integer, double, text, long, integer, text)
    schema = IcebergSchema(
        *(
            NestedField(number, name, each, required=False)
            for number, (name, each) in enumerate(zip(COLUMNS, types, strict=True), 1)
        )
    )
    by_day = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"))
    table = catalog.create_table(NAME, schema, partition_spec=by_day)
    fixed = (_packed(LOWEST, types), _packed(HIGHEST, types))
    for begin, end in _parts(files, _ICEBERG_FILES_A_COMMIT):
        with table.transaction() as commit, commit.update_snapshot().fast_append() as append:
            for file in planned_files(begin, end, FILES_A_PARTITION):
                append.append_data_file(_data_file(file, table.location(), fixed))


def _packed(values: tuple[Any, ...], types: tuple[Any, ...]) -> dict[int, bytes]:
    """Bounds of the columns behind `day` and `id`, by the identifiers of their fields."""
    return {at: to_bytes(types[at - 1], value) for at, value in enumerate(values, 3)}


def _data_file(
    file: PlannedFile, location: str, fixed: tuple[dict[int, bytes], dict[int, bytes]]
) -> Any:
    low, high = (
        {1: file.day.encode(), 2: to_bytes(LongType(), number), **rest}
        for number, rest in zip((file.first_id, file.last_id), fixed, strict=True)
    )
    columns = range(1, len(COLUMNS) + 1)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{location}/data/day={file.day}/00000-0-{file.unique}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(file.day),
        record_count=ROWS_A_FILE,
        file_size_in_bytes=file.size,
        column_sizes=dict.fromkeys(columns, file.size // len(COLUMNS)),
        value_counts=dict.fromkeys(columns, ROWS_A_FILE),
        null_value_counts=dict.fromkeys(columns, 0),
        nan_value_counts={},
        lower_bounds=low,
        upper_bounds=high,
        split_offsets=[4],
        key_metadata=None,
        equality_ids=None,
        sort_order_id=None,
        spec_id=0,
    )


def _parts(files: int, size: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, files, size):
        yield begin, min(begin + size, files)


if __name__ == "__main__":
    {"delta": make_delta, "iceberg": make_iceberg}[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
