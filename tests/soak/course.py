"""The course of a soak: tables, processes, kills, outages, and what is left in the end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lakewright.demo.dagster_server import ENDED, DagsterServer, free_port
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError, UnavailableError
from tests.kills.processes import kill
from tests.oracles.client import WritingOracle, start_java_latest, start_pypaimon
from tests.soak import model
from tests.soak.disk import fill, leave_strays, small_disk, write_whole
from tests.soak.figures import Figures
from tests.soak.model import Kind, Model
from tests.soak.outside import PASSWORD_VARIABLE, Kafka, Postgres, Server
from tests.soak.reading import Duckdb, Foreign, Reader, Reading, behind
from tests.soak.report import markdown, svg
from tests.soak.services import (
    CODE,
    DAEMON,
    FLINK,
    FORKS,
    RUN,
    SPARK,
    SQL,
    WEB,
    WRITER,
    Services,
    Usage,
    say,
    start_dagster,
)
from tests.soak.source import DATES, INGESTED, POLICY, ROUNDS_VARIABLE, SMALL_FILES
from tests.soak.writers import Clients, Notes
from tests.support.processes.killing import Place
from tests.support.stores.servers import SECRET

ROOT = Path(__file__).parents[2]
# Two streams stay for their time, beside an ingest and upkeep.
RUNS_AT_ONCE = 4
LOOK_SECONDS, READ_SECONDS, INGEST_SECONDS, WRITE_SECONDS = 15, 60, 20, 60
REST_SECONDS, FULL_SECONDS, AWAY_SECONDS, TIMEOUT_SECONDS = 600, 20, 60, 600
KILLED = {WRITER, SQL, DAEMON, WEB, CODE, RUN, FORKS, FLINK, SPARK}
# When the servers go away, and the disk is full, in parts of the time.
AWAY_AT, FULL_AT = (0.2, 0.5), (1 / 3, 2 / 3)


@dataclass(frozen=True)
class Given:
    """What a soak is asked for."""

    folder: Path
    oracles: Path
    flink: Path
    minutes: float
    kill_seconds: float
    pause_seconds: float
    kinds: tuple[Kind, ...]
    fills: bool


@dataclass
class Soak:
    """One soak: its folder, its processes, and what was seen.

    `faults` are rows and files that are not as they have to be. `flaws` are of this program, which
    goes on after them.
    """

    given: Given
    kills: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    flaws: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    fulls: list[tuple[float, float]] = field(default_factory=list)
    rested: float | None = None
    swept: dict[str, int] = field(default_factory=dict)
    # By day: the round that the last successful run published, and the last that was asked for.
    published: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DATES, 0))
    asked: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DATES, 0))
    servers: list[Server] = field(default_factory=list)
    is_over: bool = False
    # Nothing is written any more, and nothing is there any more.
    _over: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _began: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        given = self.given
        self.folder, self.kinds = given.folder, given.kinds
        self.warehouse, self.home = self.folder / "warehouse", self.folder / "home"
        for name in ("warehouse", "home", "notes", "logs", "tables", "rounds", "flink", "spark"):
            (self.folder / name).mkdir(parents=True)
        settings = (ROOT / "dagster_home" / "dagster.yaml").read_text()
        (self.home / "dagster.yaml").write_text(
            settings.replace("max_concurrent_runs: 2", f"max_concurrent_runs: {RUNS_AT_ONCE}")
        )
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
            PASSWORD_VARIABLE: SECRET,
        }
        logs = self.folder / "logs"
        self.dagster, self.writers, self.jobs = Services(logs), Services(logs), Services(logs)
        self.services = (self.dagster, self.writers, self.jobs)
        self.clients, self.usage = Clients(given.pause_seconds, self.guard), Usage(self.services)
        self.server = DagsterServer(None, self.home, {}, port=free_port())
        self.reading = Reading(
            self.kinds,
            self.done,
            self.seconds,
            self.published,
            self.asked,
            self.faults,
            warehouse=self.warehouse,
        )
        by_table = {kind.table: kind for kind in self.kinds}
        self.figures = Figures(self.warehouse, self.home, self.server, by_table)

    def place(self, kind: Kind) -> Place:
        return Place(str(self.warehouse), kind.table, str(self.folder / "notes" / kind.name))

    def done(self, kind: Kind) -> list[int]:
        """The commits that each writer of a table is known to have made."""
        return [Notes(self.place(kind), each).done for each in range(len(kind.writers))]

    def seconds(self) -> float:
        return round(time.time() - self._began, 1)

    @contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Go on after what is wrong with this program, and say so."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - an hour is not lost for it
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            self.flaws.append(f"{self.seconds()} s, {what}: {error!r} at {where}"[:500])
            say(f"{self.seconds():6.0f} s: FLAW: {self.flaws[-1]}")
            time.sleep(1)

    # --- the course -------------------------------------------------------------------------------

    def run(self) -> None:
        """Carry it out, and write down what was found."""
        with ExitStack() as stack:
            if self.given.fills:
                stack.enter_context(small_disk(self.warehouse))
            stack.callback(self._end_all)
            clients = self._clients(stack)
            readers = self._readers(stack, clients)
            sources = self._sources(stack)
            self._create(clients)
            start_dagster(self.dagster, self.server)
            say("Dagster is ready; writing begins")
            self._began = time.time()
            stack.enter_context(self.usage)
            self._start_writers(clients, sources)
            threads = [
                threading.Thread(target=self._guarded, args=each)
                for each in (
                    ("ingest", self._ingest),
                    ("kills", self._kill),
                    *((reader.name, partial(self._read_each_minute, reader)) for reader in readers),
                )
            ]
            for thread in (*threads, threading.Thread(target=self._send_servers_away)):
                thread.start()
            self._watch(60 * self.given.minutes)
            self._end_writers(threads)
            say("writing ended; upkeep comes to rest")
            with self.guard("rest"):
                self.rested = self._rest()
            for kind in self.kinds:
                if kind.published:
                    with self.guard(f"publication of {kind.table}"):
                        Catalog.open(str(self.warehouse)).table(kind.table).upkeep.publish_iceberg()
            for reader in readers:
                with self.guard(f"last read by {reader.name}"):
                    self.reading.compare(reader, Model(), whole=True)
            with self.guard("log"):
                self._compare_log(sources)
            with self.guard("runs"):
                self.figures.read_runs(self)
            self.dagster.stop()
            with self.guard("sweep"):
                self._sweep()
            self.is_over = True
            self.record()
        self.record()

    def _guarded(self, what: str, work: Callable[[], None]) -> None:
        while not self._over.is_set():
            with self.guard(what):
                work()

    def _clients(self, stack: ExitStack) -> dict[str, WritingOracle]:
        starts: dict[str, tuple[str, Callable[..., WritingOracle]]] = {
            "java": ("java_latest", start_java_latest),
            "pypaimon": ("pypaimon", start_pypaimon),
        }
        clients: dict[str, WritingOracle] = {}
        for name, (home, start) in starts.items():
            if (self.given.oracles / home).exists():
                clients[name] = start(self.given.oracles / home, timeout_seconds=TIMEOUT_SECONDS)
                stack.callback(clients[name].close)
        return clients

    def _readers(self, stack: ExitStack, clients: Mapping[str, WritingOracle]) -> list[Reader]:
        readers: list[Reader] = [Reader(self.warehouse)]
        for name, client in clients.items():
            reader = client.started_by()
            stack.callback(reader.close)
            readers.append(Foreign(self.warehouse, name, reader))
        python = self.given.oracles / "duckdb_iceberg" / "bin" / "python"
        readers.append(Duckdb(self.warehouse, python=python))
        if not python.exists():
            say(f"left out: Iceberg metadata read by DuckDB: it is not at {python}: make oracles")
        return readers

    def _sources(self, stack: ExitStack) -> dict[str, Postgres | Kafka]:
        sources: dict[str, Postgres | Kafka] = {}
        wanted = {client for kind in self.kinds for client in kind.writers}
        if "postgres" in wanted:
            postgres = sources["captured"] = Postgres()
            stack.callback(postgres.remove)
        if "kafka" in wanted:
            sources["topic"] = Kafka(self.folder / "kafka")
        kafka = sources.get("topic")
        broker = kafka.address if isinstance(kafka, Kafka) else None
        for name, source in sources.items():
            self.servers.append(stack.enter_context(source.server))
            source.create()
            text = source.declaration(broker)
            (self.folder / "tables" / f"{name}.yaml").write_text(text)
        return sources

    def _create(self, clients: Mapping[str, WritingOracle]) -> None:
        catalog = Catalog.open(str(self.warehouse))
        for kind in self.kinds:
            Path(self.place(kind).notes).mkdir()
            if kind.made_by == "dagster":
                continue
            keys = ["day", "w", "id"] if kind.keyed else []
            if kind.folders:
                catalog.create_format_table(kind.table, model.COLUMNS, partition_keys=["day"])
                continue
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
            leave_strays(self.warehouse / kind.table.replace(".", ".db/"))

    def _start_writers(
        self, clients: Mapping[str, WritingOracle], sources: Mapping[str, Postgres | Kafka]
    ) -> None:
        python = (sys.executable, "-W", "ignore", "-m")
        for kind in self.kinds:
            place = self.place(kind)
            for writer, client in enumerate(kind.writers):
                what = [place.warehouse, place.table]
                if client == "sql":
                    self.clients.start_sql(place, writer)
                elif client in clients:
                    self.clients.start_oracle(place, writer, clients[client])
                elif kind.name in sources:
                    self._fill(kind, sources[kind.name])
                elif client == "flink":
                    what += [str(self.folder / "flink"), str(self.given.flink)]
                    self.jobs.start(FLINK, *python, "tests.soak.jobs", "flink", *what)
                elif client == "spark":
                    what.append(str(self.folder / "spark"))
                    self.jobs.start(SPARK, *python, "tests.soak.jobs", "spark", *what)
                else:
                    what += [place.notes, str(writer), str(self.given.pause_seconds)]
                    name = f"{WRITER} {kind.name} {writer}"
                    self.writers.start(name, *python, "tests.soak.writers", *what)

    def _fill(self, kind: Kind, source: Postgres | Kafka) -> None:
        place, noted = self.place(kind), self.reading.noted.setdefault(kind.name, [])
        self.clients.start_source(
            place,
            source.is_followed,
            lambda rows: source.write(rows, self._over.is_set),
            lambda number: noted.append(self.seconds()),
        )

    def _end_writers(self, threads: Sequence[threading.Thread]) -> None:
        self._over.set()
        for kind in self.kinds:
            self.place(kind).stop()
        for each in (*threads, *self.clients.threads):
            each.join()
        self.jobs.stop()
        self.jobs.kill_rest()
        for name, process in self.writers.started.items():
            try:
                code = process.wait(TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self.faults.append(f"{name} does not end")
                continue
            if code:
                # It was killed just now: whether its last batch is there, it says itself.
                self.ended.append(f"{name} ended with {process.returncode}")
        self.writers.started.clear()

    def _end_all(self) -> None:
        # A second interrupt would leave processes behind.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._over.set()
        self._ended.set()
        for kind in self.kinds:
            self.place(kind).stop()
        for services in self.services:
            services.stop()
            self.left += services.kill_rest()

    def _watch(self, seconds: float) -> None:
        """Start again what ended, fill the disk, look at all tables, and write it down."""
        full_at = [at * seconds for at in FULL_AT] if self.given.fills else []
        next_look, next_write = 0.0, WRITE_SECONDS
        while self.seconds() < seconds:
            with self.guard("watch"):
                self._restart_ended()
                if full_at and self.seconds() >= full_at[0]:
                    full_at.pop(0)
                    threading.Thread(target=self._fill_disk).start()
                if self.seconds() >= next_look:
                    next_look = self.seconds() + LOOK_SECONDS
                    self._look()
                if self.seconds() >= next_write:
                    next_write += WRITE_SECONDS
                    self.figures.read_runs(self)
                    self.record()
            time.sleep(1)

    def _restart_ended(self) -> None:
        for services in self.services:
            for name, code in services.restart_ended():
                if code == -signal.SIGKILL:
                    continue
                now = self.seconds()
                role = WRITER if name.startswith(WRITER) else name
                last = max((k["seconds"] for k in self.kills if k["role"] == role), default=-60.0)
                after = ", after a kill of one of its processes" if last > now - 60 else ""
                self.ended.append(f"{name} ended with {code} at {now} s{after}")

    def _look(self) -> None:
        taken = dict(zip(("most_bytes", "sum_bytes"), self.usage.taken(), strict=True))
        self.figures.look(self.seconds(), taken)

    def record(self) -> None:
        """Write down what was found so far."""
        found = self.figures.found(self)
        write_whole(self.folder / "soak.json", json.dumps(found))
        write_whole(self.folder / "soak.md", "\n".join(markdown(found)) + "\n")
        if found["looks"]:
            write_whole(self.folder / "soak.svg", svg(found["looks"]))

    # --- what is done to it -----------------------------------------------------------------------

    def _kill(self) -> None:
        chance = random.Random(7)
        while not self._over.wait(self.given.kill_seconds * chance.uniform(0.5, 1.5)):
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

    def _send_servers_away(self) -> None:
        """One after the other; a server ends with the thread that started it, so it stays."""
        seconds = 60 * self.given.minutes
        for at, server in zip(AWAY_AT, self.servers, strict=False):
            if self._over.wait(max(0.0, at * seconds - self.seconds())):
                break
            say(f"{self.seconds():6.0f} s: {server.name} goes away")
            server.go_away(self.seconds())
            self._over.wait(min(AWAY_SECONDS, seconds / 6))
            while server.since is not None and not self._ended.is_set():
                with self.guard(f"end of the outage of {server.name}"):
                    server.come_back(self.seconds)
                    say(f"{self.seconds():6.0f} s: {server.name} is back")
        self._ended.wait()

    def _fill_disk(self) -> None:
        began = self.seconds()
        say(f"{began:6.0f} s: the disk is full")
        with self.guard("full disk"):
            fill(self.warehouse, FULL_SECONDS)
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
                self.reading.refused.append(f"ingest at {self.seconds()} s: {error}"[:300])
                self._over.wait(INGEST_SECONDS)
                continue
            status, until = "", time.time() + TIMEOUT_SECONDS
            while status not in ENDED and time.time() < until:
                if self._over.is_set() and status in ("", "QUEUED"):
                    break
                time.sleep(2)
                with suppress(UnavailableError, StopIteration):
                    status = next(each.status for each in self.server.runs() if each.id == run)
            if status == "SUCCESS":
                self.published[day] = self.asked[day]
            self._over.wait(INGEST_SECONDS)

    def _read_each_minute(self, reader: Reader) -> None:
        seen = Model()
        while not self._over.wait(READ_SECONDS):
            with self.guard(f"read by {reader.name}"):
                self.reading.compare(reader, seen)

    # --- the end ----------------------------------------------------------------------------------

    def _rest(self) -> float | None:
        """After how many seconds nothing was due any more; None if that did not come."""
        began, unended = time.time(), [f"upkeep did not come to rest in {REST_SECONDS} s"]
        while time.time() < began + REST_SECONDS:
            time.sleep(LOOK_SECONDS)
            self._restart_ended()
            self._look()
            with suppress(UnavailableError, StorageError):
                working = [
                    f"run {each.verb or each.job} is {each.status}"
                    for each in self.server.runs(50)
                    if each.status not in ENDED
                ]
                catalog = Catalog.open(str(self.warehouse))
                due = [
                    f"{kind.table} is to be compacted"
                    for kind in self.kinds
                    if not kind.folders and catalog.table_exists(kind.table)
                    for part in catalog.table(kind.table).at().partitions()
                    if any(each.sorted_run_count >= SMALL_FILES for each in part.buckets)
                ]
                late = list(behind(self.reading))
                if not (working or due or late):
                    return round(time.time() - began)
                unended = [*working, *due, *late]
        self.ended += unended
        return None

    def _compare_log(self, sources: Mapping[str, Postgres | Kafka]) -> None:
        kafka, kind = sources.get("topic"), model.BY_NAME["captured"]
        if isinstance(kafka, Kafka) and kind in self.kinds:
            self.faults += kafka.log_faults(kind.table, Reader(self.warehouse).rows(kind, 0))

    def _sweep(self) -> None:
        """Remove what the dead left behind; how many files of each table that was."""
        for name, (missing, swept, kept) in self.figures.sweep():
            self.faults += [f"{name} lacks {path}" for path in missing]
            self.faults += [f"{name} keeps {path} for nothing" for path in kept]
            self.swept[name] = swept
