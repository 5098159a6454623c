"""Makes a project that runs: a declared table with its data, a policy, and Dagster's settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lakewright.storage.errors import AlreadyExistsError

SETTINGS = Path(__file__).parent / "dagster.yaml"
_TEMPLATE = Path(__file__).parent / "template"
EXAMPLE = _TEMPLATE / "tables"


def make_project(folder: Path) -> Iterator[Path]:
    """Write the files of a project, each told as it is there.

    Raises:
        AlreadyExistsError: one of them exists; nothing was written.
    """
    files = {
        # As a dot file, git would take its rules for those of this package.
        Path(".gitignore") if file.name == "gitignore" else file.relative_to(_TEMPLATE): file
        for file in sorted(_TEMPLATE.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    files[Path("dagster_home", "dagster.yaml")] = SETTINGS
    for name in files:
        # A link that leads nowhere would be written through.
        if os.path.lexists(folder / name):
            raise AlreadyExistsError(f"{folder / name} exists; nothing was written")
    for name, source in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(source.read_bytes())
        yield folder / name
