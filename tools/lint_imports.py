"""Check the import contracts of pyproject.toml in every room.

import-linter skips a folder without an `__init__.py` below a package, and `platform/` never has
one: it would shadow the standard library's module. So the linter runs on a temporary tree of links
to the same files, in which that folder is a package like the others.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).resolve().parent.parent


def link_tree(folder: Path, into: Path) -> None:
    """Rebuild `folder` as links, adding the `__init__.py` that it lacks."""
    into.mkdir()
    for entry in folder.iterdir():
        if entry.name == "__pycache__":
            continue
        if entry.is_dir() and not (entry / "__init__.py").exists():
            link_tree(entry, into / entry.name)
        else:
            (into / entry.name).symlink_to(entry.resolve())
    if not (into / "__init__.py").exists():
        (into / "__init__.py").touch()


def main() -> int:
    """Print the kept and broken contracts; 0 if all are kept."""
    with tempfile.TemporaryDirectory() as staging:
        link_tree(ROOT / "src" / "lakewright", Path(staging) / "lakewright")
        sys.path.insert(0, staging)
        return lint_imports(
            config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True
        )


if __name__ == "__main__":
    sys.exit(main())
