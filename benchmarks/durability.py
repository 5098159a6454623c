"""The cost of flushing for a writer, on the work folder's disk: `python -m benchmarks.durability`.

Both ways alternate, so that other load on the machine affects both.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.processes import ROOT
from lakewright.storage import Catalog, SchemaSpec, Table, columns_from_arrow

_MANY_FILES = 1000


def main(arguments: list[str] | None = None) -> int:
    """Measure a small commit and a write of many files, flushed and not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durability", description=__doc__)
    parser.add_argument("--commits", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3, help="of the write of many files")
    parser.add_argument("--work-dir", type=Path, default=ROOT / ".benchmarks")
    parsed = parser.parse_args(arguments)
    folder = parsed.work_dir.absolute() / "durability"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        one = pa.table({"part": ["p"], "value": [1]})
        many = pa.table({"part": [str(n) for n in range(_MANY_FILES)], "value": range(_MANY_FILES)})
        _compare("a commit of one row", folder / "small", one, parsed.commits)
        _compare(f"a write of {_MANY_FILES:,} files", folder / "large", many, parsed.repeats)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _compare(what: str, folder: Path, rows: pa.Table, repeats: int) -> None:
    tables = {durable: _table(folder / str(durable), rows, durable) for durable in (True, False)}
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(repeats):
        for durable, table in tables.items():
            started = time.perf_counter()
            table.write(rows)
            seconds[durable].append(time.perf_counter() - started)
    flushed, not_flushed = (statistics.median(seconds[durable]) for durable in (True, False))
    print(
        f"{what}: {flushed * 1000:,.1f} ms flushed, {not_flushed * 1000:,.1f} ms not, "
        f"{flushed / not_flushed:.2f} times; medians of {repeats}"
    )


def _table(folder: Path, rows: pa.Table, durable: bool) -> Table:
    spec = SchemaSpec(columns=columns_from_arrow(rows.schema), partition_keys=("part",))
    table = Catalog.open(str(folder), durable=durable).create_table("db.t", spec)
    table.write(rows)
    return table


if __name__ == "__main__":
    raise SystemExit(main())
