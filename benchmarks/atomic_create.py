"""How often two processes of pypaimon both create one file on a local disk, as commits create one.

`.oracles/pypaimon/bin/python -m benchmarks.atomic_create FOLDER [--files 20000]`, unmodified
pypaimon. Both come to each name at about the same time, which is the worst case.
"""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import argparse
import multiprocessing
import time
from pathlib import Path
from typing import Any

from pypaimon.common.options import Options
from pypaimon.filesystem.local_file_io import LocalFileIO

_APART_SECONDS = 0.0006


def create_all(folder: Path, who: int, files: int, begins: float, won: Any) -> None:
    """Try to create each file at its moment, and tell which this process believes to have made."""
    store = LocalFileIO(str(folder), Options({}))
    mine = []
    for number in range(files):
        while time.time() < begins + number * _APART_SECONDS:
            pass
        if store.try_to_write_atomic(str(folder / f"snapshot-{number}"), f'{{"by": {who}}}'):
            mine.append(number)
    won.put(mine)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--files", type=int, default=20_000)
    given = arguments.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True)
    won: Any = multiprocessing.Queue()
    begins = time.time() + 2
    processes = [
        multiprocessing.Process(target=create_all, args=(folder, who, given.files, begins, won))
        for who in range(2)
    ]
    for each in processes:
        each.start()
    first, second = (set(won.get()) for _ in processes)
    print(f"{given.files:,} files: {len(first & second)} were made by both, as both were told")


if __name__ == "__main__":
    main()
