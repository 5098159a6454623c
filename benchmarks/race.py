"""`python -m benchmarks.race FOLDER`: Lakewright, Iceberg and Delta on Spark, by turns.

Each contestant has a process with two cores of its own, and waits while another one works. Tables
are made of the same Parquet files, and the answers of reads must be equal. Lakewright runs on its
Spark and without one. Times are medians of repetitions after a first one; the order turns around
from repetition to repetition. The page cache is warm: no run reads more than memory holds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.processes import ROOT, ContestantProcess, spark_lakehouses

_LIMIT_SECONDS = 900.0
_COMMITS = 5
_PARTITIONS = 300
_LOADED_PARTITIONS = 30
_LOADS = 4
_SMALL_FILES = 300
_TASKS = 10
_REPEATS = 5
_OURS = ("on Spark", "without Spark")

Answer = dict[str, Any]


class Data:
    """The Parquet files that tables are made of."""

    def __init__(self, folder: Path, rows: int, key: str) -> None:
        self.folder = folder
        self._rows = rows
        self._key = key
        self._random = np.random.default_rng(7)
        folder.mkdir(parents=True, exist_ok=True)
        self.base = self._put("base", np.arange(rows))
        picks = (self._random.choice(rows, rows // 10, replace=False) for _ in range(_COMMITS))
        self.changes = [self._put(f"changes-{at}", np.sort(each)) for at, each in enumerate(picks)]
        self.parted = self._put("parted", np.arange(rows), partitions=_LOADED_PARTITIONS)
        self.few = self._put("few", np.arange(_PARTITIONS * _TASKS * 10), partitions=_PARTITIONS)

    def _put(self, name: str, keys: np.ndarray, *, partitions: int = 0) -> str:
        count = len(keys)
        texts = np.char.add("user-", np.char.zfill(keys.astype(str), 10))
        columns: dict[str, Any] = {
            "id": pa.array(texts) if self._key == "string" else pa.array(keys),
            "a": pa.array(self._random.integers(0, 1000, count), pa.int32()),
            "b": self._random.random(count),
            "s": pa.array(np.char.add("name-", self._random.integers(0, 10**7, count).astype(str))),
            "d": pa.array(self._random.integers(0, 3000, count), pa.int32()).cast(pa.date32()),
        }
        if partitions:
            columns["p"] = pa.array(keys % partitions, pa.int32())
        path = self.folder / f"{name}.parquet"
        pq.write_table(pa.table(columns), path, compression="zstd")
        return str(path)


class Run:
    """The contestants, and what each took for each work."""

    def __init__(self, contestants: dict[str, ContestantProcess]) -> None:
        self._contestants = contestants
        self.taken: dict[str, dict[str, list[Answer]]] = {}

    def ask(self, work: str, operation: str, **request: Any) -> None:
        """Let all contestants do a piece of work, one after the other; answers must be equal."""
        times = self.taken.setdefault(work, {})
        names = list(self._contestants)
        turn = len(next(iter(times.values()), []))
        answers: dict[str, tuple[int | None, float | None]] = {}
        for name in names if turn % 2 == 0 else reversed(names):
            answer = self._contestants[name].ask(
                {"operation": operation, **request}, timeout_seconds=_LIMIT_SECONDS
            )
            times.setdefault(name, []).append(answer)
            answers[name] = answer["rows"], answer["checksum"]
        if len(set(answers.values())) > 1:
            raise SystemExit(f"{work}: answers differ: {answers}")

    def medians(self) -> Iterator[tuple[str, dict[str, float]]]:
        """Seconds of each contestant for each work, without the first if there are more."""
        for work, times in self.taken.items():
            yield (
                work,
                {
                    name: statistics.median(each["seconds"] for each in answers[1:] or answers)
                    for name, answers in times.items()
                },
            )


def race(run: Run, data: Data) -> None:
    """All work, in order. Iceberg and Delta have no keys: their keyed table is an append table."""
    for at in range(_LOADS):
        run.ask("load an append table", "create", name=f"plain{at}", rows=data.base)
        run.ask(
            f"load {_LOADED_PARTITIONS} partitions",
            "create",
            name=f"parted{at}",
            rows=data.parted,
            partition="p",
        )
        name = f"keyed{at}"
        run.ask("load a table of two buckets", "create", name=name, rows=data.base, key="id")
    for at in range(2):
        name = f"keyed{at}"
        for changes in data.changes:
            run.ask("upsert of a tenth", "upsert", name=name, rows=changes, key="id")
    for _ in range(_REPEATS):
        run.ask("merge on read, aggregate", "aggregate", name="keyed0")
        run.ask("merge on read, all rows", "all rows", name="keyed0")
    for at in range(2):
        run.ask("full compaction", "compact", name=f"keyed{at}")
    run.ask("aggregate after it", "aggregate", name="keyed0")
    for at in range(2):
        small = f"small{at}"
        run.ask("make small files", "create", name=small, rows=data.base, tasks=_SMALL_FILES)
        run.ask(f"bin-pack of {_SMALL_FILES} files", "compact", name=small)
    run.ask("make partitions", "create", name="parts", rows=data.few, partition="p", tasks=_TASKS)
    for _ in range(_REPEATS):
        run.ask("plan 3,000 files", "plan", name="parts")
        run.ask("plan one partition of 300", "plan", name="parts", where="p = 7")
        run.ask("count one partition", "count", name="parts", where="p = 7")


def main() -> None:
    """Run the race, and print a table; raw times go to FOLDER/race.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--key", choices=("bigint", "string"), default="bigint")
    parser.add_argument("--environments", type=Path, default=ROOT / ".oracles")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    data = Data(folder / "data", arguments.rows, arguments.key)
    ours = [sys.executable, "-m", "benchmarks.contestants.racing_lakewright"]
    peers = spark_lakehouses(arguments.environments, "racing_peers")
    commands = {
        _OURS[0]: [*ours, f"{folder}/spark", "spark"],
        _OURS[1]: [*ours, f"{folder}/arrow", "arrow"],
        "Iceberg": [*peers, f"{folder}/iceberg", "iceberg"],
        "Delta": [*peers, f"{folder}/delta", "delta"],
    }
    run = Run({name: ContestantProcess(command) for name, command in commands.items()})
    race(run, data)
    (folder / "race.json").write_text(json.dumps(run.taken, indent=1))
    names = list(commands)
    print(f"| work | {' | '.join(f'{name}, s' for name in names)} | Iceberg | Delta |")
    print("|---" * (len(names) + 3) + "|")
    for work, seconds in run.medians():
        own = seconds[_OURS[0]]
        ratios = " | ".join(f"{seconds[peer] / own:.2f}" for peer in ("Iceberg", "Delta"))
        print(f"| {work} | {' | '.join(f'{seconds[each]:.2f}' for each in names)} | {ratios} |")


if __name__ == "__main__":
    main()
