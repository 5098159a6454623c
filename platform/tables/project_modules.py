"""Where the modules of a project are: beside the declarations, as `dagster` and `dg` find them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

# Files at the top of a project.
_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", "workspace.yaml", "dg.toml")


def find_modules(paths: Sequence[Path]) -> None:
    """Let this process import the modules of the projects whose declarations these are.

    The working directory comes first. Installed packages win over modules of the same name.
    """
    for folder in (Path.cwd(), *(each for path in paths for each in _folders(path.resolve()))):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


def _folders(path: Path) -> Iterator[Path]:
    """The top of the project around a path, with its `src`; without one, the folders around it."""
    folder = path if path.is_dir() else path.parent
    for each in (folder, *folder.parents):
        if any((each / mark).is_file() for mark in _MARKS):
            yield each
            if (each / "src").is_dir():
                yield each / "src"
            return
    yield from (folder, folder.parent)
