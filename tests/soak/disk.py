"""Files of a soak: a disk that can be filled, what others left there, and figures."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DISK_BYTES = 1 << 30
STRAYS, STRAY_HOURS = 20, 2


def leave_strays(table: Path) -> None:
    """Files that a writer of some hours ago left, for the removal of orphans beside the writers."""
    bucket = table / "day=2026-01-01" / "bucket-0"
    bucket.mkdir(parents=True)
    then = time.time() - 3600 * STRAY_HOURS
    for number in range(STRAYS):
        stray = bucket / f"data-stray-{number}.parquet"
        stray.write_bytes(b"never committed")
        os.utime(stray, (then, then))


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk in memory that a soak can fill, which needs root."""
    mount = ("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder))
    subprocess.run(mount, check=True)
    try:
        yield
    finally:
        subprocess.run(("umount", "-l", str(folder)), check=True)


def write_whole(path: Path, text: str) -> None:
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(text)
    unfinished.replace(path)


def fill(folder: Path, seconds: float) -> None:
    """Take all of a disk, and keep it for a while."""
    ballast, piece, ends = folder / ".ballast", 16 << 20, 0.0
    try:
        with ballast.open("wb", buffering=0) as file:
            while not ends or time.time() < ends:
                try:
                    file.write(bytes(piece))
                except OSError:
                    # What others free meanwhile is taken too.
                    piece, ends = 1 << 14, ends or time.time() + seconds
                    time.sleep(0.05)
    finally:
        ballast.unlink()


def size_of(folder: Path) -> dict[str, int]:
    """The files below a folder, with their bytes; they may go meanwhile."""
    found = {}
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                found[f"{above}/{name}"] = Path(above, name).stat().st_size
    return found
