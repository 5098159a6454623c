"""The case `versions`: plans and reads of many small files under many schema versions.

The same content lies beside it under one schema version, so a ratio is what the versions cost.
"""

from __future__ import annotations

import math
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.evolved_tables import (
    DATABASE,
    KINDS,
    PROJECTED,
    TABLES,
    EvolvedTables,
    Expected,
    load_tables,
)
from benchmarks.processes import ROOT, Capped, ContestantProcess, Failed, command
from benchmarks.results import ResultFile, Status, VersionsResult
from benchmarks.suite import CONTESTANTS

VERSIONS, FILES = 100, 10_000
QUICK_VERSIONS, QUICK_FILES = 20, 500
_OWN_CAP_SECONDS = 1800.0
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is asked of a contestant: a plan or a read, of some columns and rows or of all."""

    name: str
    title: str
    asks: str = "read"
    projects: bool = False
    filters: bool = False
    contestants: tuple[str, ...] = ()


_CLIENTS = ("pypaimon", "pypaimon-native", "rust")
_READERS = ("lakewright", "pyarrow", *_CLIENTS, "lakewright-spark")
WORKS = (
    Work(name="plan", title="plan", asks="plan", contestants=("lakewright", *_CLIENTS)),
    Work(
        name="project",
        title="read of two columns",
        projects=True,
        contestants=(*_READERS, "spark-scan"),
    ),
    Work(
        name="filter",
        title="read of a tenth of the keys, all columns",
        filters=True,
        contestants=_READERS,
    ),
    Work(name="full", title="read of everything", contestants=_READERS),
)


@dataclass
class VersionsRunner:
    """Makes the measurements that the file lacks, and writes them to it."""

    work_dir: Path
    oracles: Path
    file: ResultFile
    run: str
    say: Callable[[str], None]
    peers: frozenset[str]
    repeats: int
    peer_cap_seconds: float
    versions: int = VERSIONS
    files: int = FILES
    keep_data: bool = False
    _processes: dict[str, ContestantProcess] = field(default_factory=dict)

    def measure(self) -> None:
        """Both kinds of tables, work by work, contestant by contestant."""
        done = {
            (each.kind, each.versions, each.files, each.work, each.contestant)
            for each in self.file.versions_results()
            if each.status is not Status.FAILED
        }
        for kind in KINDS:
            due = [
                (work, name)
                for work in WORKS
                for name in work.contestants
                if (kind, self.versions, self.files, work.name, name) not in done
                and (not CONTESTANTS[name].is_peer or name in self.peers)
            ]
            if due:
                self._measure_kind(kind, due)

    def _measure_kind(self, kind: str, due: list[tuple[Work, str]]) -> None:
        folder = self.work_dir / "data" / f"versions-{kind}-{self.versions}-{self.files}"
        try:
            tables = self._tables(kind, folder)
            for work, name in due:
                for result in self._results(kind, work, name, tables):
                    self.file.append(result)
                    self.say(_sentence(result))
        except Failed as error:
            self.say(f"versions of {kind} tables are left out: {error}")
        finally:
            for process in self._processes.values():
                process.close()
            self._processes.clear()
            if not self.keep_data:
                shutil.rmtree(folder, ignore_errors=True)

    def _tables(self, kind: str, folder: Path) -> EvolvedTables:
        found = load_tables(folder)
        if found is None:
            self.say(f"preparing {kind} tables, {self.files:,} files")
            sizes = [str(self.versions), str(self.files)]
            arguments = [sys.executable, "-m", "benchmarks.evolved_tables", kind, *sizes]
            made = subprocess.run(
                [*arguments, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
            )
            found = load_tables(folder)
            if found is None:
                raise Failed(made.stderr.strip().rpartition("\n")[2])
        return found

    def _results(
        self, kind: str, work: Work, name: str, tables: EvolvedTables
    ) -> Iterator[VersionsResult]:
        """A contestant's figures for both tables, which alternate within every repeat."""
        found = {
            table: VersionsResult(
                run=self.run,
                kind=kind,
                versions=self.versions,
                files=tables.files,
                work=work.name,
                contestant=name,
                table=table,
                status=Status.OK,
            )
            for table in TABLES
        }
        cap = self.peer_cap_seconds if CONTESTANTS[name].is_peer else _OWN_CAP_SECONDS
        for repeat in range(self.repeats + 1):
            for table, result in found.items():
                if result.status is not Status.OK:
                    continue
                try:
                    answer = self._ask(work, name, table, tables, cap)
                    expected = tables.filtered if work.filters else tables.whole
                    _check(answer, work, kind, name, expected, len(expected.files[table]))
                except Capped:
                    found[table] = replace(
                        result, status=Status.CAPPED, note=f"ended after {cap:.0f} s"
                    )
                except Failed as error:
                    note = " ".join(str(error).split())[:300]
                    found[table] = replace(result, status=Status.FAILED, note=note)
                else:
                    # The first one warms the process up.
                    if repeat:
                        found[table] = replace(
                            result,
                            seconds=(*result.seconds, answer["seconds"]),
                            cpu_seconds=(*result.cpu_seconds, answer["cpu_seconds"]),
                        )
        yield from found.values()

    def _ask(
        self, work: Work, name: str, table: str, tables: EvolvedTables, cap: float
    ) -> dict[str, Any]:
        contestant = CONTESTANTS[name]
        process = self._processes.get(contestant.process_key)
        if process is None or not process.is_alive:
            process = ContestantProcess(command(contestant.process, self.oracles))
            self._processes[contestant.process_key] = process
        expected = tables.filtered if work.filters else tables.whole
        asks = "read_each" if name == "pyarrow" else work.asks
        request: dict[str, Any] = {
            "operation": asks,
            "contestant": name,
            "warehouse": str(tables.warehouse.absolute()),
            "table": f"{DATABASE}.{table}",
            "files": [expected.files[table]],
            "checksum": PROJECTED[-1],
            "columns": PROJECTED,
        }
        if work.projects:
            request["select"] = PROJECTED
        if work.filters:
            request["below"] = tables.below
        return process.ask(request, timeout_seconds=cap)


