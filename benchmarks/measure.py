"""Time, CPU and peak memory of a piece of work, over the processes that do it.

Standard library only: every environment imports it. Memory is the sum of the high-water
marks of this process and its descendants, reset before the work begins (Linux counts
them in `/proc`); pages that forked processes share are counted for each of them.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

_PROC = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_RESET_HIGH_WATER_MARK = "5"


def measured(work: Callable[[], Result]) -> tuple[Result, dict[str, Any]]:
    """Run the work; returns its result, and its time, CPU and memory."""
    gc.collect()
    before = _family()
    for process in before:
        with suppress(OSError):
            (_PROC / str(process) / "clear_refs").write_text(_RESET_HIGH_WATER_MARK)
    before_bytes = sum(_status_bytes(process, "VmRSS") for process in before)
    cpu_before = _cpu_seconds(before)
    began = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began
    after = _family()
    return result, {
        "seconds": seconds,
        "cpu_seconds": _cpu_seconds(after) - cpu_before,
        "before_bytes": before_bytes,
        "peak_bytes": sum(_status_bytes(process, "VmHWM") for process in after),
    }


def _family() -> list[int]:
    """This process and its descendants."""
    parents: dict[int, int] = {}
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                parents[int(entry.name)] = int(_stat_fields(int(entry.name))[1])
    family = [os.getpid()]
    for process in family:
        family += [child for child, parent in parents.items() if parent == process]
    return family


def _stat_fields(process: int) -> list[str]:
    """The fields of a process's stat after its name, which may hold spaces: state comes first."""
    return (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()


def _cpu_seconds(processes: list[int]) -> float:
    """CPU time of processes, and of children they have waited for."""
    ticks = 0
    for process in processes:
        with suppress(OSError):
            ticks += sum(int(field) for field in _stat_fields(process)[11:15])
    return ticks / _TICKS_PER_SECOND


def _status_bytes(process: int, name: str) -> int:
    with suppress(OSError):
        for line in (_PROC / str(process) / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
