"""Adopts the neglected warehouse and lets the sensor bring it to health; what each step took."""

from __future__ import annotations

import datetime as dt
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks.neglected.build import OLD_DAYS, Made, folder_of, writers
from benchmarks.processes import ROOT
from lakewright.definitions import build_definitions
from lakewright.demo.dagster_server import ENDED, DagsterServer
from lakewright.platform.decide.debt import debt_of, findings
from lakewright.platform.decide.survey import TableSurvey
from lakewright.platform.decide.take_survey import survey_warehouse
from lakewright.platform.ledger.action import Action
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.upkeep.health import read_health
from lakewright.storage import Catalog
from tests.oracles.client import OracleError
from tests.pipelines.lake import Lake
from tests.support.tables.invariants import missing_files, unreachable_files

# What a person adds to the proposal: the clients wrote all of it some minutes ago, so that waiting
# for an hour after the last write would be waiting for nothing.
MINE = """
warehouse: {mode: live, compaction: {at_latest: 1s}}
databases:
  logs: {partitions: {older_than: 60d}}
"""
MOST_TICKS = 200
_PATIENCE_SECONDS, _POLL_SECONDS, _MOST_RUNS = 3_600, 2, 500
Rows = Mapping[str, Mapping[str, Sequence[str] | str]]


@dataclass(frozen=True, slots=True)
class Size:
    """A table's folder, and its metadata."""

    files_on_disk: int
    bytes_on_disk: int
    data_files: int
    snapshots: int
    debt: int


