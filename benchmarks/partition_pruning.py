"""What a plan of one partition reads: `python -m benchmarks.partition_pruning 100000`.

A table has so many partitions with a file each, in one manifest as a commit of all leaves it, and
in manifests of five thousand files. Each client plans a read of one partition in a process of its
own, once, under `strace`. A line of JSON for each: the files of the table that it opened, and how
many bytes it read of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.manifest_tables import make_table
from benchmarks.planned_files import DATABASE, TABLE, day
from benchmarks.processes import ROOT, command
from tests.support.processes.traced import files_read, tracing, why_untraced

_CLIENTS = ("lakewright", "pypaimon", "rust")
_ENTRIES = (100_000, 5_000)


def measure(client: str, folder: Path, partitions: int) -> dict[str, object]:
    """One plan of one client."""
    request = {
        "operation": "plan",
        "warehouse": str(folder),
        "table": f"{DATABASE}.{TABLE}",
        "day": day(partitions // 2),
    }
    log = folder.with_name(f"{client}-calls")
    answer = subprocess.run(
        [*tracing(log), *command(client, ROOT / ".oracles")],
        input=json.dumps(request) + "\n",
        cwd=ROOT,
        env=dict(os.environ) if client == "lakewright" else {"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(answer.stdout.strip().rpartition("\n")[2])
    assert found.get("rows", 0) in (1, None), found
    read = files_read(log, str(folder))
    return {"client": client, "files_opened": len(read), "bytes_read": sum(read.values())}


def main() -> None:
    """Measure each layout and client."""
    if (why := why_untraced()) is not None:
        sys.exit(why)
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
