"""Print what pyproject.toml needs to be built, one requirement a line."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"

if __name__ == "__main__":
    build_system = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["build-system"]
    sys.stdout.write("".join(f"{requirement}\n" for requirement in build_system["requires"]))