@dataclass(slots=True)
class Proof:
    """What came of it; `seconds` by step and of each tick, and of `runs` by verb."""

    seconds: dict[str, float] = field(default_factory=dict)
    ticks: list[float] = field(default_factory=list)
    runs: dict[str, list[float]] = field(default_factory=dict)
    before: dict[str, Size] = field(default_factory=dict)
    after: dict[str, Size] = field(default_factory=dict)
    unhealthy: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    faults: list[str] = field(default_factory=list)
    peak_mib: int = 0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step, and say that it is over."""
        began = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - began, 1)
        print(f"{name}: {self.seconds[name]} s", flush=True)


def prove(
    folder: Path, oracles: Path, made: Sequence[Made], proof: Proof, *, served: bool = False
) -> None:
    """Adopt, watch in shadow, act, and compare; `proof` grows with each step.

    The sensor looks and its runs are executed in this process, or by `dagster dev` if `served`.
    """
    warehouse = folder / "warehouse"
    catalog = Catalog.open(str(warehouse))
    with writers(oracles) as clients:
        with proof.step("rows read by both clients"):
            before = read_all(clients, warehouse, made)
        proof.before = sizes(catalog, warehouse, made)
        policy = folder / "policies" / "warehouse.yaml"
        policy.parent.mkdir(exist_ok=True)
        with proof.step("lakewright adopt"):
            command = [sys.executable, "-m", "lakewright.cli", "adopt", str(warehouse)]
            subprocess.run([*command, "--policy", str(policy)], check=True, stdout=sys.stderr)
        (folder / "dagster").mkdir()
        mine = policy.parent / "z-mine.yaml"
        if served:
            mine.write_text(MINE)
            keep_served(folder, warehouse, policy.parent, proof)
        else:
            keep_here(folder, policy.parent, mine, proof)
        proof.actions = Ledger(catalog).actions()
        proof.after = sizes(catalog, warehouse, made)
        with proof.step("rows read again"):
            after = read_all(clients, warehouse, made)
    compare(before, after, made, proof)
    with proof.step("files compared with what is reachable"):
        check_files(catalog, made, proof)
    proof.unhealthy = dict(unhealthy(survey_warehouse(catalog)))
    proof.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def keep_here(folder: Path, policies: Path, mine: Path, proof: Proof) -> None:
    """One look in shadow; then let the sensor look, and run what it asks for, in this process."""
    with dg.DagsterInstance.local_temp(str(folder / "dagster")) as instance:
        lake = Lake(folder, instance)
        lake.definitions_are(
            build_definitions([], warehouse=lake.warehouse, policies=[policies], adopted=["*"])
        )
        with proof.step("one look in shadow"):
            lake.tick()
        mine.write_text(MINE)
        with proof.step("upkeep by the sensor"):
            keep(lake, proof)


def keep_served(folder: Path, warehouse: Path, policies: Path, proof: Proof) -> None:
    """Start `dagster dev`, and wait until its sensor finds nothing due and no run is under way."""
    home = folder / "dagster"
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", home)
    environment = {
        "LAKEWRIGHT_POLICY": str(policies),
        "LAKEWRIGHT_TABLES": "",
        "LAKEWRIGHT_WAREHOUSE": str(warehouse),
    }
    with DagsterServer(None, home, environment) as server:
        with proof.step("upkeep by the sensor of `dagster dev`, until it is at rest"):
            ends = time.monotonic() + _PATIENCE_SECONDS
            while not _is_at_rest(server):
                if time.monotonic() > ends:
                    proof.faults.append(f"not at rest after {_PATIENCE_SECONDS} s")
                    break
                time.sleep(_POLL_SECONDS)
        for each in server.runs(limit=_MOST_RUNS):
            proof.runs.setdefault(each.verb or each.job, []).append(round(each.seconds or 0.0, 2))
            if each.status != "SUCCESS":
                proof.faults.append(f"{each.verb or each.job} ended with {each.status}")


def _is_at_rest(server: DagsterServer) -> bool:
    """Whether the sensor, looking after the last run, asked for nothing: what is left may wait."""
    runs, tick = server.runs(limit=_MOST_RUNS), server.last_tick("upkeep_sensor")
    if tick is None or tick["status"] != "SKIPPED" or not runs:
        return False
    ended = max(each.ended or 0.0 for each in runs)
    return tick["timestamp"] > ended and all(each.status in ENDED for each in runs)


def keep(lake: Lake, proof: Proof) -> None:
    """Let the sensor look, and run what it asks for, until it asks for nothing."""
    for _ in range(MOST_TICKS):
        began = time.perf_counter()
        answer = lake.tick()
        proof.ticks.append(round(time.perf_counter() - began, 2))
        if not answer.run_requests:
            print(f"the sensor: {answer.skip_message}", flush=True)
            return
        for request in answer.run_requests:
            began = time.perf_counter()
            outcome = lake.request(request)
            took = round(time.perf_counter() - began, 2)
            verb = request.tags["lakewright/verb"]
            proof.runs.setdefault(verb, []).append(took)
            tables = request.tags["lakewright/table"].count(",") + 1
            print(f"  {verb} of {tables} tables: {took} s", flush=True)
            if not outcome.success:
                proof.faults.append(f"{verb}: {outcome.failure}")
    proof.faults.append(f"the sensor still asks for runs after {MOST_TICKS} looks")


# --- rows -------------------------------------------------------------------------------------


def read_all(clients: Mapping[str, Any], warehouse: Path, made: Sequence[Made]) -> Rows:
    """The rows of each table by each client, or why one cannot read them."""

    def read(name: str) -> dict[str, Sequence[str] | str]:
        found: dict[str, Sequence[str] | str] = {}
        for each in made:
            try:
                rows = clients[name].read(str(warehouse), each.table)
                found[each.table] = texts(rows)
            except OracleError as error:
                found[each.table] = f"{error.kind}: {error.message[:200]}"
        return found

    with ThreadPoolExecutor(len(clients)) as threads:
        found = dict(zip(clients, threads.map(read, clients), strict=True))
    return {each.table: {name: found[name][each.table] for name in clients} for each in made}


def texts(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def compare(before: Rows, after: Rows, made: Sequence[Made], proof: Proof) -> None:
    """Equal but for the days that expired, and for rows that waited for a compaction."""
    for each in made:
        for client, rows in after[each.table].items():
            was = before[each.table][client]
            if isinstance(rows, str) or isinstance(was, str):
                told = was if isinstance(was, str) else rows
                proof.unread[f"{each.kind.name}, {client}"] = str(told)
                if not isinstance(was, str):
                    proof.faults.append(f"{client} cannot read {each.table} any more: {rows}")
                continue
            expected = was
            if each.expected is not None:
                # Columns that a row lacks are null.
                names = json.loads(rows[0]).keys() if rows else ()
                full = [{name: row.get(name) for name in names} for row in each.expected]
                expected = texts(full)
            if each.kind.database == "logs":
                expected = [row for row in expected if not is_old(json.loads(row))]
            if list(expected) != list(rows):
                proof.faults.append(
                    f"{client} reads {len(rows)} rows of {each.table} and not {len(expected)} as "
                    "expected, or others"
                )


def is_old(row: Mapping[str, Any]) -> bool:
    today = dt.datetime.now(dt.UTC).date()
    return (today - dt.date.fromisoformat(row["day"])).days >= min(OLD_DAYS)


# --- files ------------------------------------------------------------------------------------


def sizes(catalog: Catalog, warehouse: Path, made: Sequence[Made]) -> dict[str, Size]:
    surveys = {each.table: each for each in survey_warehouse(catalog)}
    return {each.table: _size(warehouse, surveys[each.table]) for each in made}


def _size(warehouse: Path, survey: TableSurvey) -> Size:
    count = total = 0
    for folder, _, names in os.walk(folder_of(warehouse, survey.table)):
        count += len(names)
        total += sum(Path(folder, name).stat().st_size for name in names)
    return Size(
        files_on_disk=count,
        bytes_on_disk=total,
        data_files=survey.files.files,
        snapshots=survey.history.snapshots,
        debt=debt_of(survey).files,
    )


def check_files(catalog: Catalog, made: Sequence[Made], proof: Proof) -> None:
    for each in made:
        table = catalog.table(each.table)
        for path in missing_files(table):
            proof.faults.append(f"{each.table} lacks {path}")
        for path in unreachable_files(table):
            proof.faults.append(f"{each.table} holds {path}, which nothing refers to")
        assert read_health(table).table == each.table


def unhealthy(surveys: Iterable[TableSurvey]) -> Iterator[tuple[str, str]]:
    for each in surveys:
        if found := findings(each):
            yield each.table, "; ".join(found)
