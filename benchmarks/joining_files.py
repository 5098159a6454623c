"""`python -m benchmarks.joining_files FOLDER`: MB/s of a compaction of append files, by their size.

The same bytes each time: many small files, and files whose row groups are copied. The floor reads
and writes the same files by Arrow; `copied` is the floor of copying, `shutil.copyfileobj`.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.storage import Catalog, Table

_ROWS_A_MB = 68_000


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    arguments = parser.parse_args()
    print("| files of, MB | files | bytes, MB | by | MB/s | MB a CPU second |")
    print("|---|---|---|---|---|---|")
    for size in (0.15, 1, 11):
        folder = arguments.folder / f"{size}"
        shutil.rmtree(folder, ignore_errors=True)
        count = max(2, int(min(arguments.megabytes, size * 400) / size))
        measure(made(folder, size, count), size, folder)
        shutil.rmtree(folder)


def measure(table: Table, size: float, folder: Path) -> None:
    """Print a line for each way to join the files of a table."""
    paths = [
        Path(table.table_files.data_file_path(each.place, each.file)) for each in table.at().files()
    ]
    total = sum(path.stat().st_size for path in paths) / 1e6
    ways: dict[str, Callable[[], object]] = {
        "copied": lambda: copied(paths, folder / "copied"),
        "Arrow": lambda: rewritten(paths, folder / "floor.parquet"),
        "Lakewright": lambda: compacted(table),
    }
    for name, work in ways.items():
        wall, cpu = taken(work)
        figures = f"{total:,.0f} | {name} | {total / wall:,.0f} | {total / cpu:,.0f}"
        print(f"| {size} | {len(paths)} | {figures} |", flush=True)


def made(folder: Path, megabytes: float, count: int) -> Table:
    """A table of so many files of about that size."""
    schema = {"id": "BIGINT", "a": "INT", "b": "DOUBLE", "s": "STRING"}
    table = Catalog.open(str(folder)).create_table("bench.files", schema)
    random = np.random.default_rng(3)
    rows = int(_ROWS_A_MB * megabytes)
    for number in range(count):
        table.write(
            pa.table(
                {
                    "id": np.arange(number * rows, (number + 1) * rows),
                    "a": pa.array(random.integers(0, 1000, rows), pa.int32()),
                    "b": random.random(rows),
                    "s": pa.array(random.integers(0, 10**8, rows)).cast(pa.string()),
                }
            )
        )
    return table


def copied(paths: list[Path], target: Path) -> None:
    """All bytes in one file."""
    with target.open("wb") as sink:
        for path in paths:
            with path.open("rb") as source:
                shutil.copyfileobj(source, sink, 8 << 20)


def rewritten(paths: list[Path], target: Path) -> None:
    """All rows in one file, by Arrow."""
    with pq.ParquetWriter(
        target, pq.read_schema(paths[0]), compression="zstd", compression_level=1
    ) as writer:
        for path in paths:
            writer.write_table(pq.read_table(path, partitioning=None))


def compacted(table: Table) -> None:
    """A full compaction."""
    table.upkeep.run(table.upkeep.plan_compact(full=True))


def taken(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    work()
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
