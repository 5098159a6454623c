"""What each writer of partitions holds: `python -m benchmarks.partition_writes 1000 20000`.

Four million rows of about 120 bytes in Arrow, twice what a task may buffer, come in batches and go
to so many partitions: to one of them (`single-partition`), in the order of their partitions
(`grouped`), or in random order (`ungrouped`). A process writes and commits once. A line of JSON for
each: the growth of its resident memory, Arrow's own peak, files written, files open at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pyarrow as pa

from benchmarks.measure import measured
from lakewright.storage import Catalog, WriterKind

_ROWS, _BATCH_ROWS = 4_000_000, 100_000
_PAYLOAD_BYTES, _TEXTS = 100, 10_000


def measure(kind: WriterKind, partitions: int) -> dict[str, object]:
    """One write, in this process."""
    with tempfile.TemporaryDirectory() as folder, _most_open(Path(folder)) as open_files:
        table = Catalog.open(folder).create_table(
            "bench.writes",
            {"id": "BIGINT", "part": "INT", "payload": "STRING"},
            partition_keys=["part"],
        )
        one = {"part": 0} if kind is WriterKind.SINGLE_PARTITION else None
        result, taken = measured(
            lambda: table.write(
                _batches(kind, partitions), partition=one, grouped=kind is WriterKind.GROUPED
            )
        )
        mib = 2**20
        return {
            "writer": str(result.writer),
            "partitions": len(table.at().partitions()),
            "files": len(table.at().files()),
            "open_files": max(open_files),
            "growth_mib": round((taken["peak_bytes"] - taken["before_bytes"]) / mib),
            "arrow_mib": round(pa.default_memory_pool().max_memory() / mib),
            "cpu_seconds": round(taken["cpu_seconds"], 1),
        }


def _batches(kind: WriterKind, partitions: int) -> Iterator[pa.Table]:
    generator = np.random.default_rng(3)
    letters = generator.integers(97, 123, (_TEXTS, _PAYLOAD_BYTES), dtype=np.uint8)
    texts = pa.array([bytes(each).decode() for each in letters])
    for first in range(0, _ROWS, _BATCH_ROWS):
        columns: dict[str, object] = {
            "id": np.arange(first, first + _BATCH_ROWS),
            "payload": texts.take(pa.array(generator.integers(0, _TEXTS, _BATCH_ROWS))),
        }
        if kind is WriterKind.GROUPED:
            numbers = np.arange(first, first + _BATCH_ROWS) * partitions // _ROWS
            columns["part"] = pa.array(numbers, pa.int32())
        if kind is WriterKind.UNGROUPED:
            columns["part"] = pa.array(generator.integers(0, partitions, _BATCH_ROWS), pa.int32())
        yield pa.table(columns)


@contextmanager
def _most_open(folder: Path) -> Iterator[list[int]]:
    """How many files of the table or of spilled rows are open, looked at all the time."""
    found, ended = [0], Event()

    def look() -> None:
        while not ended.wait(0.002):
            count = 0
            for each in os.scandir("/proc/self/fd"):
                with suppress(OSError):
                    path = str(Path(each.path).readlink())
                    count += path.startswith((str(folder), f"{tempfile.gettempdir()}/lakewright-"))
            found.append(count)

    thread = Thread(target=look, daemon=True)
    thread.start()
    yield found
    ended.set()
    thread.join()


def main() -> None:
    """Measure each writer and count in a process of its own."""
    if len(sys.argv) == 3 and sys.argv[1] in {each.value for each in WriterKind}:
        sys.stdout.write(json.dumps(measure(WriterKind(sys.argv[1]), int(sys.argv[2]))) + "\n")
        return
    for count in sys.argv[1:]:
        for kind in WriterKind:
            command = [sys.executable, "-m", "benchmarks.partition_writes", kind.value, count]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
