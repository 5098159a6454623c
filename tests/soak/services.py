"""Dagster as it is deployed, a daemon and a web server as services, and what all processes use.

A service that ended is started again, as a service manager does. `Usage` samples memory and CPU of
every process of the soak, by what it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import dagster as dg

from lakewright.demo.dagster_server import DagsterServer
from lakewright.project.report_server import HOST
from lakewright.project.serve import LOCATION
from tests.kills.processes import command_of, kill

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
DAEMON, WEB, CODE, RUN, FORKS = "daemon", "web server", "code server", "run", "fork server"
WRITER, SQL, REST, OTHER = "writer", "sql", "soak, readers and other clients", "other"
FLINK, SPARK = "flink job", "spark stream"
_START_SECONDS = 300


@dataclass
class Services:
    """Processes with a command each, which are started again when they end; a context."""

    folder: Path
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    # The names of all that were started, also those whose parents are gone.
    sessions: dict[int, str] = field(default_factory=dict)

    def start(self, name: str, *command: str) -> None:
        self.commands[name] = command
        with (self.folder / f"{name.replace(' ', '-')}.log").open("ab") as log:
            self.started[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.sessions[self.started[name].pid] = name

    def restart_ended(self) -> list[tuple[str, int]]:
        """Start again what has ended; the names and exit codes."""
        ended = [(name, each.poll()) for name, each in self.started.items()]
        for name, code in ended:
            if code is not None:
                self.start(name, *self.commands[name])
        return [(name, code) for name, code in ended if code is not None]

    def stop(self) -> None:
        while self.started:
            _, process = self.started.popitem()
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kill_rest(self) -> list[str]:
        """End what is left of all sessions; the commands of what was."""
        left = [pid for pid, each in processes().items() if each.session in self.sessions]
        told = [command_of(pid)[:100] for pid in left]
        for pid in left:
            kill(pid)
        return told


def start_dagster(services: Services, server: DagsterServer) -> None:
    """The daemon and the web server, as docs/how-to/deploying.md starts them."""
    python = (sys.executable, "-W", "ignore", "-m")
    # Dagster's SQLite files may not be made by two processes at once.
    dg.DagsterInstance.from_config(str(server.home)).dispose()
    services.start(DAEMON, *python, "dagster._daemon", "run", "-m", LOCATION)
    at = ("--host", HOST, "-p", str(server.port))
    services.start(WEB, *python, "dagster_webserver", "-m", LOCATION, *at)
    latest = time.monotonic() + _START_SECONDS
    while not server._is_ready():
        assert time.monotonic() < latest, f"Dagster does not start; see {services.folder}"
        time.sleep(1)


@dataclass(frozen=True)
class Process:
    """What the system says of a process."""

    parent: int
    session: int
    cpu_seconds: float
    rss_bytes: int
    started: str


def processes() -> dict[int, Process]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        cpu = (int(stat[11]) + int(stat[12])) / _TICKS
        rss = int(stat[21]) * _PAGE_BYTES
        found[int(path.parent.name)] = Process(int(stat[1]), int(stat[3]), cpu, rss, stat[19])
    return found


@dataclass
class Usage:
    """CPU and memory by role, sampled each second in a thread; a context."""

    services: Sequence[Services]
    # CPU of a process, which keeps its last value when it has ended.
    _cpu: dict[tuple[int, str], tuple[str, float]] = field(default_factory=dict)
    # Resident bytes of the largest process of a role, and of all of them, since the last look.
    most: dict[str, int] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)
    roles: dict[int, str] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    def _loop(self) -> None:
        while not self._over.wait(1):
            self.sample()

    def sample(self) -> None:
        now, most, sums = processes(), dict[str, int](), dict[str, int]()
        roles = dict(self._roles(now))
        for pid, role in roles.items():
            each = now[pid]
            self._cpu[pid, each.started] = role, each.cpu_seconds
            most[role] = max(most.get(role, 0), each.rss_bytes)
            sums[role] = sums.get(role, 0) + each.rss_bytes
        self.roles = roles
        for kept, new in ((self.most, most), (self.sums, sums)):
            for role, size in new.items():
                kept[role] = max(kept.get(role, 0), size)

    def taken(self) -> tuple[dict[str, int], dict[str, int]]:
        """The most bytes since the last call: of one process of each role, and of all of it."""
        found = self.most, self.sums
        self.most, self.sums = {}, {}
        return found

    def _roles(self, now: Mapping[int, Process]) -> Iterator[tuple[int, str]]:
        sessions = {
            session: name
            for services in self.services
            for session, name in list(services.sessions.items())
        }
        for pid, each in now.items():
            if pid in sessions:
                yield pid, WRITER if sessions[pid].startswith(WRITER) else sessions[pid]
            elif pid == os.getpid() or each.parent == os.getpid():
                yield pid, SQL if "lakewright.cli" in command_of(pid) else REST
            elif sessions.get(each.session) == SPARK:
                # Its Java, and Python that works for it.
                yield pid, SPARK
            elif each.session in sessions:
                command = command_of(pid)
                if "multiprocessing.forkserver" in command:
                    is_run = "multiprocessing.forkserver" in command_of(each.parent)
                    yield pid, RUN if is_run else FORKS
                elif "grpc" in command:
                    yield pid, CODE
                elif command:
                    # One that has ended has no command until its parent asks for it.
                    yield pid, OTHER

    def cpu_seconds(self, verbs: Mapping[int, str]) -> dict[str, float]:
        """CPU by role; that of runs by whether they are of upkeep, by their processes."""
        found: dict[str, float] = defaultdict(float)
        for (pid, _), (role, seconds) in self._cpu.items():
            what = role
            if role == RUN:
                what = "runs of upkeep" if verbs.get(pid) else "runs of ingest"
            found[what] += seconds
        return {role: round(seconds, 1) for role, seconds in sorted(found.items())}


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
