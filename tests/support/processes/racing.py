"""The code of racing processes, importable by name."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

from lakewright.storage import Catalog, LeaseKind, Table
from lakewright.storage.errors import RetriesExhausted, StalePlan
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.operations.leases.leases import LeaseRequest, leased, whole_table
from tests.support.tables.builders import compact, events, expire, remove_orphans, rows

BARRIERS: list[Barrier] = []
STOPS: list[Event] = []

# Only files older than the race count as orphans, so the removal must take none.
_SANE_AGE_MS = 600_000


def share(barrier: Barrier, stop: Event | None = None) -> None:
    """Give a new process the common barrier and the stop signal."""
    BARRIERS.append(barrier)
    if stop is not None:
        STOPS.append(stop)


def quick_starts() -> ForkServerContext:
    """Processes that begin with the imports done, those of S3's client too where it is installed.

    They are forked from a server with the environment of its start: see `run_in`.
    """
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["lakewright.storage", "tests.support.processes.racing", "s3fs"])
    return context


def run_in(environment: Mapping[str, str], target: Callable[..., object], *args: Any) -> None:
    """Run a function with the caller's environment variables, which configure the store."""
    os.environ.clear()
    os.environ.update(environment)
    target(*args)


def put_each(folder: str, writer: int, targets: int) -> list[int]:
    """Try to create every target; returns those that this process created."""
    fs, root = open_file_system(folder)
    won = []
    for target in range(targets):
        BARRIERS[-1].wait()
        if fs.put_if_absent(f"{root}/target-{target}", f"{writer}:{target}".encode() * 1000):
            won.append(target)
    return won


def append_many(warehouse: str, name: str, writer: int, commits: int) -> int:
    """Commit rows one by one beside other processes; returns the number of lost attempts."""
    table = Catalog.open(warehouse).table(name)
    attempts = 0
    BARRIERS[-1].wait()
    for number in range(commits):
        new = rows(table, events(1000 * writer + number, 1000 * writer + number + 1))
        attempts += table.write(new).attempts
    return attempts - commits


def hold_one_by_one(warehouse: str, name: str, folder: str, times: int) -> int:
    """Take a lease repeatedly beside other processes; returns how often it was exclusive."""
    files = Catalog.open(warehouse).table(name).table_files
    request = LeaseRequest(
        kind=LeaseKind.COMPACT, scope=whole_table(files), holder=f"process {os.getpid()}"
    )
    alone = 0
    BARRIERS[-1].wait()
    for _ in range(times):
        with leased(files, request, wait_ms=100_000):
            mark = Path(folder) / "somebody"
            mark.touch(exist_ok=False)
            # Long enough for another to come, if it could.
            files.snapshots.ids()
            mark.unlink()
            alone += 1
    return alone


def hold_until_killed(warehouse: str, name: str) -> None:
    """Take a lease, and keep it without an end."""
    files = Catalog.open(warehouse).table(name).table_files
    request = LeaseRequest(kind=LeaseKind.UPSERT, scope=whole_table(files), holder="the killed")
    with leased(files, request):
        time.sleep(600)


# --- writers beside upkeep --------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """The result of one writer."""

    attempts: tuple[int, ...]
    waits_ms: tuple[int, ...]


@dataclass(frozen=True)
class Upkeep:
    """The runs of a maintenance verb: their number, conflicts, work, and effective runs."""

    runs: int = 0
    overtaken: int = 0
    done: int = 0
    useful: int = 0


@dataclass
class Race:
    """The results of a race."""

    writers: list[Written] = field(default_factory=list)
    upkeep: dict[str, Upkeep] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def commits(self) -> int:
        return sum(len(each.attempts) for each in self.writers)

    @property
    def attempts(self) -> int:
        return sum(sum(each.attempts) for each in self.writers)

    def __str__(self) -> str:
        most = max(number for each in self.writers for number in each.attempts)
        longest = max(wait for each in self.writers for wait in each.waits_ms)
        upkeep = ", ".join(
            f"{verb} {each.runs} runs ({each.overtaken} overtaken, {each.useful} of use) took "
            f"{each.done}"
            for verb, each in self.upkeep.items()
        )
        return (
            f"{len(self.writers)} writers, {self.commits} commits in {self.seconds:.1f} s: "
            f"{self.commits / self.seconds:.1f} a second, "
            f"{self.attempts / self.commits:.2f} attempts a commit and {most} at most, "
            f"{longest} ms the slowest; {upkeep}"
        )


