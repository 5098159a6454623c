"""What racing processes run: importable, so that each finds it by name."""

from __future__ import annotations

import os
from multiprocessing.synchronize import Barrier
from pathlib import Path

from lakewright.storage import Catalog, LeaseKind
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.operations.leases import (
    LeaseRequest,
    leased,
    whole_table,
)
from tests.support.builders import events, rows

BARRIERS: list[Barrier] = []


def share(barrier: Barrier) -> None:
    """Give a new process the barrier that all wait at."""
    BARRIERS.append(barrier)


def put_each(folder: str, writer: int, targets: int) -> list[int]:
    """Try to create every target first; which ones this process won."""
    fs, root = open_file_system(folder)
    won = []
    for target in range(targets):
        BARRIERS[-1].wait()
        if fs.put_if_absent(f"{root}/target-{target}", f"{writer}:{target}".encode() * 1000):
            won.append(target)
    return won


def append_many(warehouse: str, name: str, writer: int, commits: int) -> int:
    """Commit rows one by one while others do the same; how often another came first."""
    table = Catalog.open(warehouse).table(name)
    attempts = 0
    BARRIERS[-1].wait()
    for number in range(commits):
        new = rows(table, events(1000 * writer + number, 1000 * writer + number + 1))
        attempts += table.write(new).attempts
    return attempts - commits


def hold_one_by_one(warehouse: str, name: str, folder: str, times: int) -> int:
    """Hold a lease again and again while others do the same; how often nobody else had it too."""
    files = Catalog.open(warehouse).table(name).files
    request = LeaseRequest(
        kind=LeaseKind.COMPACT, scope=whole_table(files), holder=f"process {os.getpid()}"
    )
    alone = 0
    BARRIERS[-1].wait()
    for _ in range(times):
        with leased(files, request, wait_ms=100_000):
            mark = Path(folder) / "somebody"
            mark.touch(exist_ok=False)
            # Long enough for another to come, if it could.
            files.snapshots.ids()
            mark.unlink()
            alone += 1
    return alone
