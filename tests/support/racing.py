"""What racing processes run: importable, so that each finds it by name."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier

from lakewright.storage import Catalog
from lakewright.storage.files.file_systems import open_file_system
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
