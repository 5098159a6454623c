"""Environments that a benchmark installs when it first needs them, each from a lock file."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

_STAMP = "installed.lock"


def installed(home: Path, lock: Path) -> Path:
    """The folder of an environment's programs; it is made anew when its lock file has changed."""
    programs = home.absolute() / "bin"
    stamp = home / _STAMP
    if not stamp.is_file() or stamp.read_text() != lock.read_text():
        venv.create(home, clear=True, with_pip=True)
        subprocess.run(
            [
                *(str(programs / "python"), "-m", "pip", "install", "--quiet"),
                *("--disable-pip-version-check", "--require-hashes", "--no-deps"),
                *("--requirement", str(lock)),
            ],
            check=True,
        )
        stamp.write_text(lock.read_text())
    return programs
