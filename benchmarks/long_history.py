"""Expiry and orphan removal of tables with a long history: CPU, IO calls and peak memory.

`python -m benchmarks.long_history FOLDER [--snapshots 1000] [--files 1] [--tags 0] [--profile]`

Commits of the library make a table of so many snapshots. Above 2,000 the files of commits are
written without the safety of commits, and data files of four bytes, `--files` with each commit.
Each verb works on a copy, in which data files and manifests are links to the same bytes.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from benchmarks.measure import measured
from lakewright.storage import Catalog, Table
from tests.support.stores.watched_files import WatchedFiles
from tests.support.tables.backlog import add_history
from tests.support.tables.builders import with_options

_MOST_COMMITTED = 2_000
_NAME = "bench.long"
_ORPHANS = 1_000
# The prefixes of files that are never written again.
_IMMUTABLE = ("data-", "manifest-")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path, help="a table that lies there is used again")
    arguments.add_argument("--snapshots", type=int, default=1_000)
    arguments.add_argument("--tags", type=int, default=0)
    arguments.add_argument("--files", type=int, default=1, help="data files of a made commit")
    arguments.add_argument("--live", type=int, default=3, help="commits whose files are live")
    arguments.add_argument("--limit", type=int, help="snapshots of a step; else the option's")
    arguments.add_argument("--most", type=int, help="snapshots that expire in all")
    arguments.add_argument("--verbs", nargs="*", default=list(VERBS), choices=list(VERBS))
    arguments.add_argument("--calls", action="store_true", help="count IO calls; takes memory")
    arguments.add_argument("--profile", action="store_true", help="where the CPU goes")
    given = arguments.parse_args()
    made = given.folder / f"made-{given.snapshots}-{given.files}-{given.tags}-{given.live}"
    if not made.exists():
        build(made, given)
    for verb in given.verbs:
        work = given.folder / f"work-{os.getpid()}"
        shutil.copytree(made, work, copy_function=linked)
        try:
            show(given, verb, Catalog.open(str(work)).table(_NAME))
        finally:
            shutil.rmtree(work)


def linked(source: str, target: str) -> str:
    """A copy of a file; of a file that is never written again, another name."""
    if Path(source).name.startswith(_IMMUTABLE):
        os.link(source, target)
        return target
    return str(shutil.copy2(source, target))


def build(folder: Path, given: argparse.Namespace) -> None:
    """A table of one bucket, in which every tenth commit removes files as a compaction does."""
    building = folder.with_name(f"{folder.name}.building")
    shutil.rmtree(building, ignore_errors=True)
    catalog = Catalog.open(str(building), durable=False)
    table = catalog.create_table(
        _NAME, {"id": "BIGINT", "v": "STRING"}, options={"bucket": "1", "bucket-key": "id"}
    )
    rows = pa.table({"id": list(range(4)), "v": [f"value {each}" for each in range(4)]})
    table.write(rows)
    if given.snapshots > _MOST_COMMITTED:
        template = next(iter(table.at().files())).file
        every = given.snapshots // given.tags if given.tags else 0
        add_history(
            table,
            template,
            given.snapshots - 1,
            live=given.live,
            files_each=given.files,
            tag_every=every,
        )
    else:
        for number in range(1, given.snapshots):
            if number % 10:
                table.write(rows)
            else:
                table.upkeep.compact(full=number % 100 == 0)
        for number in range(given.tags):
            at = 1 + number * given.snapshots // given.tags
            table.history.create_tag(f"tag-{number}", snapshot=at)
    bucket = next(Path(table.table_files.paths.root).glob("bucket-*"))
    for number in range(_ORPHANS):
        (bucket / f"data-orphan-{number}.parquet").write_bytes(b"PAR1")
    building.rename(folder)


def expire(table: Table, given: argparse.Namespace) -> str:
    if given.limit is not None:
        table = with_options(table, snapshot__expire__limit=str(given.limit))
    steps = table.upkeep.expire_in_steps(retain_min=10, retain_max=10, max_deletes=given.most)
    results = [step.result for step in steps]
    files = sum(each.files_deleted for each in results)
    return f"{sum(len(each.expired) for each in results):,} snapshots, {files:,} files"


def remove_orphans(table: Table, _: argparse.Namespace) -> str:
    plan = table.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True)
    result = table.upkeep.run(plan)
    return f"{result.files_moved:,} files"


VERBS: dict[str, Callable[[Table, argparse.Namespace], str]] = {
    "expire": expire,
    "remove_orphans": remove_orphans,
}


def show(given: argparse.Namespace, verb: str, table: Table) -> None:
    """Print what a verb took: once counted and measured, and profiled on request."""
    fs = WatchedFiles(table.table_files.fs)
    counted = Table(replace(table.table_files, fs=fs)) if given.calls else table
    profiler = cProfile.Profile()
    if given.profile:
        profiler.enable()
    began = time.perf_counter()
    text, taken = measured(lambda: VERBS[verb](counted, given))
    seconds = time.perf_counter() - began
    profiler.disable()
    peak = (taken["peak_bytes"] - taken["before_bytes"]) / 2**20
    print(
        f"{verb}: {text}: {taken['cpu_seconds']:.1f} s of CPU, {seconds:.1f} s, {peak:,.0f} MiB "
        f"more than {taken['before_bytes'] / 2**20:,.0f} MiB",
        flush=True,
    )
    if given.calls:
        calls = Counter(call.name for call in fs.calls)
        told = ", ".join(f"{count:,} {name}" for name, count in calls.most_common())
        reads = Counter(call.path for call in fs.calls if call.name in ("read_bytes", "exists"))
        again = Counter(reads.values())
        print(f"  {len(fs.calls):,} calls: {told}")
        print(f"  files by how often they were read or looked for: {sorted(again.items())[:12]}")
    if given.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
