"""What a plan of one partition reads: `python -m benchmarks.partition_pruning 100000`.

A table has so many partitions with a file each, in one manifest as a commit of all leaves it, and
in manifests of five thousand files. Each client plans a read of one partition in a process of its
own, once, under `strace`. A line of JSON for each: the files of the table that it opened, and how
many bytes it read of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.manifest_tables import make_table
from benchmarks.planned_files import DATABASE, TABLE, day
from benchmarks.processes import ROOT, command

_CLIENTS = ("lakewright", "pypaimon", "rust")
_ENTRIES = (100_000, 5_000)
_OPENED = re.compile(r'openat\(.*"([^"]+)".* = \d+')
_READ = re.compile(r"(?:read|pread64)\(\d+<([^>]+)>.* = (\d+)$")


def measure(client: str, folder: Path, partitions: int) -> dict[str, object]:
    """One plan of one client."""
    request = {
        "operation": "plan",
        "warehouse": str(folder),
        "table": f"{DATABASE}.{TABLE}",
        "day": day(partitions // 2),
    }
    log = folder.with_suffix(".strace")
    traced = ["strace", "-f", "-y", "-s", "0", "-e", "trace=openat,read,pread64", "-o", str(log)]
    answer = subprocess.run(
        [*traced, *command(client, ROOT / ".oracles")],
        input=json.dumps(request) + "\n",
        cwd=ROOT,
        env=dict(os.environ) if client == "lakewright" else {"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(answer.stdout.strip().rpartition("\n")[2])
    assert found.get("rows", 0) in (1, None), found
    opened, read = set(), 0
    for line in log.read_text().splitlines():
        if (match := _OPENED.search(line)) and match[1].startswith(str(folder)):
            opened.add(match[1])
        if (match := _READ.search(line)) and match[1].startswith(str(folder)):
            read += int(match[2])
    files = [each for each in opened if Path(each).is_file()]
    return {"client": client, "files_opened": len(files), "bytes_read": read}


def main() -> None:
    """Measure each layout and client."""
    for partitions in map(int, sys.argv[1:]):
        for entries in _ENTRIES:
            with tempfile.TemporaryDirectory() as made:
                folder = Path(made) / "warehouse"
                make_table(partitions, folder, files_a_partition=1, entries_a_manifest=entries)
                manifests = folder / f"{DATABASE}.db" / TABLE / "manifest"
                all_bytes = sum(each.stat().st_size for each in manifests.glob("made-*"))
                for client in _CLIENTS:
                    figures = measure(client, folder, partitions)
                    about = {"partitions": partitions, "files_a_manifest": entries}
                    line = json.dumps({**about, "manifest_bytes": all_bytes, **figures})
                    sys.stdout.write(line + "\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
