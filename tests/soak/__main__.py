"""A soak under kills: tables of every kind are written, kept and read while processes die.

1. Make a table of each kind, and serve one more that Dagster ingests by partitions.
2. Start writers (this library, `lakewright sql`, pypaimon, Java), a daemon and a web server of
   Dagster with a policy that keeps all tables, and readers that compare with a model each minute.
3. Kill a random process of ours at intervals, and start it again; twice, fill the disk for a while.
4. Stop the writers, let upkeep come to rest, and compare all rows and files.

`python -m tests.soak FOLDER [--minutes 60]` writes `soak.json` and `soak.md` there. Filling a disk
needs root, as the warehouse is then a disk in memory; it is left out for others.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from lakewright.demo.dagster_server import ENDED, DagsterServer, free_port
from lakewright.platform.orchestration.names import VERB_TAG
from lakewright.platform.orchestration.run_process import PROCESS_TAG
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError, UnavailableError
from tests.kills.processes import kill
from tests.oracles.client import (
    Oracle,
    OracleError,
    WritingOracle,
    start_java_latest,
    start_pypaimon,
)
from tests.soak import model
from tests.soak.model import Kind, Model
from tests.soak.report import markdown
from tests.soak.services import (
    CODE,
    DAEMON,
    FORKS,
    RUN,
    SQL,
    WEB,
    WRITER,
    Services,
    Usage,
    start_dagster,
)
from tests.soak.source import ROUNDS_VARIABLE, ROWS
from tests.soak.writers import Clients, Notes
from tests.support.processes.killing import Place
from tests.support.processes.ordeals import sweep
from tests.support.tables.invariants import missing_files, unreachable_files

ROOT = Path(__file__).parents[2]
POLICY = """
warehouse:
  interval: 10s
  compaction: {min_bytes: 0 b, small_files: 5}
  snapshots: {retain_min: 5, time_retained: 2min, schedule: "* * * * *"}
  changelogs: {schedule: "* * * * *"}
  manifests: {min_count: 30}
  orphans: {older_than: 1h, schedule: "*/5 * * * *"}
  collect: {grace: 1min, orphans: 1h, schedule: "* * * * *"}
"""
INGESTED = """
table: soak.ingested
columns:
  - {name: dt, type: STRING NOT NULL}
  - {name: id, type: BIGINT NOT NULL}
  - {name: round, type: BIGINT NOT NULL}
partition_keys: [dt]
partitions:
  daily: {column: dt, start: 2026-01-01, end: 2026-01-05}
