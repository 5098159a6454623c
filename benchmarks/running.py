"""Runs measurements: prepares data, alternates contestants, records each result.

Work that changes a table gets a copy of its own, with links to the data files. Each answer of a
contestant is compared with a model of the table, so that wrong answers do not count.
"""

from __future__ import annotations

import itertools
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.prepare import DATABASE, RUNS, Dataset, clone_folder, load_dataset
from benchmarks.processes import ROOT, Capped, ContestantProcess, Failed, command
from benchmarks.results import Result, ResultFile, Status, finished
from benchmarks.suite import CONTESTANTS, OPERATIONS, Contestant, Measurement, Operation
from benchmarks.workload import CASES
from lakewright.storage import Catalog

_OWN_CAP_SECONDS = 1800.0
# Beyond this size, idle processes would hold memory that working ones need.
_MOST_ROWS_TO_KEEP_PROCESSES = 6_000_000
_CHUNK_BYTES = 1 << 23
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a run."""

    work_dir: Path
    oracles: Path
    run: str
    peer_rows: int
    peer_cap_seconds: float
    keep_data: bool = False


@dataclass
class Runner:
    """Makes the measurements that the file lacks, and writes them to it."""

    settings: Settings
    file: ResultFile
    say: Callable[[str], None]
    _processes: dict[str, ContestantProcess] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    # Cells that are given up, and the reasons.
    _given_up: dict[tuple[str, int, str, str], tuple[Status, str]] = field(default_factory=dict)

    def run(self, measurements: Sequence[Measurement]) -> None:
        """Run all missing measurements, case by case."""
        done = finished(self.file.results())
        due = [each for each in measurements if each not in done]
        self.say(f"{len(due)} measurements to make, {len(measurements) - len(due)} there already")
        for (case, rows), group in itertools.groupby(due, key=lambda each: (each.case, each.rows)):
            try:
                self._warm_page_cache(self._dataset(case, rows))
                for _, of_operation in itertools.groupby(group, key=lambda each: each.operation):
                    for measurement in of_operation:
                        self._make(measurement)
                    self._close_processes(keep_staying=True)
            except Failed as error:
                self.say(f"{case} at {rows:,} rows is left out: {error}")
            finally:
                self._close_processes()
            if not self.settings.keep_data and rows > self.settings.peer_rows:
                shutil.rmtree(self._folder(case, rows), ignore_errors=True)

    def _make(self, measurement: Measurement) -> None:
        cell = (
            measurement.case,
            measurement.rows,
            measurement.operation,
            measurement.contestant,
        )
        contestant = CONTESTANTS[measurement.contestant]
        data_rows = measurement.rows
        if contestant.gets_few_rows:
            data_rows = min(data_rows, self.settings.peer_rows)
        if cell in self._given_up:
            status, note = self._given_up[cell]
            result = Result(
                measurement=measurement,
                run=self.settings.run,
                status=status,
                data_rows=data_rows,
                note=note,
            )
        else:
            result = self._measure(measurement, contestant, data_rows)
            if result.status is not Status.OK:
                self._given_up[cell] = (result.status, result.note)
        self.file.append(result)
        self.say(_sentence(result))

    def _measure(self, measurement: Measurement, contestant: Contestant, data_rows: int) -> Result:
        operation = OPERATIONS[measurement.operation]
        dataset = self._dataset(measurement.case, data_rows)
        cap = self.settings.peer_cap_seconds if contestant.is_peer else _OWN_CAP_SECONDS
        status, note, answer = Status.OK, "", {}
        clones: list[Path] = []
        try:
            process = self._process(contestant)
            request = self._request(dataset, operation, contestant, clones)
            word = f"{contestant.name} {operation.asks}"
            if word not in process.warmed:
                warm = self._warming(dataset, contestant)
                request["warm"] = self._request(warm, operation, contestant, clones)
            # The warm-up has the same time limit.
            answer = process.ask(request, timeout_seconds=cap * (1 + ("warm" in request)))
            process.warmed.add(word)
            _check(answer, operation, contestant, dataset, request["table"])
        except Capped:
            status, note = Status.CAPPED, f"ended after {cap:.0f} s"
        except Failed as error:
            status, note = Status.FAILED, _without_paths(str(error))
        finally:
            if not contestant.stays and data_rows > _MOST_ROWS_TO_KEEP_PROCESSES:
                self._close_process(contestant.process_key)
            for clone in clones:
                shutil.rmtree(clone, ignore_errors=True)
        return Result(
            measurement=measurement,
            run=self.settings.run,
            status=status,
            data_rows=data_rows,
            input_rows=_input_rows(dataset, operation),
            note=note,
            **_figures(answer, contestant),
        )

    def _request(
        self,
        dataset: Dataset,
        operation: Operation,
        contestant: Contestant,
        clones: list[Path],
    ) -> dict[str, Any]:
        """The request to a contestant; `clones` collects the folders to remove afterwards."""
        case = dataset.case
        table = operation.table
        scratch = dataset.folder / f"scratch-{next(self._numbers)}"
        scratch.mkdir()
        clones.append(scratch)
        if operation.changes_table:
            table = f"copy_{next(self._numbers)}"
            folder = dataset.warehouse / f"{DATABASE}.db"
            clone_folder(folder / operation.table, folder / table)
            clones.append(folder / table)
        layout = dataset.tables.get(operation.table)
        result = dataset.tables.get(operation.result)
        asks = {
            "lakewright-batches": "read_batches",
            "lakewright-counts": "compact_counts",
            "lakewright-full": "compact_full",
            "pyarrow-keys": "read_with_keys",
        }.get(contestant.name, operation.asks)
        return {
            "operation": asks,
            "contestant": contestant.name,
            "warehouse": str(dataset.warehouse.absolute()),
            "table": f"{DATABASE}.{table}",
            "source": f"{DATABASE}.source",
            "input": str(dataset.input.absolute()),
            "scratch": str(scratch.absolute()),
            "files": layout.files if layout else (),
            "merged": result.files if result else (),
            "columns": case.columns,
            "keys": case.keys,
            "sequence_fields": case.sequence_fields,
            "checksum": case.checksum,
        }

    def _warming(self, dataset: Dataset, contestant: Contestant) -> Dataset:
        """The warm-up before the measurement: the same work, or the same on fewer rows."""
        if not contestant.warmed_by_few_rows:
            return dataset
        rows = min(self.settings.peer_rows, dataset.row_count)
        return self._dataset(dataset.case.name, rows)

    # --- data -------------------------------------------------------------------------------------

    def _folder(self, case: str, rows: int) -> Path:
        return self.settings.work_dir / "data" / f"{case}-{rows}"

    def _dataset(self, case: str, rows: int) -> Dataset:
        """Prepared data; missing data is made in a process of its own.

        Raises:
            Failed: the data cannot be made.
        """
        folder = self._folder(case, rows)
        found = load_dataset(CASES[case], rows, folder)
        if found is None:
            self.say(f"preparing {case}, {rows:,} rows")
            arguments = [sys.executable, "-m", "benchmarks.prepare", case, str(rows), str(folder)]
            arguments += ["--oracles", str(self.settings.oracles), "--runs", *map(str, RUNS)]
            made = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
            found = load_dataset(CASES[case], rows, folder)
            if found is None:
                last = made.stderr.strip().rpartition("\n")[2]
                raise Failed(_without_paths(f"its data cannot be prepared: {last}"))
        return found

    def _warm_page_cache(self, dataset: Dataset) -> None:
        for path in sorted(dataset.warehouse.rglob("*.parquet")):
            with path.open("rb") as source:
                while source.read(_CHUNK_BYTES):
                    pass

    # --- processes --------------------------------------------------------------------------------

    def _process(self, contestant: Contestant) -> ContestantProcess:
        key = contestant.process_key
        running = self._processes.get(key)
        if running is None or not running.is_alive:
            running = ContestantProcess(command(contestant.process, self.settings.oracles))
            self._processes[key] = running
        return running

    def _close_process(self, key: str) -> None:
        if key in self._processes:
            self._processes.pop(key).close()

    def _close_processes(self, *, keep_staying: bool = False) -> None:
        staying = {each.process_key for each in CONTESTANTS.values() if each.stays}
        for key in list(self._processes):
            if not keep_staying or key not in staying:
                self._close_process(key)


def _figures(answer: dict[str, Any], contestant: Contestant) -> dict[str, Any]:
    """The figures of a measurement, for a result."""
    if not answer:
        return {}
    figures = {name: answer[name] for name in ("seconds", "cpu_seconds")}
    # A fresh process holds no memory of earlier work; later its allocators keep some.
    memory = answer if contestant.stays else answer["first"]
    figures |= {name: memory[name] for name in ("before_bytes", "peak_bytes") if name in memory}
    if not contestant.stays and answer["first"]:
        figures["first_seconds"] = answer["first"]["seconds"]
    return figures


def _input_rows(dataset: Dataset, operation: Operation) -> int:
    layout = dataset.tables.get(operation.table)
    return layout.input_rows if layout else dataset.row_count


def _check(
    answer: dict[str, Any],
    operation: Operation,
    contestant: Contestant,
    dataset: Dataset,
    table: str,
) -> None:
    """Compare with the model of the table.

    Raises:
        Failed: the answer differs from the content of the table.
    """
    if contestant.name in ("pyarrow", "pyarrow-keys", "spark-scan"):
        return
    due = dataset.tables[operation.result or operation.table]
    rows = answer["rows"]
    if operation.changes_table and contestant.name != "spark-window":
        entries = Catalog.open(str(dataset.warehouse)).table(table).at().files()
        rows = sum(entry.file.row_count for entry in entries)
    if rows is not None and rows != due.rows:
        raise Failed(f"came to {rows} rows where {due.rows} were due")
    total = answer["checksum"]
    if total is not None and not math.isclose(total, due.checksum, rel_tol=_TOLERANCE):
        raise Failed(f"came to a sum of {total} where {due.checksum} was due")


def _without_paths(message: str) -> str:
    """One line without paths of this machine."""
    return re.sub(r"/(?:[^\s/:'\"]+/)+", "", " ".join(message.split()))[:300]


def _sentence(result: Result) -> str:
    what = result.measurement
    size = f"{what.case} {result.data_rows:,} rows"
    if result.status is not Status.OK:
        return f"{size}: {what.operation}, {what.contestant}: {result.status.value}, {result.note}"
    peak = f", {result.peak_bytes / 2**20:,.0f} MiB" if result.peak_bytes else ""
    return (
        f"{size}: {what.operation}, {what.contestant}: {result.seconds:.2f} s, "
        f"{result.cpu_seconds:.2f} CPU s{peak}"
    )
