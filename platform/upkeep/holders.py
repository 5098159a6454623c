"""Holders of leases: the text by which each process of a machine knows whether a holder lives."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from pathlib import Path

_HOLDER = re.compile(
    r".* on (?P<host>\S+), process (?P<process>\d+) "
    r"\((?P<machine>[0-9a-f]{12})-(?P<started>\d+)\)",
    re.DOTALL,
)
_PROC = Path("/proc")


def here(work: str) -> str:
    """The holder's name for some work in this process.

    It has what tells the process from later ones of its number, where the system tells that.
    """
    process = os.getpid()
    holder = f"{work} on {socket.gethostname()}, process {process}"
    machine, started = _machine(), _started(process)
    return holder if machine is None or not started else f"{holder} ({machine}-{started})"


def has_ended(holder: str) -> bool:
    """Whether a holder was a process of this machine, since its start, that is no more.

    False where that is not certain: of another machine, or of a text that does not tell.
    """
    told = _HOLDER.fullmatch(holder)
    if told is None or told["host"] != socket.gethostname() or told["machine"] != _machine():
        return False
    process = int(told["process"])
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        # It may belong to another user.
        pass
    started = _started(process)
    return started is not None and started != told["started"]


def _machine() -> str | None:
    """This run of the system, and the numbering of its processes and their times; None if unknown.

    Containers may share the name of a host, and each has numbers of its own.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        numbering = [(_PROC / "self/ns" / name).readlink() for name in ("pid", "time")]
        # Another container's /proc may be mounted here, with other numbers.
        if (_PROC / "self").readlink().name != str(os.getpid()):
            return None
    except OSError:
        return None
    told = " ".join([boot.strip(), *map(str, numbering)])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def _started(process: int) -> str | None:
    """When a process started, as the system counts: empty if it has ended, None if unknown."""
    try:
        fields = (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
        # A process that has ended keeps its number until its parent asks for it. One whose first
        # thread has ended looks alike, and has others.
        return "" if fields[0] in "ZX" and int(fields[17]) <= 1 else fields[19]
    except (OSError, IndexError, ValueError):
        return None
