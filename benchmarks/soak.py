"""A soak: three clients write at full speed while Dagster keeps their tables, every sensor on.

1. Make an append table and a keyed one for each client (ours, pypaimon, Java), and one append table
   that all of them write.
2. Start `dagster dev` with a policy that compacts, expires and removes orphans all the time.
3. Write for some minutes, a process for each client and table; every failure of a writer counts.
   Meanwhile look at each table: live files, snapshots, files on disk.
4. Stop the writers, let upkeep come to rest, and compare the rows with those that were written.

Half of the processors are for the writers, the others for Dagster, as on machines of their own.

`python -m benchmarks.soak FOLDER [--minutes 30]` writes `soak.json` and `soak.svg` there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from benchmarks.processes import ROOT
from lakewright.demo.dagster_server import ENDED, DagsterServer
from lakewright.storage import Catalog
from tests.oracles.client import WritingOracle, start_java_latest, start_pypaimon
from tests.support.tables.invariants import missing_files, unreachable_files

POLICY = """
warehouse:
  interval: 10s
  compaction: {min_bytes: 0 b, small_files: 5}
  snapshots: {retain_min: 5, time_retained: 2min, schedule: "* * * * *"}
  manifests: {min_count: 30}
  orphans: {older_than: 1h, schedule: "*/5 * * * *"}
tables:
  soak.shared:
    sort: {enabled: true, columns: [id], schedule: "*/10 * * * *"}
