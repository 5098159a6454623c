"""The process of a run: a tag names it, by which each process of its machine knows if it lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path

# The machine, the process and when it started, since numbers of processes come back.
# Dagster's pages leave out tags with this prefix, and the tag is of no use to a person.
PROCESS_TAG = ".dagster/lakewright_process"


def process_identity(process: int) -> str:
    """What the tag of a run says of its process."""
    return f"{_machine()} {process} {_started(process)}"


def is_of_this_machine(identity: str) -> bool:
    """Whether a tag names a process that can be looked up here."""
    return identity.startswith(f"{_machine()} ")


def living_process(identity: str) -> int | None:
    """The process that a tag names, if it lives on this machine."""
    _, process, started = identity.rsplit(" ", 2)
    if not is_of_this_machine(identity) or _started(int(process)) != started:
        return None
    return int(process)


def _machine() -> str:
    """The host, and the numbering of its processes: containers may share the name of a host."""
    try:
        return f"{socket.gethostname()}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()


def _started(process: int) -> str:
    """When a process started, as the system counts: `-` if it has ended, `?` if unknown."""
    if not Path("/proc/self/stat").exists():
        return "?" if _exists(process) else "-"
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "-"
    # A process that has ended keeps its number until its parent asks for it.
    return "-" if fields[0] == "Z" else fields[19]


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True
