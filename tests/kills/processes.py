"""Processes that a test started: which they are, and ending them without a word."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def kill(pid: int) -> None:
    """End a process at once, if it has not ended by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that they started, youngest first."""
    children: dict[int, list[int]] = {}
    for each, (parent, _) in _parents_and_sessions().items():
        children.setdefault(parent, []).append(each)
    found, waiting = [], [pid]
    while waiting:
        own = children.get(waiting.pop(), [])
        found += own
        waiting += own
    return sorted(found, reverse=True)


def of_session(pid: int) -> list[int]:
    """Processes of the session that a process leads, also those whose parents are gone."""
    return [each for each, (_, session) in _parents_and_sessions().items() if session == pid]


def command_of(pid: int) -> str:
    """How a process was started; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _parents_and_sessions() -> dict[int, tuple[int, int]]:
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(status.parent.name)] = (int(fields[1]), int(fields[3]))
    return found
