"""The case `planning`: plans of tables of very many data files, full and filtered.

Each plan is made in a process of its own: first in a fresh process, whose memory is measured, and
then again with a table that is opened anew. The floor decodes the records of all manifests.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.planned_files import DATABASE, FILES_A_PARTITION, ROWS_A_FILE, TABLE, day
from benchmarks.processes import (
    ROOT,
    Capped,
    ContestantProcess,
    Failed,
    command,
    environment,
    lakehouse_python,
)
from benchmarks.results import PlanningResult, ResultFile, Status
from benchmarks.suite import CONTESTANTS

FILE_COUNTS = (10_000, 200_000, 1_000_000)
QUICK_FILE_COUNTS = (10_000,)
_OWN_CAP_SECONDS = 1800.0
_OWN, _FLOOR = "lakewright", "fastavro"
_PAIMON = "paimon"
# Each of them plans a table of its own format, all others the same table of Paimon.
_LAKEHOUSES = ("delta", "iceberg")
_CLIENTS = ("pypaimon", "pypaimon-native", "rust", *_LAKEHOUSES)
_FEW_FILES = 5
_MOST_SECONDS = 5.0
_MOST_PARTITION_SECONDS = 0.2
_MOST_BYTES_A_FILE = 1000
_LEAST_RATIO = 5.0
# The works, with how many files each of them finds.
WORKS = {
    "full": "everything",
    "partition": f"one partition, {FILES_A_PARTITION} files",
    "bounds": f"by the bounds of a column, {_FEW_FILES} files",
}


@dataclass
class PlanningRunner:
    """Makes the measurements that the file lacks, and writes them to it."""

    work_dir: Path
    oracles: Path
    file: ResultFile
    run: str
    say: Callable[[str], None]
    peers: frozenset[str]
    repeats: int
    peer_cap_seconds: float
    file_counts: tuple[int, ...] = FILE_COUNTS
    keep_data: bool = False

    def measure(self) -> None:
        """Table by table, work by work, contestant by contestant."""
        done = {
            (each.planned_files, each.work, each.contestant)
            for each in self.file.planning_results()
            if each.status is not Status.FAILED
        }
        for files in self.file_counts:
            due = [
                (work, name)
                for work in WORKS
                for name in (_OWN, *([_FLOOR] if work == "full" else []), *_CLIENTS)
                if (files, work, name) not in done
                and (not CONTESTANTS[name].is_peer or name in self.peers)
            ]
            if due:
                self._measure_table(files, due)

    def _measure_table(self, files: int, due: list[tuple[str, str]]) -> None:
        folder = self.work_dir / "data" / f"planning-{files}"
        refused = set()
        try:
            for form in dict.fromkeys(_format(name) for _, name in due):
                try:
                    self._make(files, form, folder / form)
                except Failed as error:
                    refused.add(form)
                    self.say(f"planning of {files:,} files in {form} is left out: {error}")
            for work, name in due:
                if _format(name) in refused:
                    continue
                result = self._result(files, work, name, folder / _format(name))
                self.file.append(result)
                self.say(f"planning: {files:,} files, {work}, {name}: {_shown(result)}")
        finally:
            if not self.keep_data:
                shutil.rmtree(folder, ignore_errors=True)

    def _make(self, files: int, form: str, folder: Path) -> None:
        if (folder / "made").is_file():
            return
        shutil.rmtree(folder, ignore_errors=True)
        self.say(f"preparing a table of {files:,} files in {form}")
        if form == _PAIMON:
            maker = [sys.executable, "-m", "benchmarks.manifest_tables"]
        else:
            python = lakehouse_python(self.oracles)
            maker = [python, "-m", "benchmarks.lakehouse_tables", form]
        made = subprocess.run(
            [*maker, str(files), str(folder.absolute())],
            cwd=ROOT,
            env=environment(maker[0]),
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise Failed(made.stderr.strip().rpartition("\n")[2])
        (folder / "made").touch()

    def _result(self, files: int, work: str, name: str, folder: Path) -> PlanningResult:
        result = PlanningResult(
            run=self.run, planned_files=files, work=work, contestant=name, status=Status.OK
        )
        contestant = CONTESTANTS[name]
        cap = self.peer_cap_seconds if contestant.is_peer else _OWN_CAP_SECONDS
        request = _request(files, work, folder)
        asks = ["decode_manifests" if name == _FLOOR else "plan"] * (self.repeats + 1)
        asks += ["plan_again"] * self.repeats if name == _OWN else []
        try:
            process = ContestantProcess(command(contestant.process, self.oracles))
            try:
                answers = [
                    process.ask({**request, "operation": asked}, timeout_seconds=cap)
                    for asked in asks
                ]
            finally:
                process.close()
        except Capped:
            return replace(result, status=Status.CAPPED, note=f"ended after {cap:.0f} s")
        except Failed as error:
            note = " ".join(str(error).split())[:300]
            return replace(result, status=Status.FAILED, note=note)
        found = {answer["rows"] for answer in answers} - {None}
        if found - {_expected(files, work)}:
            return replace(result, status=Status.FAILED, note=f"found {found} files")
        first, later, again = answers[0], answers[1 : self.repeats + 1], answers[self.repeats + 1 :]
        return replace(
            result,
            first_seconds=first["seconds"],
            first_cpu_seconds=first["cpu_seconds"],
            growth_bytes=first["peak_bytes"] - first["before_bytes"],
            seconds=tuple(each["seconds"] for each in later),
            cpu_seconds=tuple(each["cpu_seconds"] for each in later),
            again_seconds=tuple(each["seconds"] for each in again),
        )


def _format(contestant: str) -> str:
    return contestant if contestant in _LAKEHOUSES else _PAIMON


def _request(files: int, work: str, folder: Path) -> dict[str, Any]:
    manifests = (folder / f"{DATABASE}.db" / TABLE / "manifest").absolute()
    request: dict[str, Any] = {
        "warehouse": str(folder.absolute()),
        "table": f"{DATABASE}.{TABLE}",
        "files": [str(each) for each in sorted(manifests.glob("made-*"))],
    }
    if work == "partition":
        request["day"] = day(files // FILES_A_PARTITION // 2)
    if work == "bounds":
        request["below"] = _FEW_FILES * ROWS_A_FILE
    return request


def _expected(files: int, work: str) -> int:
    return {"full": files, "partition": FILES_A_PARTITION, "bounds": _FEW_FILES}[work]


def planning_section(file: ResultFile) -> str:
    """The figures as markdown, empty without any."""
    results = file.planning_results()
    if not results:
        return ""
    lines = ["\n## Plans of many files\n"]
    for files in sorted({each.planned_files for each in results}):
        lines += [
            f"{files:,} live files in {files // FILES_A_PARTITION:,} partitions:\n",
            "| plan | who | seconds | ratio | CPU ratio | first | table kept open | bytes a file |",
            "|---|---|---|---|---|---|---|---|",
        ]
        cells = {
            (each.work, each.contestant): each for each in results if each.planned_files == files
        }
        for work, title in WORKS.items():
            own = cells.get((work, _OWN))
            shown = title
            for name in (_OWN, _FLOOR, *_CLIENTS):
                if (result := cells.get((work, name))) is not None:
                    lines.append(f"| {shown} | {CONTESTANTS[name].title} | {_row(result, own)} |")
                    shown = ""
        lines += ["", *_aims(files, cells)]
    return "\n".join(lines)


def _aims(files: int, cells: dict[tuple[str, str], PlanningResult]) -> list[str]:
    """The aims for the largest table, **bold** where missed."""
    full, partition = (cells.get((work, _OWN)) for work in ("full", "partition"))
    if files < max(FILE_COUNTS) or full is None or partition is None:
        return []
    if {full.status, partition.status} != {Status.OK}:
        return []
    lines = ["| aim |  | measured |", "|---|---|---|"]
    for title, result, most in (
        ("full plan, seconds", full, _MOST_SECONDS),
        ("plan of one partition, seconds", partition, _MOST_PARTITION_SECONDS),
    ):
        seconds = statistics.median(result.seconds)
        shown = _marked(f"{seconds:.3f}", is_met=seconds < most)
        lines.append(f"| {title} | < {most:g} | {shown} |")
    memory = full.growth_bytes / files
    shown = _marked(f"{memory:,.0f}", is_met=memory <= _MOST_BYTES_A_FILE)
    lines.append(f"| memory of the full plan, bytes a file | ≤ {_MOST_BYTES_A_FILE:,} | {shown} |")
    for work, title in WORKS.items():
        own = cells.get((work, _OWN))
        others = {
            name: statistics.median(each.seconds)
            for name in _CLIENTS
            if (each := cells.get((work, name))) and each.status is Status.OK
        }
        if own is None or own.status is not Status.OK or not others:
            continue
        best = min(others, key=lambda name: others[name])
        ratio = others[best] / statistics.median(own.seconds)
        shown = _marked(f"{ratio:.2f}", is_met=ratio >= _LEAST_RATIO)
        who = CONTESTANTS[best].title
        lines.append(f"| {title}: best other / ours | ≥ {_LEAST_RATIO:g} | {shown} ({who}) |")
    return [*lines, ""]


def _marked(text: str, *, is_met: bool) -> str:
    return text if is_met else f"**{text}**"


def _row(result: PlanningResult, own: PlanningResult | None) -> str:
    if result.status is not Status.OK:
        return f"{_shown(result)} | – | – | – | – | –"
    again = f"{statistics.median(result.again_seconds):.3f}" if result.again_seconds else "–"
    growth = f"{result.growth_bytes / result.planned_files:,.0f}" if result.work == "full" else "–"
    ratios = [_ratio(result, own, each) for each in ("seconds", "cpu_seconds")]
    return " | ".join([_shown(result), *ratios, f"{result.first_seconds:.3f}", again, growth])


def _ratio(result: PlanningResult, own: PlanningResult | None, name: str) -> str:
    top, bottom = (
        statistics.median(getattr(each, name)) if each and getattr(each, name) else 0.0
        for each in (result, own)
    )
    # CPU time comes in ticks of a hundredth.
    return f"{top / bottom:.2f}" if top and bottom else "–"


def _shown(result: PlanningResult) -> str:
    if result.status is not Status.OK:
        return f"**{result.status.value}**: {result.note}"
    median = statistics.median(result.seconds)
    return f"{median:.3f} ({min(result.seconds):.3f}–{max(result.seconds):.3f})"
