"""The floor: pyarrow reads and writes the same files without a table.

Nothing is merged: a read returns every row of every file, so its outcome is not checked.
Reading uses Arrow's threads; buckets are written concurrently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.contestants.serving import Outcome, Request, Work, nothing_to_check, serve

# As the tables' files are written.
_WRITE = {
    "compression": "zstd",
    "compression_level": 1,
    "store_decimal_as_integer": True,
    "row_group_size": 1 << 20,
}


def read(request: Request) -> Work:
    """The columns that a reader of the table must return."""
    return _reading(request, request["columns"])


def read_with_keys(request: Request) -> Work:
    """Every column of the files: keys, sequence number and row kind besides the table's."""
    return _reading(request, None)


def read_each(request: Request) -> Work:
    """What is asked for of many small files, each by itself: their columns may differ."""
    paths = [path for bucket in request["files"] for path in bucket]
    names = request.get("select")

    def rows_of(path: str) -> pa.Table:
        rows = pq.ParquetFile(path).read(columns=names, use_threads=False)
        return rows.filter(pc.field("id") < request["below"]) if "below" in request else rows

    def work() -> Callable[[], Outcome]:
        with ThreadPoolExecutor(pa.cpu_count()) as threads:
            parts = list(threads.map(rows_of, paths))
        return lambda: (sum(part.num_rows for part in parts), None)

    return work


def read_and_write(request: Request) -> Work:
    """The minimal work of a compaction: read its files and write the merged rows."""
    merged = [_rows(paths, None) for paths in request["merged"]]

    def of_bucket(number: int) -> None:
        _rows(request["files"][number], None)
        _write(merged[number], request, number)

    return lambda: _side_by_side(of_bucket, len(merged))


def write_sorted(request: Request) -> Work:
    """Write the files of an upsert from rows that are sorted, numbered and divided already."""
    merged = [_rows(paths, None) for paths in request["merged"]]
    return lambda: _side_by_side(
        lambda number: _write(merged[number], request, number), len(merged)
    )


def _side_by_side(of_bucket: Callable[[int], None], buckets: int) -> Callable[[], Outcome]:
    with ThreadPoolExecutor(buckets) as threads:
        list(threads.map(of_bucket, range(buckets)))
    return nothing_to_check


def _reading(request: Request, columns: Sequence[str] | None) -> Work:
    paths = [path for bucket in request["files"] for path in bucket]

    def work() -> Callable[[], Outcome]:
        rows = _rows(paths, columns)
        return lambda: (rows.num_rows, None)

    return work


def decode_manifests(request: Request) -> Work:
    """Decode every record of the manifests of a folder, and plan nothing."""

    def work() -> Callable[[], Outcome]:
        count = 0
        for path in request["files"]:
            with Path(path).open("rb") as manifest:
                count += sum(1 for _ in fastavro.reader(manifest))
        return lambda: (count, None)

    return work


def _rows(paths: Sequence[str], columns: Sequence[str] | None) -> pa.Table:
    names = None if columns is None else list(columns)
    return ds.dataset(list(paths), format="parquet").to_table(columns=names)


def _write(rows: pa.Table, request: Request, number: int) -> None:
    pq.write_table(rows, Path(request["scratch"]) / f"{number}.parquet", **_WRITE)


if __name__ == "__main__":
    serve(
        {
            "read": read,
            "read_with_keys": read_with_keys,
            "read_each": read_each,
            "decode_manifests": decode_manifests,
            "compact": read_and_write,
            "upsert": write_sorted,
        }
    )
