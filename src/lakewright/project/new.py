"""Makes a project that runs: a declared table with its data, a policy, and Dagster's settings."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from lakewright.storage.errors import AlreadyExistsError

SETTINGS = Path(__file__).parent / "dagster.yaml"
_TEMPLATE = Path(__file__).parent / "template"
EXAMPLE = _TEMPLATE / "tables"
# The module of the template, and what else lies at the top of a project.
_MODULE = "lake"
_TAKEN = frozenset({"tables", "warehouse", "dagster_home", "tests", "src"})


def make_project(folder: Path) -> Iterator[Path]:
    """Write the files of a project, each told as it is there; its module is named by the folder.

    Raises:
        AlreadyExistsError: one of them exists; nothing was written.
    """
    module = module_name(folder.absolute().name)
    files = {
        _renamed(file.relative_to(_TEMPLATE), module): _named(file, module)
        for file in sorted(_TEMPLATE.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    files[Path("dagster_home", "dagster.yaml")] = SETTINGS.read_bytes()
    for name in files:
        # A link that leads nowhere would be written through.
        if os.path.lexists(folder / name):
            raise AlreadyExistsError(f"{folder / name} exists; nothing was written")
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        yield folder / name


def module_name(folder: str) -> str:
    """The module of a project in a folder of this name, as which no other module is imported."""
    name = re.sub(r"\W+", "_", folder, flags=re.ASCII).strip("_").lower()
    if not name or name[0].isdigit():
        name = f"lake_{name}" if name else _MODULE
    is_taken = name in _TAKEN or name in sys.stdlib_module_names or find_spec(name) is not None
    return f"{name}_lake" if is_taken else name


def _renamed(file: Path, module: str) -> Path:
    # As a dot file, git would take its rules for those of this package.
    parts = {"gitignore": ".gitignore", _MODULE: module}
    return Path(*(parts.get(part, part) for part in file.parts))


def _named(file: Path, module: str) -> bytes:
    """What a file of the template holds, with the project's module in place of its own."""
    data = file.read_bytes()
    if module == _MODULE or file.name != "pyproject.toml":
        return data
    return data.replace(b'"lake"', f'"{module}"'.encode()).replace(
        b'"lake.', f'"{module}.'.encode()
    )