def race(warehouse: str, name: str, *, writers: int, commits: int) -> Race:
    """Run writers beside loops of compaction, expiry and orphan removal.

    Raises:
        StorageError: the error of a process.
    """
    context = quick_starts()
    barrier, stop = context.Barrier(writers + len(VERBS)), context.Event()
    with ProcessPoolExecutor(
        writers + len(VERBS),
        mp_context=context,
        initializer=run_in,
        initargs=(dict(os.environ), share, barrier, stop),
    ) as pool:
        upkeep = {verb: pool.submit(keep_up, warehouse, name, verb) for verb in VERBS}
        writing = [
            pool.submit(write_many, warehouse, name, each, commits) for each in range(writers)
        ]
        with _stopping(stop):
            found = Race(writers=[each.result()[0] for each in writing])
            spans = [each.result()[1] for each in writing]
        found.seconds = max(end for _, end in spans) - min(start for start, _ in spans)
        found.upkeep = {verb: each.result() for verb, each in upkeep.items()}
    return found


@contextmanager
def _stopping(stop: Event) -> Iterator[None]:
    try:
        yield
    finally:
        stop.set()


def write_many(
    warehouse: str, name: str, writer: int, commits: int
) -> tuple[Written, tuple[float, float]]:
    """Commit rows of a series one by one; returns the result with its times."""
    table = Catalog.open(warehouse).table(name)
    attempts, waits = [], []
    BARRIERS[-1].wait()
    began = time.time()
    for number in range(commits):
        if STOPS[-1].is_set():
            # Another writer failed, or the race was stopped.
            break
        started = time.time()
        result = table.write(
            rows(table, rows_of(table, writer, number)),
            commit_user=f"writer-{writer}",
            commit_identifier=number,
        )
        assert not result.already_committed
        attempts.append(result.attempts)
        waits.append(int((time.time() - started) * 1000))
    return Written(tuple(attempts), tuple(waits)), (began, time.time())


def rows_of(table: Table, writer: int, number: int) -> list[dict[str, Any]]:
    """The rows of a writer's numbered commit: one of its own, and one for a shared key.

    In a table with keys, the shared rows count their writes.
    """
    own = {"writer": writer, "number": number, "times": 1}
    if not table.schema.is_keyed:
        return [own]
    return [own, {"writer": -1, "number": number % 5, "times": 1}]


def keep_up(warehouse: str, name: str, verb: str) -> Upkeep:
    """Run one maintenance verb repeatedly until the stop signal."""
    table = Catalog.open(warehouse).table(name)
    runs = overtaken = done = useful = 0
    BARRIERS[-1].wait()
    while not STOPS[-1].is_set():
        runs += 1
        try:
            found = VERBS[verb](table)
            done, useful = done + found, useful + (found > 0)
        except (StalePlan, RetriesExhausted):
            overtaken += 1
        # A short pause, so that idle loops do not occupy a core.
        time.sleep(0.02)
    return Upkeep(runs, overtaken, done, useful)


def _compact(table: Table) -> int:
    return compact(table, min_files=2).files_before


def _expire(table: Table) -> int:
    # Writers look for their earlier commits among the existing snapshots.
    return len(expire(table, keep=5).expired)


def _remove_orphans(table: Table) -> int:
    return remove_orphans(table, age_ms=_SANE_AGE_MS).files_condemned


VERBS: dict[str, Callable[[Table], int]] = {
    "compact": _compact,
    "expire": _expire,
    "remove orphans": _remove_orphans,
}
