"""Processes under load that are killed at random, and restarted until they are done.

Every process runs one role in a loop. A writer notes each commit before it makes it, so that it
repeats the same commit under the same identifier after a restart; it keeps a consumer at its last
commit, so that no expiry deletes the snapshot by which it recognises that commit.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from lakewright.storage import Catalog, Table
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import FileMissing, SnapshotNotFound, StalePlan
from tests.support.processes.racing import quick_starts, rows_of, run_in
from tests.support.stores.watched_files import Call, WatchedFiles, looked_at
from tests.support.tables.builders import compact, expire, remove_orphans, rows

WRITERS = ("writer-0", "writer-1", "writer-2", "writer-3")
UPKEEP = ("compact", "expire", "remove orphans", "reader")

_ORPHAN_AGE_MS = 120_000
_PATIENCE_SECONDS = 900


@dataclass(frozen=True)
class Place:
    """The shared place of the processes of one trial: the table, and a folder for notes."""

    warehouse: str
    table: str
    notes: str

    def open(self) -> Table:
        return Catalog.open(self.warehouse).table(self.table)

    def open_deadly(self, call: int) -> Table:
        """The table on a file system that kills its process after the given changing call."""
        table = self.open()
        return Table(replace(table.table_files, fs=deadly(table.table_files.fs, call)))

    @property
    def is_over(self) -> bool:
        return (Path(self.notes) / "stop").exists()

    def stop(self) -> None:
        (Path(self.notes) / "stop").touch()

    def note(self, role: str, what: object) -> None:
        """Write a note atomically, so that it survives the process."""
        path = Path(self.notes) / role
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(what))
        unfinished.replace(path)

    def noted(self, role: str) -> Any:
        path = Path(self.notes) / role
        return json.loads(path.read_text()) if path.exists() else None

    def tell(self, role: str, line: str) -> None:
        with (Path(self.notes) / f"{role}.log").open("a") as log:
            log.write(line + "\n")

    def told(self, role: str) -> list[str]:
        path = Path(self.notes) / f"{role}.log"
        return path.read_text().splitlines() if path.exists() else []


@dataclass
class Siege:
    """Roles as processes; a process that ends early, without being killed, is a failure."""

    place: Place
    seed: int
    kills: int = 0
    processes: dict[str, ForkServerProcess] = field(default_factory=dict)

    def run(self, kills: int, *, least_seconds: float, most_seconds: float) -> None:
        """Kill a process `kills` times, each after a random time in the range, then let all end."""
        chance = random.Random(self.seed)
        try:
            for role in (*WRITERS, *UPKEEP):
                self._start(role)
            while self.kills < kills:
                time.sleep(chance.uniform(least_seconds, most_seconds))
                self._check()
                self._kill(chance.choice(list(self.processes)))
            self.place.stop()
            for process in self.processes.values():
                process.join(_PATIENCE_SECONDS)
            self._check()
        finally:
            for process in self.processes.values():
                process.kill()

    def _start(self, role: str) -> None:
        process = quick_starts().Process(
            target=run_in, args=(dict(os.environ), play, self.place, role)
        )
        process.start()
        self.processes[role] = process

    def _kill(self, role: str) -> None:
        process = self.processes[role]
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        self.kills += 1
        self._start(role)

    def _check(self) -> None:
        for role, process in self.processes.items():
            ended_well = process.exitcode == 0 and self.place.is_over
            if not ended_well and (process.exitcode is not None or self.place.is_over):
                log = "\n".join(self.place.told(role)[-30:])
                raise AssertionError(f"{role} ended with {process.exitcode}:\n{log}")


def play(place: Place, role: str) -> None:
    """The work of one process."""
    try:
        if role in WRITERS:
            _write(place, role)
        else:
            _UPKEEP[role](place)
    except BaseException:
        place.tell(role, traceback.format_exc())
        raise


def _write(place: Place, role: str) -> None:
    table, writer = place.open(), WRITERS.index(role)
    number = place.noted(role) or 0
    is_first = True
    while is_first or not place.is_over:
        place.note(role, number)
        result = table.write(
            rows(table, rows_of(table, writer, number)), commit_user=role, commit_identifier=number
        )
        if result.already_committed:
            assert is_first, "only a writer that was started again repeats a commit"
            place.tell(role, f"recognised {number}")
        assert result.snapshot is not None
        table.history.set_consumer(role, result.snapshot.id)
        number += 1
        is_first = False
    place.note(role, number)


def _upkeep(place: Place, verb: Callable[[Table], int], told_as: str) -> None:
    table = place.open()
    while not place.is_over:
        try:
            done = verb(table)
        except StalePlan:
            continue
        if done:
            place.tell(told_as, str(done))
        time.sleep(0.02)


def _compact(table: Table) -> int:
    return compact(table, min_files=2).files_before


def _expire(table: Table) -> int:
    return len(expire(table, keep=3).expired)


def _remove_orphans(table: Table) -> int:
    return remove_orphans(table, age_ms=_ORPHAN_AGE_MS).files_condemned


def _read(place: Place) -> None:
    """Read the table repeatedly: it must hold a prefix of every writer's commits."""
    table = place.open()
    seen = dict.fromkeys(range(len(WRITERS)), 0)
    while not place.is_over:
        try:
            found = table.read().to_pylist()
        except (FileMissing, SnapshotNotFound):
            # The snapshot expired meanwhile, and the error says so.
            continue
        for writer, before in list(seen.items()):
            own = sorted(row["number"] for row in found if row["writer"] == writer)
            assert own == list(range(len(own))), f"writer {writer} has {own}"
            assert len(own) >= before, f"commits of writer {writer} went"
            seen[writer] = len(own)
        assert all(row["times"] == 1 for row in found if row["writer"] >= 0), found
        place.tell("reader", str(len(found)))


