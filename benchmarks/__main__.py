"""`make bench`: primary-key tables, side by side with their peers and with the floor.

Each result is appended to a file when it is complete; the same command again resumes an interrupted
run. `--report` only renders the file.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import report
from benchmarks.memory import DEFAULT_BUDGET_MIB, memory_section, run_memory
from benchmarks.planning import FILE_COUNTS, QUICK_FILE_COUNTS, PlanningRunner, planning_section
from benchmarks.processes import ROOT
from benchmarks.results import ResultFile, Run
from benchmarks.running import Runner, Settings
from benchmarks.schema_versions import (
    FILES,
    QUICK_FILES,
    QUICK_VERSIONS,
    VERSIONS,
    VersionsRunner,
    versions_section,
)
from benchmarks.suite import CONTESTANTS, OPERATIONS, Scope, planned
from benchmarks.workload import CASES

MEMORY = "memory"
MANY_VERSIONS = "versions"
PLANNING = "planning"
_OTHER_CASES = (MEMORY, MANY_VERSIONS, PLANNING)
_BEGIN = "<!-- figures: written by `python -m benchmarks --report` -->"
_END = "<!-- end of figures -->"
LARGE_ROWS = 6_000_000
LARGE_CASES = ("bigint", "string")
_QUICK_BUDGET_MIB = 256
_VERSIONS = ("pyarrow", "pyspark", "numpy")


def main(arguments: list[str] | None = None) -> int:
    """Measure what is missing, then render."""
    parsed = _parser().parse_args(arguments)
    if parsed.quick:
        parsed.rows, parsed.repeats, parsed.peer_rows = [100_000], 1, 50_000
        parsed.memory_budget = min(parsed.memory_budget, _QUICK_BUDGET_MIB)
        parsed.results = parsed.work_dir / "quick.jsonl"
        parsed.results.unlink(missing_ok=True)
    if parsed.fresh:
        parsed.results.unlink(missing_ok=True)
    file = ResultFile(parsed.results)
    if not parsed.report:
        _measure(parsed, file)
    text = (
        report.render(file.results(), file.runs())
        + memory_section(file)
        + versions_section(file)
        + planning_section(file)
    )
    if parsed.quick:
        sys.stdout.write(text)
    else:
        _publish(parsed.docs, text)
        _say(f"figures are in {parsed.docs}, raw results in {parsed.results}")
    return 0


def _measure(parsed: argparse.Namespace, file: ResultFile) -> None:
    run = _this_run()
    file.append(run)
    settings = Settings(
        work_dir=parsed.work_dir.absolute(),
        oracles=parsed.oracles.absolute(),
        run=run.run,
        peer_rows=parsed.peer_rows,
        peer_cap_seconds=parsed.peer_cap,
        keep_data=parsed.keep_data,
    )
    contestants = [
        name
        for name, each in CONTESTANTS.items()
        if not each.is_peer or parsed.peers is None or name in parsed.peers
    ]
    due = planned(_scopes(parsed), parsed.operations, contestants)
    Runner(settings, file, _say).run(list(due))
    if MEMORY in (parsed.cases or [MEMORY]):
        run_memory(settings.work_dir, file, run.run, _say, budget_mib=parsed.memory_budget)
    if MANY_VERSIONS in (parsed.cases or [MANY_VERSIONS]):
        versions, files = (QUICK_VERSIONS, QUICK_FILES) if parsed.quick else (VERSIONS, FILES)
        VersionsRunner(
            work_dir=settings.work_dir,
            oracles=settings.oracles,
            file=file,
            run=run.run,
            say=_say,
            peers=frozenset(contestants),
            repeats=parsed.repeats or 3,
            peer_cap_seconds=parsed.peer_cap,
            versions=versions,
            files=files,
            keep_data=parsed.keep_data,
        ).measure()
    if PLANNING in (parsed.cases or [PLANNING]):
        PlanningRunner(
            work_dir=settings.work_dir,
            oracles=settings.oracles,
            file=file,
            run=run.run,
            say=_say,
            peers=frozenset(contestants),
            repeats=parsed.repeats or 3,
            peer_cap_seconds=parsed.peer_cap,
            file_counts=QUICK_FILE_COUNTS if parsed.quick else FILE_COUNTS,
            keep_data=parsed.keep_data,
        ).measure()


def _scopes(parsed: argparse.Namespace) -> list[Scope]:
    """The measurements at each size; large sizes have fewer, unless all are requested."""
    scopes = []
    for rows in parsed.rows:
        is_large = rows > LARGE_ROWS
        repeats = parsed.repeats or (2 if is_large else 3)
        cases = parsed.cases or (LARGE_CASES if is_large else CASES)
        scopes.append(
            Scope(
                rows=rows,
                cases=tuple(case for case in cases if case not in _OTHER_CASES),
                repeats=repeats,
                slow_repeats=min(repeats, parsed.slow_repeats),
            )
        )
    return scopes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    peers = [name for name, each in CONTESTANTS.items() if each.is_peer]
    add = parser.add_argument
    add("--rows", type=int, nargs="+", default=[5_000_000], help="rows of the full load")
    large = f"all of them if not given, {' and '.join(LARGE_CASES)} beyond {LARGE_ROWS:,} rows"
    add("--cases", nargs="+", choices=[*CASES, *_OTHER_CASES], help=large)
    add("--operations", nargs="+", default=list(OPERATIONS), choices=OPERATIONS)
    add("--peers", nargs="*", choices=peers, help="all of them, if not given")
    add("--repeats", type=int, help=f"3 if not given, 2 beyond {LARGE_ROWS:,} rows")
    add("--slow-repeats", type=int, default=2, help="repeats of who is slow")
    add("--peer-rows", type=int, default=200_000, help="rows for pypaimon, and for warming Java up")
    add("--peer-cap", type=float, default=180.0, help="seconds after which a peer is stopped")
    add("--memory-budget", type=int, default=DEFAULT_BUDGET_MIB, help="MiB, of the case memory")
    add("--quick", action="store_true", help="100,000 rows, once, printed and not kept")
    add("--fresh", action="store_true", help="forget earlier results")
    add("--report", action="store_true", help="render only")
    add("--keep-data", action="store_true", help="keep prepared tables for another run")
    add("--results", type=Path, default=ROOT / "benchmarks" / "results.jsonl")
    add("--docs", type=Path, default=ROOT / "benchmarks" / "results" / "peers.md")
    add("--work-dir", type=Path, default=ROOT / ".benchmarks")
    add("--oracles", type=Path, default=ROOT / ".oracles")
    return parser


def _publish(path: Path, text: str) -> None:
    """Replace the figures between their marks; the text around them is handwritten."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{path} lacks the lines {_BEGIN} and {_END}")
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")


def _this_run() -> Run:
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    return Run(
        run=started,
        started=started,
        commit=_commit(),
        python=platform.python_version(),
        processors=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        versions={name: importlib.metadata.version(name) for name in _VERSIONS},
    )


def _commit() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "unknown"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