def _check(
    answer: dict[str, Any],
    work: Work,
    kind: str,
    contestant: str,
    expected: Expected,
    files: int,
) -> None:
    """Compare with the model of the table.

    Raises:
        Failed: the answer differs from the content of the table.
    """
    rows, due = answer["rows"], files if work.asks == "plan" else expected.rows
    # The floor does not merge, and a filtered plan may open files that hold nothing of it.
    if rows is not None and rows != due and not (contestant == "pyarrow" and kind == "keyed"):
        raise Failed(f"came to {rows} where {due} were due")
    total = answer["checksum"]
    if total is not None and not math.isclose(total, expected.checksum, rel_tol=_TOLERANCE):
        raise Failed(f"came to a sum of {total} where {expected.checksum} was due")


def versions_section(file: ResultFile) -> str:
    """The figures as markdown, empty without any."""
    results = file.versions_results()
    if not results:
        return ""
    lines = ["\n## Many schema versions\n"]
    sizes = dict.fromkeys((each.kind, each.versions, each.files) for each in results)
    for kind, versions, files in sizes:
        lines += [
            f"{kind.capitalize()} table, {files:,} files of 100 rows:\n",
            f"| work | who | one version, s | {versions} versions, s | ratio | CPU ratio |",
            "|---|---|---|---|---|---|",
        ]
        cells = {
            (each.work, each.contestant, each.table): each
            for each in results
            if (each.kind, each.versions, each.files) == (kind, versions, files)
        }
        for work in WORKS:
            title = work.title
            for name in work.contestants:
                pair = [cells.get((work.name, name, table)) for table in TABLES]
                if any(pair):
                    shown = " | ".join(map(_shown, pair))
                    ratios = " | ".join(_ratios(*pair))
                    lines.append(f"| {title} | {CONTESTANTS[name].title} | {shown} | {ratios} |")
                    title = ""
        lines.append("")
    return "\n".join(lines)


def _shown(result: VersionsResult | None) -> str:
    if result is None:
        return "–"
    if result.status is not Status.OK:
        return f"**{result.status.value}**: {result.note}"
    median = statistics.median(result.seconds)
    return f"{median:.2f} ({min(result.seconds):.2f}–{max(result.seconds):.2f})"


def _ratios(plain: VersionsResult | None, evolved: VersionsResult | None) -> Iterator[str]:
    for name in ("seconds", "cpu_seconds"):
        pair = [getattr(each, name, ()) for each in (evolved, plain)]
        top, bottom = (statistics.median(each) if each else 0.0 for each in pair)
        # CPU time comes in ticks of a hundredth, and a worker that ended takes its own away.
        yield f"{top / bottom:.2f}" if min(top, bottom) > 0 else "–"


def _sentence(result: VersionsResult) -> str:
    return (
        f"versions: {result.kind}, {result.table}: {result.work}, {result.contestant}: "
        f"{_shown(result)}"
    )
