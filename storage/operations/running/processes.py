"""Which process holds a lease or a record, so that others on its machine know when it is dead.

A process is its number, with the boot of the machine, the namespace that the number counts in, and
the time at which it started: numbers are used again. Source: proc(5).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
# The fields of /proc/PID/stat after the name, which may hold blanks: the state is the first.
_STATE, _STARTED = 0, 19
_DEAD = {"Z", "X", "x"}


def this_process() -> str:
    """The name of this process; empty where the system does not tell."""
    with suppress(OSError):
        started = _started(os.getpid())
        if started is not None:
            return f"{_machine()} {os.getpid()} {started}"
    return ""


def is_dead(process: str) -> bool:
    """Whether a process of this machine has ended; False for all that is not known."""
    machine, _, number = process.rpartition(" ")[0].rpartition(" ")
    with suppress(OSError, ValueError):
        return machine == _machine() and _started(int(number)) != process.rpartition(" ")[2]
    return False


def is_alive_beside(process: str) -> bool:
    """Whether another process of this machine is known to live; False for all that is not known.

    This one may have gone on after a verb that failed, so that it lives says nothing.
    """
    machine, _, number = process.rpartition(" ")[0].rpartition(" ")
    with suppress(OSError, ValueError):
        is_here = machine == _machine() and int(number) != os.getpid()
        return is_here and _started(int(number)) == process.rpartition(" ")[2]
    return False


def _machine() -> str:
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"


def _started(pid: int) -> str | None:
    """When a process started; None if there is none of that number."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    except FileNotFoundError:
        # A system may hide the processes of other users from /proc: they are not known.
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            raise
        return None
    return None if fields[_STATE] in _DEAD else fields[_STARTED]
