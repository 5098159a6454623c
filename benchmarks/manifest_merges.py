"""What joining manifests costs: `python -m benchmarks.manifest_merges 10x5000 50x20000`.

Tables of so many manifests with so many entries each; the files that they name do not exist. A line
of JSON for each: CPU seconds of the merge that a commit does, of `rewrite_manifests` with its plan
and its proofs, and of the floor, which reads the manifests and writes their bytes as one file; and
the manifests that each of the two leaves.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.manifest_tables import make_table
from lakewright.storage import SetOption, Table
from lakewright.storage.operations.commit.merge_manifests import merge_manifests
from lakewright.storage.operations.state.live_files import snapshot_manifests

_Result = TypeVar("_Result")


def measure(manifests: int, entries: int) -> dict[str, object]:
    """The cost for one table, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        table = make_table(manifests * entries, Path(folder), entries_a_manifest=entries)
        merging = table.alter(SetOption("manifest.merge-min-count", "2"))
        files, snapshot = merging.table_files, table.history.latest_snapshot()
        assert snapshot is not None
        metas = snapshot_manifests(files, snapshot)
        floor, _ = _timed(lambda: _copy(table, [meta.file_name for meta in metas]))
        merge, merged = _timed(lambda: merge_manifests(files, metas, []))
        rewrite, rewritten = _timed(table.upkeep.rewrite_manifests)
        return {
            "manifests": manifests,
            "entries": manifests * entries,
            "bytes": sum(meta.file_size for meta in metas),
            "floor_cpu_seconds": floor,
            "merge_cpu_seconds": merge,
            "merged_bytes": [meta.file_size for meta in merged],
            "rewrite_cpu_seconds": rewrite,
            "rewritten_manifests": rewritten.manifests_after,
        }


def _timed(work: Callable[[], _Result]) -> tuple[float, _Result]:
    began = time.process_time()
    result = work()
    return round(time.process_time() - began, 3), result


def _copy(table: Table, names: list[str]) -> None:
    files = table.table_files
    data = b"".join(files.fs.read_bytes(files.paths.manifest(name)) for name in names)
    files.fs.write_bytes(files.paths.manifest("the-floor"), data)


if __name__ == "__main__":
    # The first work of a process loads what later work finds.
    measure(2, 10)
    for each in sys.argv[1:]:
        count, size = map(int, each.split("x"))
        sys.stdout.write(f"{json.dumps(measure(count, size))}\n")
