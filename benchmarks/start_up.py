"""The CPU of small commands and of imports, each in a process of its own: the best of some.

1. Make a small neglected warehouse in a folder, and record what is due there.
2. Run each command some times, and print the least CPU seconds.

`python -m benchmarks.start_up FOLDER [--repeats 5]`
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

_COMMAND = ("-m", "lakewright.cli")
_CASES: dict[str, tuple[str, ...]] = {
    "import pyarrow": ("-c", "import pyarrow"),
    "import lakewright.storage": ("-c", "import lakewright.storage"),
    "Catalog of it": ("-c", "from lakewright.storage import Catalog"),
    "--help": (*_COMMAND, "--help"),
    "ls": (*_COMMAND, "ls"),
    "show": (*_COMMAND, "show", "logs.clicks"),
    "read": (*_COMMAND, "read", "logs.clicks", "--limit", "5"),
    "history": (*_COMMAND, "history"),
    "sql SHOW TABLES": (*_COMMAND, "sql", "SHOW TABLES IN logs"),
}


def main() -> None:
    """Measure every case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start_up")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if not (asked.folder / "policy.yaml").exists():
        for made in (
            ("demo", "--neglected"),
            ("adopt", "--policy", "policy.yaml"),
            ("upkeep", "--policy", "policy.yaml"),
        ):
            _run(asked.folder, (*_COMMAND, *made))
    for name, arguments in _CASES.items():
        seconds = min(_run(asked.folder, arguments) for _ in range(asked.repeats))
        print(f"{name:26} {seconds:.2f} CPU s", flush=True)


def _run(folder: Path, arguments: tuple[str, ...]) -> float:
    """The CPU seconds of a process, those of its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # With the same modules as this process, from any folder.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