"""
STRAYS, STRAY_HOURS = 20, 2
COLUMNS = {"day": "STRING NOT NULL", "id": "BIGINT NOT NULL", "v": "BIGINT"}
DAYS, KEYS, ROWS = 3, 500, 10
LOOK_SECONDS = 10
REST_SECONDS = 600
WHATS = ("live", "runs", "snapshots", "disk")
CLIENTS = ("ours", "pypaimon", "java")
SHARED = "soak.shared"
# Java gives up after ten lost attempts, and waits up to 10 s before each. Beside two writers that
# wait less it loses more, with upkeep or without.
PATIENT = {"commit.max-retries": "1000", "commit.max-retry-wait": "200 ms"}
OPTIONS = {True: {**PATIENT, "bucket": "1", "write-only": "true"}, False: PATIENT}


class Writer(Protocol):
    """What every client can do."""

    def write(self, warehouse: str, table: str, rows: Sequence[Mapping[str, Any]]) -> object: ...


@dataclass(frozen=True, slots=True)
class Ours:
    """This library, in this process."""

    def write(self, warehouse: str, table: str, rows: Sequence[Mapping[str, Any]]) -> object:
        opened = Catalog.open(warehouse).table(table)
        return opened.write(pa.Table.from_pylist(list(rows), opened.arrow_schema))


@dataclass(slots=True)
class Stream:
    """One client that writes one table; `failures` are of writes that it gave up."""

    client: str
    table: str
    writer: Writer
    commits: int = 0
    slowest_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    written: list[dict[str, Any]] = field(default_factory=list)

    def run(self, warehouse: str, stop: threading.Event) -> None:
        number = 0
        while not stop.is_set():
            rows = self._rows(number)
            number += 1
            began = time.perf_counter()
            try:
                self.writer.write(warehouse, self.table, rows)
            except Exception as error:  # noqa: BLE001 - each failure of a writer is what is looked for
                self.failures.append(f"{type(error).__name__}: {error}"[:600])
                continue
            self.slowest_seconds = max(self.slowest_seconds, time.perf_counter() - began)
            self.commits += 1
            self.written += rows

    def _rows(self, number: int) -> list[dict[str, Any]]:
        day = f"2026-01-0{1 + number % DAYS}"
        if self.table.endswith("_keyed"):
            ids = [(number * ROWS + at) % KEYS for at in range(ROWS)]
        else:
            first = CLIENTS.index(self.client) * 10**9 + number * ROWS
            ids = list(range(first, first + ROWS))
        return [{"day": day, "id": each, "v": number} for each in ids]


def tables() -> Iterator[tuple[str, bool]]:
    for client in CLIENTS:
        yield f"soak.{client}", False
        yield f"soak.{client}_keyed", True
    yield SHARED, False


def make(warehouse: Path) -> None:
    catalog = Catalog.open(str(warehouse))
    for name, keyed in tables():
        catalog.create_table(
            name,
            COLUMNS,
            partition_keys=["day"],
            primary_keys=["day", "id"] if keyed else [],
            options=OPTIONS[keyed],
        )
        _leave_strays(warehouse / f"{name.replace('.', '.db/')}")


def _leave_strays(table: Path) -> None:
    """Files that a writer of some hours ago left, for the removal of orphans beside the writers."""
    bucket = table / "day=2026-01-01" / "bucket-0"
    bucket.mkdir(parents=True)
    then = time.time() - 3600 * STRAY_HOURS
    for number in range(STRAYS):
        stray = bucket / f"data-stray-{number}.parquet"
        stray.write_bytes(b"never committed")
        os.utime(stray, (then, then))


def soak(folder: Path, oracles: Path, minutes: float) -> dict[str, Any]:
    """Carry it out; its figures."""
    warehouse, home = folder / "warehouse", folder / "home"
    make(warehouse)
    home.mkdir()
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", home)
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    environment = {
        "LAKEWRIGHT_POLICY": str(policy),
        "LAKEWRIGHT_TABLES": "",
        "LAKEWRIGHT_WAREHOUSE": str(warehouse),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }
    stop, looks = threading.Event(), []
    processors = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        # Processes inherit them from the thread that starts them.
        os.sched_setaffinity(0, processors[len(processors) // 2 :])
        server = stack.enter_context(DagsterServer(None, home, environment))
        os.sched_setaffinity(0, processors[: len(processors) // 2] or processors)
        streams = list(open_streams(stack, oracles))
        print("Dagster is ready; writing begins", flush=True)
        began = time.time()
        threads = [
            threading.Thread(target=each.run, args=(str(warehouse), stop)) for each in streams
        ]
        for each in threads:
            each.start()
        while time.time() - began < 60 * minutes:
            time.sleep(LOOK_SECONDS)
            looks.append(look(warehouse, time.time() - began))
        stop.set()
        for each in threads:
            each.join()
        print("writing ended; upkeep comes to rest", flush=True)
        rested = rest(server, warehouse, began, looks)
        runs = [
            {"job": each.verb or each.job, "status": each.status, "seconds": each.seconds}
            for each in server.runs(limit=5000)
        ]
        failed = [
            server.failure_of(each.id)
            for each in server.runs(limit=5000)
            if each.status == "FAILURE"
        ]
    return {
        "minutes": minutes,
        "writers": [
            {
                "client": each.client,
                "table": each.table,
                "commits": each.commits,
                "slowest_seconds": round(each.slowest_seconds, 2),
                "failures": each.failures,
            }
            for each in streams
        ],
        "runs": runs,
        "failed_runs": failed,
        "rested": rested,
        "looks": looks,
        "faults": list(faults(warehouse, streams)),
    }


def open_streams(stack: ExitStack, oracles: Path) -> Iterator[Stream]:
    for client in CLIENTS:
        for table in (f"soak.{client}", f"soak.{client}_keyed", SHARED):
            yield Stream(client, table, _writer(stack, client, oracles))


def _writer(stack: ExitStack, client: str, oracles: Path) -> Writer:
    if client == "ours":
        return Ours()
    started: WritingOracle = (
        start_java_latest(oracles / "java_latest")
        if client == "java"
        else start_pypaimon(oracles / "pypaimon")
    )
    return stack.enter_context(started)


def look(warehouse: Path, seconds: float) -> dict[str, Any]:
    """Live files and snapshots of each table, and its files on disk."""
    catalog = Catalog.open(str(warehouse))
    found: dict[str, Any] = {"seconds": round(seconds, 1)}
    for name, _ in tables():
        table = catalog.table(name)
        found[name] = {
            "live": sum(each.file_count for each in table.at().partitions()),
            "runs": max(
                (
                    bucket.sorted_run_count
                    for each in table.at().partitions()
                    for bucket in each.buckets
                ),
                default=0,
            ),
            "snapshots": len(table.table_files.snapshots.ids()),
            "disk": table.inspect.file_count_on_disk(),
        }
    return found


def rest(server: DagsterServer, warehouse: Path, began: float, looks: list[Any]) -> bool:
    """Whether nothing is due any more before the patience ends."""
    ends = time.time() + REST_SECONDS
    while time.time() < ends:
        time.sleep(LOOK_SECONDS)
        looks.append(look(warehouse, time.time() - began))
        working = [each for each in server.runs(limit=50) if each.status not in ENDED]
        catalog = Catalog.open(str(warehouse))
        due = any(catalog.table(name).upkeep.plan_compact().tasks for name, _ in tables())
        if not working and not due:
            return True
    return False


def faults(warehouse: Path, streams: Sequence[Stream]) -> Iterator[str]:
    """What the tables hold that was not written, or the other way; and files that nothing keeps."""
    catalog = Catalog.open(str(warehouse))
    for name, _ in tables():
        table = catalog.table(name)
        written = [row for each in streams if each.table == name for row in each.written]
        expected = {(row["day"], row["id"]): row["v"] for row in written}
        rows = table.read().to_pylist()
        found = Counter((row["day"], row["id"]) for row in rows)
        lost = Counter(_client(name, each) for each in expected if each not in found)
        for client, count in lost.items():
            yield f"{name} lacks {count} rows of {client}"
        if any(each not in expected or count > 1 for each, count in found.items()):
            yield f"{name} holds rows twice, or rows that were not written"
        elif any(expected[row["day"], row["id"]] != row["v"] for row in rows):
            yield f"{name} holds other values than were written"
        yield from (f"{name} lacks {path}" for path in missing_files(table))
        # What a writer had begun when it gave up is an orphan, and not yet old enough.
        gave_up = any(each.failures for each in streams if each.table == name)
        # The other clients leave manifests of commits that they lost.
        leaves = any(each.client != "ours" for each in streams if each.table == name)
        for path in () if gave_up else unreachable_files(table):
            if not (leaves and path.startswith("manifest/")):
                yield f"{name} holds {path} for nothing"


def _client(table: str, key: tuple[str, int]) -> str:
    """Who wrote a row."""
    if table == SHARED:
        return CLIENTS[key[1] // 10**9]
    return table.removeprefix("soak.").removesuffix("_keyed")


# --- what is shown ------------------------------------------------------------------------------


def svg(looks: Sequence[Mapping[str, Any]]) -> str:
    """Lines over time, one for each table: live files, snapshots and files on disk."""
    width, height, gap = 760, 150, 40
    colours = ("#3d8b7d", "#1d5c52", "#e07a5f", "#a8452c", "#5b7bb4", "#2f4a7d", "#8a6fb0")
    end = max(each["seconds"] for each in looks)
    parts = []
    for row, (what, title) in enumerate(
        (("live", "live data files"), ("snapshots", "snapshots"), ("disk", "files on disk"))
    ):
        top = gap + row * (height + gap)
        most = max(each[name][what] for each in looks for name, _ in tables()) or 1
        parts.append(f'<text x="10" y="{top - 8}">{title}, at most {most:,}</text>')
        parts.append(f'<rect x="10" y="{top}" width="{width}" height="{height}" fill="#f6f6f4"/>')
        for (name, _), colour in zip(tables(), colours, strict=True):
            points = " ".join(
                f"{10 + each['seconds'] / end * width:.1f},"
                f"{top + height - each[name][what] / most * height:.1f}"
                for each in looks
            )
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    below = gap + 3 * (height + gap)
    for at, ((name, _), colour) in enumerate(zip(tables(), colours, strict=True)):
        x, y = 10 + at % 4 * 190, below + at // 4 * 18
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{name}</text>')
    size = f'width="{width + 20}" height="{below + 40}"'
    style = 'font-family="sans-serif" font-size="13"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>\n'


def told(found: Mapping[str, Any]) -> Iterator[str]:
    """The figures as Markdown."""
    header = ("client", "table", "commits", "failures", "slowest write, s")
    most_of = ("live files", "runs of a bucket", "snapshots", "files on disk")
    yield f"| {' | '.join((*header, *(f'{each}, most' for each in most_of)))} |"
    yield f"|{'---|' * 9}"
    looks = found["looks"]
    for each in found["writers"]:
        name = each["table"]
        most = [max(look[name][what] for look in looks) for what in WHATS]
        cells = [each["client"], name, f"{each['commits']:,}", str(len(each["failures"]))]
        cells += [str(each["slowest_seconds"]), *(f"{count:,}" for count in most)]
        yield f"| {' | '.join(cells)} |"
    yield ""
    jobs = Counter((each["job"], each["status"].lower()) for each in found["runs"])
    yield from (
        f"- {count} runs of {job}: {status}" for (job, status), count in sorted(jobs.items())
    )
    yield f"- upkeep came to rest after the writers: {found['rested']}"
    yield from (f"- FAILED RUN: {each}" for each in found["failed_runs"])
    yield from (f"- FAULT: {each}" for each in found["faults"])
    failures = Counter(text[:200] for each in found["writers"] for text in each["failures"])
    yield from (f"- FAILED WRITE, {count} times: {text}" for text, count in failures.most_common())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--minutes", type=float, default=30)
    arguments.add_argument("--oracles", type=Path, default=Path(".oracles"))
    given = arguments.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True)
    found = soak(folder, given.oracles.absolute(), given.minutes)
    (folder / "soak.json").write_text(json.dumps(found))
    (folder / "soak.svg").write_text(svg(found["looks"]))
    print("\n".join(told(found)))


if __name__ == "__main__":
    main()
