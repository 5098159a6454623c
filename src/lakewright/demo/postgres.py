"""A PostgreSQL of our own, in a folder that is deleted: on loopback, with a password."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from lakewright.demo.dagster_server import free_port
from lakewright.project.report_server import HOST
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import UnavailableError

# Where Debian and Ubuntu put the programs of the server, which are not on the PATH.
_DEBIAN = "/usr/lib/postgresql"
_START_SECONDS, _POLL_MS = 60, 100
USER = "shop"


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server that runs; the database has the name of the user."""

    port: int
    password: str = field(repr=False)


def lacks_postgres() -> str | None:
    """Why there can be no server here; None if there can."""
    if find_spec("psycopg") is None:
        return "psycopg is not installed (extra postgres)"
    if _program("postgres") is None:
        return "there is no PostgreSQL server (apt-get install postgresql)"
    is_root = os.geteuid() == 0
    return "a PostgreSQL server does not run as root" if is_root and not _as_nobody() else None


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server that keeps the changes of its tables for readers.

    Raises:
        UnavailableError: it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="lakewright-shop-") as folder:
        # The server's user may enter no other folder of another user.
        found = Postgres(free_port(), SystemEnv().new_id())
        given, data = Path(folder, "password"), Path(folder, "data")
        given.write_text(found.password)
        before = _as_nobody()
        for each in (folder, given) if before else ():
            shutil.chown(each, "nobody")
        making = ["-D", str(data), "-U", USER, "-A", "scram-sha-256", f"--pwfile={given}"]
        made = subprocess.run(
            [*before, str(_program("initdb")), *making, "--no-sync"],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise UnavailableError(f"initdb of {data} failed: {made.stderr.strip()}")
        settings = ["-h", HOST, "-p", str(found.port), "-k", "", "-c", "wal_level=logical"]
        server = subprocess.Popen(
            [*before, str(_program("postgres")), "-D", str(data), *settings, "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # An interrupt of the terminal is for the demo, which ends the server last.
            start_new_session=True,
        )
        try:
            _wait_until_ready(found, server)
            yield found
        finally:
            server.terminate()
            server.wait()


def _wait_until_ready(found: Postgres, server: subprocess.Popen[bytes]) -> None:
    env = SystemEnv()
    until_ms = env.now_ms() + _START_SECONDS * 1000
    ask = [str(_program("pg_isready")), "-q", "-h", HOST, "-p", str(found.port), "-U", USER]
    while subprocess.run(ask, check=False).returncode:
        if server.poll() is not None or env.now_ms() > until_ms:
            raise UnavailableError(f"PostgreSQL did not start on port {found.port}")
        env.sleep_ms(_POLL_MS)


def _program(name: str) -> str | None:
    """The newest one, if several are installed."""
    versions = sorted(Path(_DEBIAN).glob("*/bin"), key=lambda each: int(each.parent.name))
    folders = os.pathsep.join([*map(str, reversed(versions)), os.environ.get("PATH", "")])
    return shutil.which(name, path=folders)


def _as_nobody() -> list[str]:
    """What runs a command as another user, if this one is root."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() or setpriv is None:
        return []
    # The server ends with this process, even if that is killed.
    return [setpriv, "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--pdeathsig", "TERM"]
