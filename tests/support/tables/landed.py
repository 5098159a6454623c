"""Folders of files as other systems leave them, written without any code of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lakewright.storage import Table

Rows = Sequence[Mapping[str, Any]]
LANDED = {"id": "BIGINT", "v": "STRING", "day": "STRING"}
_ARROW = pa.schema([("id", pa.int64()), ("v", pa.string())])
_AVRO = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "v", "type": ["null", "string"]}],
}


def land(path: Path, rows: Rows, *, schema: pa.Schema = _ARROW) -> Path:
    """Write rows to a file whose suffix tells its format; its folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path, compression="zstd")
        case ".orc":
            orc.write_table(table, path)
        case ".avro":
            with path.open("wb") as sink:
                fastavro.writer(sink, _AVRO, [dict(row) for row in rows])
    return path


def landed_folder(table: Table) -> str:
    """The folder beside a table's warehouse, in its store."""
    return f"{table.table_files.paths.root.rsplit('/', 2)[0]}-landed"


def land_beside(table: Table, *days: str) -> str:
    """Write `day=…` folders of one file beside a table's warehouse, in its store; their folder."""
    fs, root = table.table_files.fs, landed_folder(table)
    for day in days:
        sink = BytesIO()
        pq.write_table(pa.table({"id": [100, 101], "v": [f"{day}0", f"{day}1"]}), sink)
        fs.write_bytes(f"{root}/day={day}/f.parquet", sink.getvalue())
    return fs.uri(root)


def rows_of(first: int, last: int, v: str = "v") -> list[dict[str, Any]]:
    """Rows of `LANDED` without their day."""
    return [{"id": number, "v": f"{v}{number}"} for number in range(first, last)]


def land_days(root: Path, days: Sequence[str] = ("a", "b"), suffix: str = "parquet") -> Path:
    """A folder with `day=…` folders of two files each, as Spark leaves them."""
    for number, day in enumerate(days):
        folder = root / f"day={day}"
        for part in (0, 1):
            first = 10 * number + 3 * part
            land(folder / f"part-0000{part}.c000.zstd.{suffix}", rows_of(first, first + 3))
        (folder / "_SUCCESS").touch()
    return root
