"""Install the Paimon clients that the interop tests compare with, one environment for each.

Usage: python tests/oracles/install.py TARGET_DIR [NAME ...]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
STAMP = "installed.sha256"

# Locks of one environment are installed in order: what a later one needs to build comes first.
LOCKS: dict[str, tuple[str, ...]] = {
    "pypaimon": ("pypaimon.lock",),
    "java": ("java-build.lock", "java.lock"),
    "rust": ("rust.lock",),
}


def fingerprint(name: str) -> str:
    """Digest of everything that decides what the environment `name` holds."""
    digest = hashlib.sha256(f"{sys.version_info[:3]}".encode())
    for lock in LOCKS[name]:
        digest.update((HERE / lock).read_bytes())
    return digest.hexdigest()


def install(target: Path, name: str) -> None:
    """Make `target/name` match its locks, touching nothing when it already does."""
    home = target / name
    stamp = home / STAMP
    wanted = fingerprint(name)
    if stamp.is_file() and stamp.read_text() == wanted:
        print(f"{name}: up to date in {home}", flush=True)
        return
    print(f"{name}: creating {home}", flush=True)
    started = time.monotonic()
    venv.create(home, clear=True, with_pip=True, symlinks=os.name != "nt")
    for lock in LOCKS[name]:
        print(f"{name}: installing {lock}", flush=True)
        subprocess.run(
            [
                str(home / "bin" / "python"),
                *("-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--require-hashes", "--no-deps", "--no-build-isolation", "--use-pep517"),
                *("--requirement", str(HERE / lock)),
            ],
            check=True,
        )
    stamp.write_text(wanted)
    print(f"{name}: installed in {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="install the oracles of the interop tests")
    parser.add_argument("target", type=Path, help="directory that holds one environment per oracle")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"any of {', '.join(LOCKS)}; all by default"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in LOCKS]
    if unknown:
        parser.error(f"unknown oracles {', '.join(unknown)}; choose from {', '.join(LOCKS)}")
    target = arguments.target.resolve()
    target.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or LOCKS:
        install(target, name)


if __name__ == "__main__":
    main()
