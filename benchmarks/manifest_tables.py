"""Tables of very many data files for the case `planning`: manifests without the files they name.

A plan opens no data file, so none is written. `python -m benchmarks.manifest_tables FILES FOLDER`
makes one table: an append table of eight columns, with a partition for every hundred files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from benchmarks.planned_files import (
    DATABASE,
    FILES_A_PARTITION,
    HIGHEST,
    LOWEST,
    ROWS_A_FILE,
    TABLE,
    day,
    planned_files,
)
from lakewright.storage import Catalog, Table
from lakewright.storage.codec.binary_row import encode_row
from lakewright.storage.codec.column_stats import partition_stats
from lakewright.storage.codec.manifest_avro import MANIFEST_SCHEMA
from lakewright.storage.codec.snapshot_json import encode_snapshot
from lakewright.storage.spec.manifest import EMPTY_ROW, MANIFEST_VERSION, ManifestFileMeta

# About eight megabytes, at which Paimon stops to merge manifests.
_ENTRIES_A_MANIFEST = 100_000
_COLUMNS = {
    "day": "STRING",
    "id": "BIGINT",
    "quantity": "INT",
    "price": "DOUBLE",
    "status": "STRING",
    "customer": "BIGINT",
    "line": "INT",
    "comment": "STRING",
}
_DAY_MARK, _ID_MARK = "day-??????", 0x3F3F3F3F3F3F3F3F
_PACKED_MARK = _ID_MARK.to_bytes(8, "little")


def make_table(
    files: int,
    folder: Path,
    *,
    files_a_partition: int = FILES_A_PARTITION,
    entries_a_manifest: int = _ENTRIES_A_MANIFEST,
) -> Table:
    """A table whose one snapshot names so many data files."""
    catalog = Catalog.open(str(folder))
    table = catalog.create_table(
        f"{DATABASE}.{TABLE}", _COLUMNS, partition_keys=["day"], options={"bucket": "-1"}
    )
    # A commit of a row makes the snapshot whose manifests are then replaced.
    table.write(pa.Table.from_pylist([dict.fromkeys(_COLUMNS)], schema=table.arrow_schema))
    inside = table.table_files
    metas = [
        _write_manifest(table, begin, min(begin + entries_a_manifest, files), files_a_partition)
        for begin in range(0, files, entries_a_manifest)
    ]
    lists = [
        inside.manifests.write_list(part, compression="zstandard", written=[])
        for part in (metas, [])
    ]
    snapshot = inside.snapshots.latest()
    assert snapshot is not None
    changed = replace(
        snapshot,
        base_manifest_list=lists[0][0],
        base_manifest_list_size=lists[0][1],
        delta_manifest_list=lists[1][0],
        delta_manifest_list_size=lists[1][1],
        total_record_count=files * ROWS_A_FILE,
    )
    path = inside.paths.snapshot(snapshot.id)
    Path(path).write_bytes(encode_snapshot(changed))
    return table


def _write_manifest(table: Table, begin: int, end: int, files_a_partition: int) -> ManifestFileMeta:
    inside = table.table_files
    buffer = BytesIO()
    # Records instead of entries: a million of them take a minute less.
    fastavro.writer(
        buffer, MANIFEST_SCHEMA, _records(table, begin, end, files_a_partition), "zstandard"
    )
    name = f"made-{begin:09d}"
    Path(inside.paths.manifest(name)).write_bytes(buffer.getvalue())
    fields = table.schema.partition_fields
    types = [field.type for field in fields]
    last = (end - 1) // files_a_partition
    rows = [encode_row([day(each)], types) for each in (begin // files_a_partition, last)]
    return ManifestFileMeta(
        file_name=name,
        file_size=len(buffer.getvalue()),
        num_added_files=end - begin,
        num_deleted_files=0,
        partition_stats=partition_stats(rows, fields),
        schema_id=table.schema.id,
        min_bucket=0,
        max_bucket=0,
        min_level=0,
        max_level=0,
    )


def _records(
    table: Table, begin: int, end: int, files_a_partition: int
) -> Iterator[dict[str, Any]]:
    fields = table.schema.fields
    types = [field.type for field in fields]
    # Encoded once, and then changed where the marks are: encoding each row takes far longer.
    partition = encode_row([_DAY_MARK], [field.type for field in table.schema.partition_fields])
    low = encode_row([_DAY_MARK, _ID_MARK, *LOWEST], types)
    high = encode_row([_DAY_MARK, _ID_MARK, *HIGHEST], types)
    empty = {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": []}
    counts = [0] * len(fields)
    for file in planned_files(begin, end, files_a_partition):
        text = file.day.encode()
        yield {
            "_VERSION": MANIFEST_VERSION,
            "_KIND": 0,
            "_PARTITION": partition.replace(_DAY_MARK.encode(), text),
            "_BUCKET": 0,
            "_TOTAL_BUCKETS": -1,
            "_FILE": {
                "_FILE_NAME": f"data-{file.unique}-0.parquet",
                "_FILE_SIZE": file.size,
                "_ROW_COUNT": ROWS_A_FILE,
                "_MIN_KEY": EMPTY_ROW,
                "_MAX_KEY": EMPTY_ROW,
                "_KEY_STATS": empty,
                "_VALUE_STATS": {
                    "_MIN_VALUES": _filled(low, text, file.first_id),
                    "_MAX_VALUES": _filled(high, text, file.last_id),
                    "_NULL_COUNTS": counts,
                },
                "_MIN_SEQUENCE_NUMBER": file.first_id,
                "_MAX_SEQUENCE_NUMBER": file.last_id,
                "_SCHEMA_ID": table.schema.id,
                "_LEVEL": 0,
                "_EXTRA_FILES": [],
                "_CREATION_TIME": file.created_ms,
                "_DELETE_ROW_COUNT": 0,
                "_FILE_SOURCE": 0,
            },
        }


def _filled(row: bytes, text: bytes, number: int) -> bytes:
    return row.replace(_DAY_MARK.encode(), text).replace(_PACKED_MARK, number.to_bytes(8, "little"))


if __name__ == "__main__":
    make_table(int(sys.argv[1]), Path(sys.argv[2]))
