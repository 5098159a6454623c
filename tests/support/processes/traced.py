"""What processes open and read of files, counted at the operating system by `strace`.

It sees every client alike, whichever language it is written in.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_OPENED = re.compile(r"^openat\(.* = \d+<(?P<path>[^>]+)>$")
_READ = re.compile(r"^(?:read|pread64|readv|preadv|preadv2)\(\d+<(?P<path>[^>]+)>.* = (?P<n>\d+)$")
# A process that maps a file into memory, or lets the kernel copy it, reads without a counted call.
_UNCOUNTED = re.compile(
    r"^(?:mmap\((?:[^,]+, ){4}|(?:sendfile|copy_file_range|splice)\(.*)\d+<(?P<path>[^>]+)>"
)
_CALLS = "openat,read,pread64,readv,preadv,preadv2,mmap,sendfile,copy_file_range,splice"
_READS = """
import sys
from lakewright.storage import Catalog
warehouse, table, where = sys.argv[1:]
print(Catalog.open(warehouse).table(table).read(where).num_rows)
"""


def why_untraced() -> str | None:
    """Why calls cannot be counted on this machine; None if they can."""
    if shutil.which("strace") is None:
        return "files that are opened are counted by strace, and strace is not installed"
    tried = subprocess.run(
        ["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return f"files that are opened are counted by strace, which may not trace: {tried.stderr}"
    return None


def tracing(log: Path) -> tuple[str, ...]:
    """The beginning of a command whose calls are written below a folder, which is made.

    Each thread has a log of its own, so no call is torn by that of another.
    """
    log.mkdir(parents=True)
    return (
        *("strace", "-ff", "-y", "-s", "0", "--seccomp-bpf"),
        *("-e", f"trace={_CALLS}", "-e", "signal=none", "-o", str(log / "calls")),
    )


def files_read(log: Path, below: str) -> dict[str, int]:
    """The files whose paths have `below` in them: bytes read of each that was opened.

    Raises:
        AssertionError: a file was mapped into memory, so its bytes are not counted.
    """
    found: dict[str, int] = {}
    for thread in log.iterdir():
        for line in thread.read_text(errors="replace").splitlines():
            if below not in line:
                continue
            if match := _OPENED.match(line):
                found.setdefault(match["path"], 0)
            elif match := _READ.match(line):
                found[match["path"]] = found.get(match["path"], 0) + int(match["n"])
            elif match := _UNCOUNTED.match(line):
                raise AssertionError(f"{match['path']} is read by other calls than counted ones")
    return {path: count for path, count in found.items() if below in path and Path(path).is_file()}


def rows_read_by_us(log: Path, warehouse: str, table: str, where: str) -> int:
    """Open a table in a traced process of its own and read it; how many rows that gave."""
    reading: Sequence[str] = (sys.executable, "-c", _READS, warehouse, table, where)
    told = subprocess.run([*tracing(log), *reading], capture_output=True, text=True, check=True)
    return int(told.stdout)