_UPKEEP: dict[str, Callable[[Place], None]] = {
    "compact": lambda place: _upkeep(place, _compact, "compact"),
    "expire": lambda place: _upkeep(place, _expire, "expire"),
    "remove orphans": lambda place: _upkeep(place, _remove_orphans, "remove orphans"),
    "reader": _read,
}


# --- a kill at a chosen moment ----------------------------------------------------------------


def deadly(fs: FileSystem, call: int) -> WatchedFiles:
    """A file system that kills its process right after that of its changing calls took effect."""

    def die_here(_: Call) -> None:
        if len(files.changes) == call:
            os.kill(os.getpid(), signal.SIGKILL)

    files = WatchedFiles(fs, after=looked_at(die_here))
    return files


def survives(place: Place, verb: str, call: int) -> bool:
    """Whether a process finishes a verb within that many changing calls."""
    process = quick_starts().Process(target=run_in, args=(dict(os.environ), die, place, verb, call))
    process.start()
    process.join(_PATIENCE_SECONDS)
    assert process.exitcode in (0, -signal.SIGKILL), "\n".join(place.told(verb)[-30:])
    return bool(process.exitcode == 0)


def die(place: Place, verb: str, call: int) -> None:
    """Run a verb, and die at the given call if the verb makes it."""
    try:
        table = place.open_deadly(call)
        if verb in DELETIONS:
            DELETIONS[verb](table)
        else:
            MORTAL[verb](table, call)
    except BaseException:
        place.tell(verb, traceback.format_exc())
        raise


def write_numbered(table: Table, number: int) -> bool:
    """Make a writer's commit of that number; returns whether it existed."""
    new = rows(table, rows_of(table, 0, number))
    return table.write(new, commit_user="writer-0", commit_identifier=number).already_committed


_HOUR_MS = 3_600_000
# Deletions that can be undone for an hour.
DELETIONS: dict[str, Callable[[Table], object]] = {
    "expire snapshots": lambda table: table.upkeep.run(
        table.upkeep.plan_expire_snapshots(retain_min=1, retain_max=2, grace_ms=_HOUR_MS)
    ),
    "expire changelogs": lambda table: table.upkeep.run(
        table.upkeep.plan_expire_changelogs(retain_min=1, retain_max=7, grace_ms=_HOUR_MS)
    ),
    "delete tags": lambda table: table.history.run(
        table.history.plan_delete_tags("t4", "t5", "t6", grace_ms=_HOUR_MS)
    ),
    "delete branch": lambda table: table.history.run(
        table.history.plan_delete_branch("b", grace_ms=_HOUR_MS)
    ),
    "rollback": lambda table: table.history.run(table.history.plan_rollback(5, grace_ms=_HOUR_MS)),
}

MORTAL: dict[str, Callable[[Table, int], object]] = {
    "write": write_numbered,
    "compact": lambda table, _: compact(table, full=True),
    "expire": lambda table, _: expire(table, keep=1),
    "drop table": lambda table, _: drop(table),
}


def drop(table: Table) -> None:
    """Drop a table by the file system through which it was opened."""
    files = table.table_files
    Catalog(files.fs, files.paths.root.rsplit("/", 2)[0], files.env).drop_table(files.name)


# --- a kill at a moment of chance -------------------------------------------------------------


def killed_while(place: Place, work: Callable[..., object], *given: Any, seconds: float) -> bool:
    """Kill a process so long after it begins its work; whether it was still at it."""
    process = quick_starts().Process(
        target=run_in, args=(dict(os.environ), begin, place, work, *given)
    )
    place.note("began", False)
    process.start()
    while not place.noted("began") and process.exitcode is None:
        time.sleep(0.001)
    time.sleep(seconds)
    assert process.pid is not None
    process.kill()
    process.join(_PATIENCE_SECONDS)
    assert process.exitcode in (0, -signal.SIGKILL), "\n".join(place.told("began")[-30:])
    return bool(process.exitcode)


def begin(place: Place, work: Callable[..., object], *given: Any) -> None:
    """Note the beginning, and work on the table."""
    table = place.open()
    place.note("began", True)
    try:
        work(table, *given)
    except BaseException:
        place.tell("began", traceback.format_exc())
        raise


def change_keys(table: Table, keys: tuple[str, ...]) -> None:
    table.upkeep.respec(keys)


def killed_as_it_stages(place: Place, keys: tuple[str, ...], partitions: int) -> None:
    """Kill a process that changes keys as soon as it has recorded so many staged partitions."""
    process = quick_starts().Process(
        target=run_in,
        args=(dict(os.environ), begin, place, change_keys_until_staged, keys, partitions),
    )
    process.start()
    process.join(_PATIENCE_SECONDS)
    assert process.exitcode == -signal.SIGKILL, "\n".join(place.told("began")[-30:])


def change_keys_until_staged(table: Table, keys: tuple[str, ...], partitions: int) -> None:
    recorded: list[str] = []

    def look(call: Call) -> None:
        if call.name == "put_if_absent" and "/.lakewright/respec/staged-" in call.path:
            recorded.append(call.path)
            if len(recorded) >= partitions:
                os.kill(os.getpid(), signal.SIGKILL)

    files = table.table_files
    Table(replace(files, fs=WatchedFiles(files.fs, after=look))).upkeep.respec(keys)
