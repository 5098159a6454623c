"""`make bench`: upsert, merging read, compaction and plain read of one primary-key table.

The floor is pyarrow merely writing, or reading, the same data files. The peer is
pypaimon in the environment that the tests use; without it its column stays empty.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.workload import batches
from lakewright.storage import Catalog, SchemaSpec, Table, columns_from_arrow

HERE = Path(__file__).parent
STEPS = ("upsert", "read, merging", "compact fully", "read, compacted")


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parsed = parser.parse_args()
    ours: dict[str, list[float]] = {step: [] for step in STEPS}
    floor: dict[str, list[float]] = {step: [] for step in STEPS}
    loads = list(batches(parsed.rows))
    for _ in range(parsed.repeats):
        _measure(loads, parsed.rows, ours, floor)
    _print(ours, floor, _peer(parsed.rows, parsed.repeats), parsed.rows, parsed.repeats)


def _measure(
    loads: list[pa.Table],
    row_count: int,
    ours: dict[str, list[float]],
    floor: dict[str, list[float]],
) -> None:
    with tempfile.TemporaryDirectory() as warehouse:
        table = Catalog.open(warehouse).create_table(
            "b.t",
            SchemaSpec(
                columns=columns_from_arrow(loads[0].schema),
                primary_keys=("id",),
                options={"bucket": "2"},
            ),
        )
        ours["upsert"].append(_seconds(lambda: [table.write(rows) for rows in loads]))
        copies = Path(warehouse) / "copies"
        copies.mkdir()
        floor["upsert"].append(
            _seconds(
                lambda: [
                    pq.write_table(rows, copies / f"{at}.parquet", compression="zstd")
                    for at, rows in enumerate(loads)
                ]
            )
        )
        before = _data_files(table)
        ours["read, merging"].append(_seconds(lambda: _check(table, row_count)))
        floor["read, merging"].append(_seconds(lambda: _read_files(before)))
        plan = table.plan_compact(full=True)
        ours["compact fully"].append(_seconds(lambda: table.run_compact(plan)))
        floor["compact fully"].append(
            _seconds(
                lambda: pq.write_table(_read_files(before), copies / "all", compression="zstd")
            )
        )
        after = _data_files(table)
        ours["read, compacted"].append(_seconds(lambda: _check(table, row_count)))
        floor["read, compacted"].append(_seconds(lambda: _read_files(after)))


def _data_files(table: Table) -> list[str]:
    return [
        table.files.data_file_path(entry.partition, entry.bucket, entry.file)
        for entry in table.data_files()
    ]


def _read_files(paths: list[str]) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(path).read() for path in paths])


def _check(table: Table, row_count: int) -> None:
    found = table.read().num_rows
    if found != row_count:
        raise SystemExit(f"read {found} rows where {row_count} were due")


def _seconds(step: Callable[[], object]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def _peer(row_count: int, repeats: int) -> dict[str, list[float]]:
    python = HERE.parent / ".oracles" / "pypaimon" / "bin" / "python"
    if not python.exists():
        return {}
    command = [str(python), str(HERE / "pypaimon_peer.py"), str(row_count), str(repeats)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    answer: dict[str, list[float]] = json.loads(output.splitlines()[-1])
    return answer


def _print(
    ours: dict[str, list[float]],
    floor: dict[str, list[float]],
    peer: dict[str, list[float]],
    row_count: int,
    repeats: int,
) -> None:
    write = sys.stdout.write
    write(f"{row_count:,} rows, medians of {repeats} (spread), seconds and ratios\n\n")
    write(f"{'step':16} {'lakewright':>18} {'pyarrow floor':>18} {'pypaimon':>18}")
    write(f" {'ours/floor':>11} {'pypaimon/ours':>14}\n")
    for step in STEPS:
        mine, base = statistics.median(ours[step]), statistics.median(floor[step])
        write(f"{step:16} {_shown(ours[step]):>18} {_shown(floor[step]):>18}")
        write(f" {_shown(peer.get(step, [])):>18} {mine / base:>11.2f}")
        write(f" {statistics.median(peer[step]) / mine:>14.2f}\n" if step in peer else "\n")


def _shown(seconds: list[float]) -> str:
    if not seconds:
        return "–"
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}–{max(seconds):.2f})"


if __name__ == "__main__":
    main()
