"""Surveys of a large warehouse: time, CPU and memory of `lakewright adopt`.

1. Make the warehouse, unless it is there: a small table is copied; one copy has very many snapshot
   files, and one table manifests of very many data files, which do not exist.
2. In a process of its own: survey every table, and propose a policy file.

`python -m benchmarks.adopting FOLDER [--tables 1000] [--snapshots 70000] [--files 1250000]`
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.manifest_tables import make_table
from lakewright.platform.decide.proposal import propose
from lakewright.platform.decide.take_survey import survey_warehouse
from lakewright.storage import Catalog

_DATABASE = "many"
_COMMITS = 5


def make_warehouse(folder: Path, *, tables: int, snapshots: int, files: int) -> None:
    """Tables `many.t0000`, …; the first has the snapshots. `bench.files` has the manifests."""
    root = copy_tables(folder, tables - 1)
    template = json.loads((root / "snapshot" / f"snapshot-{_COMMITS}").read_text())
    for snapshot_id in range(_COMMITS + 1, snapshots + 1):
        text = json.dumps({**template, "id": snapshot_id})
        (root / "snapshot" / f"snapshot-{snapshot_id}").write_text(text)
    (root / "snapshot" / "LATEST").write_text(str(snapshots))
    make_table(files, folder)


def copy_tables(folder: Path, tables: int) -> Path:
    """Tables `many.t0000`, …, each with the same few commits; the folder of the first one."""
    first = Catalog.open(str(folder)).create_table(
        f"{_DATABASE}.t0000", {"day": "STRING", "id": "BIGINT"}, partition_keys=["day"]
    )
    for number in range(_COMMITS):
        first.write(pa.table({"day": [f"d{number % 2}"], "id": [number]}))
    root = Path(first.table_files.paths.root)
    for number in range(1, tables):
        shutil.copytree(root, root.with_name(f"t{number:04}"))
    return root


def measure(folder: Path) -> dict[str, float]:
    """One look at the warehouse in this process."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    surveys = list(survey_warehouse(Catalog.open(str(folder))))
    looked = time.perf_counter()
    text = propose(surveys, warehouse=str(folder))
    ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    used = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    assert not [each.problem for each in surveys if each.problem]
    return {
        "tables": len(surveys),
        "most_snapshots": max(each.history.snapshots for each in surveys),
        "most_manifest_mb": max(each.manifests.bytes for each in surveys) / 1e6,
        "most_files": max(each.files.files for each in surveys),
        "survey_seconds": round(looked - began, 2),
        "proposal_seconds": round(ended - looked, 2),
        "cpu_seconds": round(used, 2),
        "peak_mib": round(after.ru_maxrss / 1024),
        "before_mib": round(before.ru_maxrss / 1024),
        "policy_lines": text.count("\n"),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--tables", type=int, default=1000)
    arguments.add_argument("--snapshots", type=int, default=70_000)
    arguments.add_argument("--files", type=int, default=1_250_000)
    arguments.add_argument("--here", action="store_true", help="measure in this process")
    given = arguments.parse_args()
    if given.here:
        print(json.dumps(measure(given.folder)))
        return
    if not given.folder.exists():
        make_warehouse(
            given.folder, tables=given.tables, snapshots=given.snapshots, files=given.files
        )
    command = [sys.executable, "-m", "benchmarks.adopting", str(given.folder), "--here"]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
