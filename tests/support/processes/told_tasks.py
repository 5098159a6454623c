"""Tasks of which one ends only after the driver was told that all others have ended.

`python -m tests.support.processes.told_tasks FOLDER` runs them on the session that the environment
names, and prints what was told.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

TASKS = 4
_LONGEST_WAIT_SECONDS = 120


@dataclass
class Heard:
    """The receiver of counts: how many were done of each map, and of how many."""

    folder: Path | None = None
    totals: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    def reach(self, done: int, of: str, total: int | None = None) -> None:
        """What plans tell is not of tasks."""

    def begin(self, total: int) -> None:
        self.totals.append(total)
        self.done.append(0)

    def advance(self) -> None:
        self.done[-1] += 1
        if self.folder is not None:
            (self.folder / f"heard-{self.done[-1]}").touch()


@dataclass(frozen=True)
class LastWaits:
    """A task by its number; the last one waits for what the receiver writes into the folder."""

    folder: Path

    def __call__(self, number: int) -> int:
        until = time.monotonic() + _LONGEST_WAIT_SECONDS
        told = self.folder / f"heard-{TASKS - 1}"
        while number == TASKS - 1 and not told.exists():
            if time.monotonic() > until:
                raise TimeoutError(f"{TASKS - 1} tasks have ended, and the driver was not told")
            time.sleep(0.05)
        return number * 10


def main(folder: Path) -> dict[str, object]:
    from lakewright.storage.spark import SparkEngine, build_session

    heard = Heard(folder)
    results = SparkEngine(build_session(), counts=heard).map(LastWaits(folder), range(TASKS))
    return {"results": results, "totals": heard.totals, "done": heard.done}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))) + "\n")
