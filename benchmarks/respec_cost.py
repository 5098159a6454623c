"""What a change of partition keys costs: `python -m benchmarks.respec_cost goes,comes 1000 100000`.

* `goes`: the only key of an append table goes, so each entry is restated twice.
* `comes`: a key comes that files lack, so each entry is restated once.
* `split`: a key comes of which each file holds two values, so each file is split.
* `text`: a text of one value a file becomes a key; statistics of texts prove no value, so each file
  is opened, once by the plan and once by the run.
* `keyed`: a key goes from a primary-key table, whose rows are rewritten.
* `continued`: the same, of which a killed process had staged half of the partitions.

With `--beside`, another process appends a row every 0.6 s, and waits as every writer does. Of
`keyed` it also replaces one, of another partition each time. A line of JSON for each case and
count: seconds, CPU seconds, those of the plan before, growth of memory, bytes of metadata and of
data written, files written and taken up, snapshots made, the time between those for which writers
wait, and how long the longest append took. Every thirtieth append joins manifests, which takes
longer without a change, too. Files of `goes` and `comes` are named in manifests only; no verb opens
them.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.manifest_tables import make_table
from benchmarks.planned_files import DATABASE, TABLE
from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import SchemaMoved
from lakewright.storage.files import table_files
from lakewright.storage.files.staged_change_store import StagedChangeStore

NAME = f"{DATABASE}.{TABLE}"
_EVERY_SECONDS = 0.6
_APPENDS_BEFORE = 2


def _goes(files: int, folder: Path) -> Table:
    return make_table(files, folder)


def _comes(files: int, folder: Path) -> Table:
    table = make_table(files, folder)
    table.alter(AddColumn("hour", "INT"))
    return Catalog.open(str(folder)).table(NAME)


def _split(files: int, folder: Path) -> Table:
    table = Catalog.open(str(folder)).create_table(
        NAME, {"day": "INT", "hour": "INT", "v": "INT"}, partition_keys=["day"]
    )
    table.write(_rows(table, files))
    return table


def _text(files: int, folder: Path) -> Table:
    table = Catalog.open(str(folder)).create_table(
        NAME, {"day": "INT", "hour": "STRING", "v": "INT"}, partition_keys=["day"]
    )
    numbers = list(range(files))
    columns = [numbers, [f"hour {each % 24}" for each in numbers], numbers]
    table.write(pa.table(columns, schema=table.arrow_schema))
    return table


def _keyed(files: int, folder: Path) -> Table:
    table = Catalog.open(str(folder)).create_table(
        NAME,
        {"day": "INT", "hour": "INT", "v": "INT"},
        partition_keys=["hour", "day"],
        primary_keys=["hour", "day", "v"],
        options={"bucket": "1"},
    )
    table.write(_rows(table, files // 2))
    return table


def _rows(table: Table, days: int) -> pa.Table:
    """Two rows of each day, of one hour each."""
    numbers = list(range(2 * days))
    columns = [[each // 2 for each in numbers], [each % 2 for each in numbers], numbers]
    return pa.table(
        [
            pa.array(each, field.type)
            for each, field in zip(columns, table.arrow_schema, strict=True)
        ],
        schema=table.arrow_schema,
    )


# How a table is made, and the keys that it gets.
CASES: dict[str, tuple[Callable[[int, Path], Table], list[str]]] = {
    "goes": (_goes, []),
    "comes": (_comes, ["day", "hour"]),
    "split": (_split, ["day", "hour"]),
    "text": (_text, ["day", "hour"]),
    "keyed": (_keyed, ["hour"]),
    "continued": (_keyed, ["hour"]),
}


def measure(case: str, files: int, *, beside: bool) -> dict[str, object]:
    """The cost for one table, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        _, keys = CASES[case]
        # Memory that its making takes would hide what the change takes.
        command = [sys.executable, "-m", "benchmarks.respec_cost", "make", case, str(files), folder]
        subprocess.run(command, check=True)
        table = Catalog.open(folder).table(NAME)
        if case == "continued":
            killed = subprocess.run(
                [sys.executable, "-m", "benchmarks.respec_cost", "stage", str(files // 2), folder],
                check=False,
            )
            assert killed.returncode == -signal.SIGKILL
        paths = table.table_files.paths
        planning = time.process_time()
        plan = table.upkeep.plan_respec(
            keys, max_files=4 * files + 10_000, max_partitions=4 * files + 10_000
        )
        planning = time.process_time() - planning
        before = {each.path for each in table.table_files.fs.list_dir(paths.manifest_dir)}
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with _writer(Path(folder), beside) as appends:
            began, cpu = time.time(), time.process_time()
            result = table.upkeep.run(plan)
            ended, cpu = time.time(), time.process_time() - cpu
        written = [
            each.size
            for each in table.table_files.fs.list_dir(paths.manifest_dir)
            if each.path not in before
        ]
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
        found: dict[str, object] = {
            "case": case,
            "files": files,
            "seconds": round(ended - began, 2),
            "cpu_seconds": round(cpu, 2),
            "planning_cpu_seconds": round(planning, 2),
            "growth_bytes": 1024 * growth,
            "metadata_bytes": sum(written),
            "data_bytes": result.bytes_written,
            "files_written": result.files_written,
            "files_continued": result.files_continued,
            "snapshots": len(result.snapshot_ids),
            # The first snapshot of a run that goes on takes the change over, and no writer waits.
            "window_seconds": window_seconds(
                table, result.snapshot_ids[1 if case == "continued" else 0 :]
            ),
        }
        if beside:
            during = [each for each in appends if each[0] < ended and sum(each[:2]) >= began]
            _, longest, cpu = max(during, key=lambda each: each[1], default=(0.0, 0.0, 0.0))
            found["appends"] = len(during)
            found["longest_append"] = round(longest, 2)
            found["its_cpu_seconds"] = round(cpu, 2)
        return found


def window_seconds(table: Table, made: Sequence[int]) -> float:
    """The time from the first snapshot after which writers wait to the last."""
    # A change of keyed tables may let writers wait before its own three.
    steps = len(made) if table.schema.primary_keys else 2
    times = [table.table_files.snapshots.read(each).time_millis for each in made[-steps:]]
    return (times[-1] - times[0]) / 1000


@contextmanager
def _writer(folder: Path, beside: bool) -> Iterator[list[tuple[float, float, float]]]:
    """A process that appends meanwhile; afterwards, when each append began, its seconds and CPU."""
    appends: list[tuple[float, float, float]] = []
    if not beside:
        yield appends
        return
    command = [sys.executable, "-m", "benchmarks.respec_cost", "append", str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        appends += [json.loads(writer.stdout.readline()) for _ in range(_APPENDS_BEFORE)]
        try:
            yield appends
        finally:
            # The end of its input tells the writer to stop.
            rest, _ = writer.communicate()
            appends += map(json.loads, rest.splitlines())


def append(folder: Path) -> None:
    """Append a row every 0.6 seconds until the input ends; tells of each append."""
    table, number = Catalog.open(str(folder)).table(NAME), 0
    while not _is_over():
        number += 1
        began, clock, cpu = time.time(), time.perf_counter(), time.process_time()
        while True:
            columns = dict.fromkeys(table.schema.field_names) | {"day": None, "hour": 1}
            row = {name: columns[name] for name in table.schema.field_names}
            row |= {"v": -number} if "v" in row else {}
            row |= {"day": -number} if "v" in row else {"day": f"day-{number}"}
            given = [row]
            if "hour" in row and pa.types.is_string(table.arrow_schema.field("hour").type):
                row["hour"] = "hour 1"
            if table.schema.primary_keys:
                given.append({"day": number, "hour": 1, "v": 2 * number + 1})
            try:
                table.write(pa.Table.from_pylist(given, schema=table.arrow_schema))
                break
            except SchemaMoved:
                table = Catalog.open(str(folder)).table(NAME)
        took = time.perf_counter() - clock
        sys.stdout.write(json.dumps([began, took, time.process_time() - cpu]) + "\n")
        sys.stdout.flush()
        time.sleep(max(0.0, _EVERY_SECONDS - took))


def _is_over() -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready)


def stage(partitions: int, folder: Path) -> None:
    """Change the keys of a keyed table until so many partitions are staged, and die."""
    count = itertools.count(1)

    class Deadly(StagedChangeStore):
        def put_partitions(self, *given: Any) -> None:
            super().put_partitions(*given)
            if next(count) >= partitions:
                os.kill(os.getpid(), signal.SIGKILL)

    table_files.StagedChangeStore = Deadly  # type: ignore[misc]
    plan = (
        Catalog.open(str(folder))
        .table(NAME)
        .upkeep.plan_respec(CASES["keyed"][1], max_files=10**7, max_partitions=10**7)
    )
    Catalog.open(str(folder)).table(NAME).upkeep.run(plan)


def main() -> None:
    """Measure each case and count in a process of its own."""
    arguments = [each for each in sys.argv[1:] if each != "--beside"]
    beside = "--beside" in sys.argv
    if arguments[0] == "append":
        append(Path(arguments[1]))
        return
    if arguments[0] == "stage":
        stage(int(arguments[1]), Path(arguments[2]))
        return
    if arguments[0] == "make":
        CASES[arguments[1]][0](int(arguments[2]), Path(arguments[3]))
        return
    cases, counts = arguments[0].split(","), arguments[1:]
    if len(cases) == len(counts) == 1:
        found = measure(cases[0], int(counts[0]), beside=beside)
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for case in cases:
        for count in counts:
            command = [sys.executable, "-m", "benchmarks.respec_cost", case, count]
            subprocess.run([*command, *(["--beside"] if beside else [])], check=True)


if __name__ == "__main__":
    main()