source: {python: "tests.soak.source:rows"}
"""
DATES = tuple(f"2026-01-0{day}" for day in range(1, 5))
LOOK_SECONDS, READ_SECONDS, INGEST_SECONDS = 10, 60, 20
REST_SECONDS, FULL_SECONDS, TIMEOUT_SECONDS = 300, 20, 600
LATEST_BATCHES, DISK_BYTES = 100, 800 << 20
KILLED = {WRITER, SQL, DAEMON, WEB, CODE, RUN, FORKS}


@dataclass
class Soak:
    """One soak: its folder, its processes, and what was seen."""

    folder: Path
    oracles: Path
    minutes: float
    kill_seconds: float
    kinds: tuple[Kind, ...]
    fills: bool
    looks: list[dict[str, Any]] = field(default_factory=list)
    kills: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    reads: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    fulls: list[tuple[float, float]] = field(default_factory=list)
    # By day: the round that the last successful run published, and the last that was asked for.
    published: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DATES, 0))
    asked: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DATES, 0))
    _over: threading.Event = field(default_factory=threading.Event)
    _began: float = 0.0

    def __post_init__(self) -> None:
        self.warehouse, self.home = self.folder / "warehouse", self.folder / "home"
        for name in ("warehouse", "home", "notes", "logs", "tables", "rounds"):
            (self.folder / name).mkdir(parents=True)
        shutil.copy(ROOT / "dagster_home" / "dagster.yaml", self.home)
        (self.folder / "policy.yaml").write_text(POLICY)
        (self.folder / "tables" / "ingested.yaml").write_text(INGESTED)
        os.environ |= {
            "LAKEWRIGHT_POLICY": str(self.folder / "policy.yaml"),
            "LAKEWRIGHT_TABLES": str(self.folder / "tables"),
            "LAKEWRIGHT_WAREHOUSE": str(self.warehouse),
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "GX_ANALYTICS_ENABLED": "false",
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            ROUNDS_VARIABLE: str(self.folder / "rounds"),
        }
        self.dagster, self.writers = Services(self.folder / "logs"), Services(self.folder / "logs")
        self.clients, self.usage = Clients(1.0), Usage((self.dagster, self.writers))
        self.server = DagsterServer(None, self.home, {}, port=free_port())

    def place(self, kind: Kind) -> Place:
        return Place(str(self.warehouse), kind.table, str(self.folder / "notes" / kind.name))

    def done(self, kind: Kind) -> list[int]:
        """The commits that each writer of a table is known to have made."""
        return [Notes(self.place(kind), each).done for each in range(len(kind.writers))]

    def seconds(self) -> float:
        return round(time.time() - self._began, 1)

    # --- the course -------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Carry it out; its figures."""
        threading.excepthook = lambda died: self.faults.append(f"a thread died: {died.exc_value!r}")
        java = start_java_latest(self.oracles / "java_latest", timeout_seconds=TIMEOUT_SECONDS)
        pypaimon = start_pypaimon(self.oracles / "pypaimon", timeout_seconds=TIMEOUT_SECONDS)
        readers: dict[str, Oracle | None] = {
            "lakewright": None,
            "java": java.started_by(),
            "pypaimon": pypaimon.started_by(),
        }
        with ExitStack() as stack:
            if self.fills:
                stack.enter_context(small_disk(self.warehouse))
            stack.callback(self._end_all)
            for each in (java, pypaimon, *filter(None, readers.values())):
                stack.callback(each.close)
            self._create({"java": java, "pypaimon": pypaimon})
            start_dagster(self.dagster, self.server)
            say("Dagster is ready; writing begins")
            self._began = time.time()
            stack.enter_context(self.usage)
            self._start_writers({"java": java, "pypaimon": pypaimon})
            threads = [threading.Thread(target=self._ingest), threading.Thread(target=self._kill)]
            threads += [
                threading.Thread(target=self._read_each_minute, args=each)
                for each in readers.items()
            ]
            for thread in threads:
                thread.start()
            self._watch(60 * self.minutes)
            self._end_writers(threads)
            say("writing ended; upkeep comes to rest")
            rested = self._rest()
            for name, reader in readers.items():
                self._compare(name, reader, Model(), whole=True)
            runs = list(self._runs())
            self.dagster.stop()
            rows = {kind.name: sum(self.done(kind)) * model.ROWS for kind in self.kinds}
            swept = self._sweep()
        return {
            "minutes": self.minutes,
            "kinds": [kind.name for kind in self.kinds],
            "commits": {kind.name: self.done(kind) for kind in self.kinds},
            "rows": rows,
            "rounds": self.published,
            "faults": self.faults,
            "reads": self.reads,
            "refused": self.refused,
            "failed_writes": {kind.name: self._failed_writes(kind) for kind in self.kinds},
            "kills": self.kills,
            "fulls": self.fulls,
            "ended": self.ended,
            "left": self.left,
            "runs": runs,
            "cpu_seconds": self.usage.cpu_seconds({run["process"]: run["verb"] for run in runs}),
            "rested": rested,
            "swept": swept,
            "looks": self.looks,
        }

    left: list[str] = field(default_factory=list)

    def _create(self, clients: Mapping[str, WritingOracle]) -> None:
        catalog = Catalog.open(str(self.warehouse))
        for kind in self.kinds:
            Path(self.place(kind).notes).mkdir()
            keys = ["day", "w", "id"] if kind.keyed else []
            make: Callable[..., object] = catalog.create_table
            if kind.made_by in clients:
                make = partial(clients[kind.made_by].create, self.warehouse)
            make(
                kind.table,
                model.COLUMNS,
                partition_keys=["day"],
                primary_keys=keys,
                options=kind.options,
            )

    def _start_writers(self, clients: Mapping[str, WritingOracle]) -> None:
        for kind in self.kinds:
            place = self.place(kind)
            for writer, client in enumerate(kind.writers):
                if client == "sql":
                    self.clients.start_sql(place, writer)
                elif client in clients:
                    self.clients.start_oracle(place, writer, clients[client])
                else:
                    what = (place.warehouse, place.table, place.notes, str(writer))
                    command = (sys.executable, "-m", "tests.soak.writers", *what)
                    self.writers.start(f"writer {kind.name} {writer}", *command)

    def _end_writers(self, threads: Sequence[threading.Thread]) -> None:
        self._over.set()
        for kind in self.kinds:
            self.place(kind).stop()
        for each in (*threads, *self.clients.threads):
            each.join()
        for name, process in self.writers.started.items():
            if process.wait(TIMEOUT_SECONDS):
                # It was killed just now: whether its last batch is there, it says itself.
                self.ended.append(f"{name} ended with {process.returncode}")
        self.writers.started.clear()

    def _end_all(self) -> None:
        # A second interrupt would leave processes behind.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._over.set()
        for kind in self.kinds:
            self.place(kind).stop()
        for services in (self.writers, self.dagster):
            services.stop()
            self.left += services.kill_rest()

    def _watch(self, seconds: float) -> None:
        """Start again what ended, fill the disk twice, and look at all tables."""
        full_at = [seconds / 3, 2 * seconds / 3] if self.fills else []
        next_look = 0.0
        while self.seconds() < seconds:
            for services in (self.dagster, self.writers):
                for name, code in services.restart_ended():
                    if code != -signal.SIGKILL:
                        self.ended.append(f"{name} ended with {code} at {self.seconds()} s")
            if full_at and self.seconds() >= full_at[0]:
                full_at.pop(0)
                threading.Thread(target=self._fill_disk).start()
            if self.seconds() >= next_look:
                next_look = self.seconds() + LOOK_SECONDS
                self._look()
            time.sleep(1)

    def _look(self) -> None:
        try:
            self.looks.append(
                {
                    "seconds": self.seconds(),
                    **dict(zip(("most_bytes", "sum_bytes"), self.usage.taken(), strict=True)),
                    "home_bytes": sum(size_of(self.home).values()),
                    "tables": {name: self._figures(name) for name in self._tables()},
                }
            )
        except StorageError as error:
            self.refused.append(f"look at {self.seconds()} s: {error}"[:400])

    def _tables(self) -> list[str]:
        catalog = Catalog.open(str(self.warehouse))
        return [
            f"{database}.{table}"
            for database in catalog.list_databases()
            for table in catalog.list_tables(database)
        ]

    def _figures(self, name: str) -> dict[str, int]:
        table = Catalog.open(str(self.warehouse)).table(name)
        partitions = table.at().partitions()
        buckets = [bucket for each in partitions for bucket in each.buckets]
        files = size_of(self.warehouse / name.replace(".", ".db/"))
        return {
            "live": sum(each.file_count for each in partitions),
            "runs": max((each.sorted_run_count for each in buckets), default=0),
            "snapshots": len(table.table_files.snapshots.ids()),
            "manifests": sum("/manifest/" in path for path in files),
            "disk": len(files),
            "bytes": sum(files.values()),
            "condemned": sum(each.bytes for each in table.upkeep.condemned()),
        }

    # --- what is done to it -----------------------------------------------------------------------

    def _kill(self) -> None:
        chance = random.Random(7)
        while not self._over.wait(self.kill_seconds * chance.uniform(0.5, 1.5)):
            by_role: dict[str, list[int]] = {}
            for pid, role in dict(self.usage.roles).items():
                by_role.setdefault(role, []).append(pid)
            roles = sorted(KILLED & by_role.keys())
            if roles:
                role = chance.choice(roles)
                pid = chance.choice(sorted(by_role[role]))
                self.kills.append({"seconds": self.seconds(), "role": role, "process": pid})
                say(f"{self.seconds():6.0f} s: kill -9 of {role} ({pid})")
                kill(pid)

    def _fill_disk(self) -> None:
        ballast, began = self.warehouse / ".ballast", self.seconds()
        say(f"{began:6.0f} s: the disk is full")
        ends = time.time() + FULL_SECONDS
        try:
            with ballast.open("wb", buffering=0) as file:
                while time.time() < ends:
                    try:
                        file.write(bytes(1 << 16))
                    except OSError:
                        time.sleep(0.05)
        finally:
            ballast.unlink()
            self.fulls.append((began, self.seconds()))

    def _ingest(self) -> None:
        """Ask Dagster for a day after the other."""
        number = 0
        while not self._over.is_set():
            day = DATES[number % len(DATES)]
            number += 1
            self.asked[day] += 1
            (self.folder / "rounds" / day).write_text(str(self.asked[day]))
            try:
                run = self.server.launch_assets(["soak.ingested"], partitions=(day, day))
            except UnavailableError as error:
                self.refused.append(f"ingest at {self.seconds()} s: {error}"[:300])
                self._over.wait(INGEST_SECONDS)
                continue
            status = ""
            while status not in ENDED and not (self._over.is_set() and status == "QUEUED"):
                time.sleep(2)
                with suppress(UnavailableError, StopIteration):
                    status = next(each.status for each in self.server.runs() if each.id == run)
            if status == "SUCCESS":
                self.published[day] = self.asked[day]
            self._over.wait(INGEST_SECONDS)

    # --- what is read -----------------------------------------------------------------------------

    def _read_each_minute(self, name: str, reader: Oracle | None) -> None:
        seen = Model()
        while not self._over.wait(READ_SECONDS):
            self._compare(name, reader, seen)

    def _compare(
        self, name: str, reader: Oracle | None, seen: Model, *, whole: bool = False
    ) -> None:
        for kind in self.kinds:
            least = self.done(kind)
            # A row of an append table keeps its batch, so the latest batches may be read alone.
            since = 0 if whole or kind.keyed else max(0, min(least) - LATEST_BATCHES)
            rows = self._rows(name, reader, kind.table, since)
            if rows is not None:
                most = [each + 1 for each in self.done(kind)]
                found = seen.faults(kind, rows, least, most, since)
                self.faults += [f"{self.seconds()} s, {name}: {each}" for each in found]
        before = dict(self.published)
        rows = self._rows(name, reader, "soak.ingested", None)
        if rows is None:
            return
        for day in DATES:
            found_rounds = Counter(row["round"] for row in rows if row["dt"] == day)
            expected = [{r: ROWS} for r in range(max(before[day], 1), self.asked[day] + 1)]
            if found_rounds not in [*expected, *([{}] if before[day] == 0 else [])]:
                self.faults.append(
                    f"{self.seconds()} s, {name}: soak.ingested: {day} has rows by round "
                    f"{dict(found_rounds)}, of round {before[day]} to {self.asked[day]}"
                )

    def _rows(
        self, name: str, reader: Oracle | None, table: str, since: int | None
    ) -> list[dict[str, Any]] | None:
        try:
            if reader is None:
                opened = Catalog.open(str(self.warehouse)).table(table)
                rows: list[dict[str, Any]] = opened.read(
                    f"n >= {since}" if since else None
                ).to_pylist()
            else:
                rows = reader.read(
                    self.warehouse, table, where=[("n", ">=", since)] if since else []
                )
        except (StorageError, OracleError) as error:
            if "soak.ingested" not in str(error) or self.published[DATES[0]]:
                self.refused.append(f"{name} at {self.seconds()} s: {table}: {error}"[:400])
            return None
        self.reads[name] += 1
        return rows

    # --- the end ----------------------------------------------------------------------------------

    def _rest(self) -> float | None:
        """After how many seconds nothing was due any more; None if that did not come."""
        began = time.time()
        while time.time() < began + REST_SECONDS:
            time.sleep(LOOK_SECONDS)
            for name, code in self.dagster.restart_ended():
                self.ended.append(f"{name} ended with {code} at rest")
            self._look()
            with suppress(UnavailableError):
                working = [each for each in self.server.runs(50) if each.status not in ENDED]
                catalog = Catalog.open(str(self.warehouse))
                due = [
                    kind.name
                    for kind in self.kinds
                    if catalog.table(kind.table).upkeep.plan_compact().tasks
                ]
                if not working and not due:
                    return round(time.time() - began)
        return None

    def _runs(self) -> Iterator[dict[str, Any]]:
        killed = {each["process"] for each in self.kills}
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            for record in instance.get_run_records():
                run, began, ended = record.dagster_run, record.start_time, record.end_time
                process = int(run.tags.get(PROCESS_TAG, "- 0 -").split()[-2])
                why = ""
                if run.status != dg.DagsterRunStatus.SUCCESS:
                    why = " ".join(self.server.failure_of(run.run_id).split())[:400]
                    if process in killed:
                        why = "killed"
                    elif any(a <= (ended or 0) - self._began <= b + 30 for a, b in self.fulls):
                        why = f"disk full: {why}"
                yield {
                    "verb": run.tags.get(VERB_TAG, ""),
                    "status": run.status.value,
                    "seconds": round((ended or 0) - (began or 0), 1),
                    "process": process,
                    "why": why,
                }

    def _sweep(self) -> dict[str, int]:
        """Remove what the dead left behind; how many files of each table that was."""
        swept = {}
        for name in self._tables():
            table = Catalog.open(str(self.warehouse)).table(name)
            self.faults += [f"{name} lacks {path}" for path in missing_files(table)]
            swept[name] = len(unreachable_files(table))
            sweep(table)
            self.faults += [f"{name} keeps {path} for nothing" for path in unreachable_files(table)]
        return swept

    def _failed_writes(self, kind: Kind) -> list[str]:
        return [
            line
            for writer in range(len(kind.writers))
            for line in self.place(kind).told(Notes(self.place(kind), writer).role)
        ]


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk in memory that a soak can fill, which needs root."""
    mount = ("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder))
    subprocess.run(mount, check=True)
    try:
        yield
    finally:
        subprocess.run(("umount", "-l", str(folder)), check=True)


def size_of(folder: Path) -> dict[str, int]:
    """The files below a folder, with their bytes; they may go meanwhile."""
    found = {}
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                found[f"{above}/{name}"] = Path(above, name).stat().st_size
    return found


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    # Ends all processes, as an interrupt does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--minutes", type=float, default=60)
    arguments.add_argument("--kill-seconds", type=float, default=90)
    arguments.add_argument("--tables", nargs="*", default=[kind.name for kind in model.KINDS])
    arguments.add_argument("--oracles", type=Path, default=ROOT / ".oracles")
    arguments.add_argument("--no-full-disk", action="store_true")
    given = arguments.parse_args()
    kinds = tuple(kind for kind in model.KINDS if kind.name in given.tables)
    fills = not given.no_full_disk and os.geteuid() == 0
    folder = given.folder.absolute()
    soak = Soak(folder, given.oracles.absolute(), given.minutes, given.kill_seconds, kinds, fills)
    found = soak.run()
    (folder / "soak.json").write_text(json.dumps(found))
    told = "\n".join(markdown(found)) + "\n"
    (folder / "soak.md").write_text(told)
    say(told)
    sys.exit(bool(found["faults"]))


if __name__ == "__main__":
    main()
