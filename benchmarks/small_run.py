"""A small run through Dagster, step by step: from the sensor's tick, or a launch, to success.

1. Serve two small tables with the daemon, the queue and the code server of `dagster dev`.
2. Let the upkeep sensor find six small files, and compact them; then launch runs that write a
   partition of few rows: one without expectations, one with.
3. Read the times of each run from its events, and print the median of each step.

The first run of each kind warms the system and is left out.

`python -m benchmarks.small_run FOLDER [--repeats 5] [--cold]`
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import dagster as dg
import pyarrow as pa
import yaml

from benchmarks.measure import measured
from lakewright.demo.dagster_server import DagsterServer
from lakewright.platform.warehouse.ledger import Ledger
from lakewright.storage import Catalog

Found = TypeVar("Found")
_ROOT = Path(__file__).resolve().parent.parent
_WAIT_SECONDS = 300
_FILES = 6
_DAY = "2026-01-01"
_COLUMNS = """\
columns:
  - {name: dt, type: STRING NOT NULL}
  - {name: id, type: BIGINT NOT NULL}
  - {name: amount, type: DOUBLE}
partition_keys: [dt]
"""
_SOURCE = """\
partitions: {daily: {column: dt, start: 2026-01-01}}
source: {csv: "ROWS"}
write: {mode: overwrite}
"""
_EXPECTATION = """\
expectations:
  - {expect: expect_column_values_to_not_be_null, column: amount}
"""
_OFTEN = "maintenance: {compaction: {min_bytes: 0 b, small_files: 5, interval: 5s}}\n"
_DECLARED = {
    "events": f"table: small.events\n{_COLUMNS}options: {{bucket: -1}}\n{_OFTEN}",
    "days": f"table: small.days\n{_COLUMNS}{_SOURCE}",
    "checked": f"table: small.checked\n{_COLUMNS}{_SOURCE}{_EXPECTATION}",
}
# The steps of a run, each from one event to the next; the first is named by its caller.
_STEPS = (
    ("waits in the queue", "PIPELINE_STARTING"),
    ("process starts and imports", "started"),
    ("process loads definitions", "PIPELINE_START"),
    ("run begins its step", "STEP_START"),
    ("step", "STEP_SUCCESS"),
    ("checks of the asset, end", "PIPELINE_SUCCESS"),
)


def prepare(folder: Path, *, cold: bool) -> dict[str, str]:
    """An empty warehouse and Dagster home in the folder; the environment of their processes.

    A `cold` home has Dagster's own launcher, which starts an interpreter for each run.
    """
    for name in ("tables", "home", "warehouse"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    for name, text in _DECLARED.items():
        (folder / "tables" / f"{name}.yaml").write_text(
            text.replace("ROWS", str(folder / "rows.csv"))
        )
    rows = "".join(f"{_DAY},{number},{number}.5\n" for number in range(100))
    (folder / "rows.csv").write_text("dt,id,amount\n" + rows)
    settings = yaml.safe_load((_ROOT / "dagster_home" / "dagster.yaml").read_text())
    if cold:
        del settings["run_launcher"]
    (folder / "home" / "dagster.yaml").write_text(yaml.safe_dump(settings))
    return {
        "LAKEWRIGHT_TABLES": str(folder / "tables"),
        "LAKEWRIGHT_WAREHOUSE": str(folder / "warehouse"),
        "DAGSTER_EVENT_BATCH_SIZE": "500",
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "DAGSTER_HOME": str(folder / "home"),
    }


def write_small_files(catalog: Catalog) -> None:
    """Commits of few rows each, so many that a compaction is due."""
    table = catalog.table("small.events")
    for number in range(_FILES):
        table.write(pa.table({"dt": [_DAY], "id": [number], "amount": [0.5]}))


def compacted_by_sensor(server: DagsterServer, instance: dg.DagsterInstance) -> dict[str, float]:
    """Write small files, and wait for the run that the sensor asks for; its steps."""
    known = {each.run_id for each in instance.get_runs()}
    write_small_files(Catalog.open(os.environ["LAKEWRIGHT_WAREHOUSE"]))
    run_id = _wait(lambda: next(iter({e.run_id for e in instance.get_runs()} - known), None))
    began, ended = _wait(lambda: _tick_of(server, run_id))
    steps = _steps(instance, run_id, "tick asks for the run", began)
    # The queue may take the run before the tick has ended.
    steps["(whole tick)"] = ended - began
    catalog = Catalog.open(os.environ["LAKEWRIGHT_WAREHOUSE"])
    action = Ledger(catalog).actions()[-1]
    steps["(of the step: plan, rewrite, commit)"] = action.cost.milliseconds / 1000
    return steps


def ingested(server: DagsterServer, instance: dg.DagsterInstance, table: str) -> dict[str, float]:
    """Launch a run that writes one partition; its steps."""
    began = time.time()
    run_id = server.launch_assets([table], partitions=(_DAY, _DAY))
    return _steps(instance, run_id, "launch", began)


def _tick_of(server: DagsterServer, run_id: str) -> tuple[float, float] | None:
    answer = server.query(
        """query($s: SensorSelector!) { sensorOrError(sensorSelector: $s) {
             ... on Sensor { sensorState {
               ticks(limit: 20) { timestamp endTimestamp runIds } } } } }""",
        s={
            "repositoryName": "__repository__",
            "repositoryLocationName": "lakewright.definitions",
            "sensorName": "upkeep_sensor",
        },
    )
    for tick in answer["sensorOrError"]["sensorState"]["ticks"]:
        if run_id in tick["runIds"] and tick["endTimestamp"]:
            return tick["timestamp"], tick["endTimestamp"]
    return None


def _steps(instance: dg.DagsterInstance, run_id: str, first: str, began: float) -> dict[str, float]:
    run = _wait(lambda: _ended(instance, run_id))
    assert run.is_success, instance.all_logs(run_id)[-1]
    times: dict[str, float] = {}
    for entry in instance.all_logs(run_id):
        if entry.dagster_event_type is not None:
            times.setdefault(entry.dagster_event_type.value, entry.timestamp)
        if entry.message.startswith("Started process for run"):
            times["started"] = entry.timestamp
    steps = {first: times["PIPELINE_ENQUEUED"] - began}
    before = times["PIPELINE_ENQUEUED"]
    for name, event in _STEPS:
        steps[name] = times[event] - before
        before = times[event]
    steps["all"] = before - began
    return steps


def _ended(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun | None:
    run = instance.get_run_by_id(run_id)
    return run if run is not None and run.is_finished else None


def _wait(look: Callable[[], Found | None]) -> Found:
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        found = look()
        if found is not None:
            return found
        time.sleep(0.25)
    raise TimeoutError("the run did not come")


def medians(runs: list[Mapping[str, float]]) -> dict[str, float]:
    """The median of each step."""
    return {name: round(statistics.median(each[name] for each in runs), 2) for name in runs[0]}


def measure(folder: Path, repeats: int, *, cold: bool = False) -> dict[str, dict[str, float]]:
    """The steps of each kind of run, in seconds."""
    environment = prepare(folder, cold=cold)
    os.environ.update(environment)
    Catalog.open(environment["LAKEWRIGHT_WAREHOUSE"]).create_table(
        "small.events",
        {"dt": "STRING NOT NULL", "id": "BIGINT NOT NULL", "amount": "DOUBLE"},
        partition_keys=["dt"],
        options={"bucket": "-1"},
    )
    found: dict[str, dict[str, float]] = {}
    server = DagsterServer(workspace=None, home=folder / "home", environment=environment)
    with server, dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        kinds: dict[str, Callable[[], dict[str, float]]] = {
            "compaction by the sensor": lambda: compacted_by_sensor(server, instance),
            "ingest": lambda: ingested(server, instance, "small.days"),
            "ingest with an expectation": lambda: ingested(server, instance, "small.checked"),
        }
        for kind, run in kinds.items():
            runs = []
            for number in range(repeats + 1):
                steps, figures = measured(run)
                if number:
                    runs.append({**steps, "(CPU of all processes)": figures["cpu_seconds"]})
            found[kind] = medians(runs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="with Dagster's own launcher")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    found = measure(folder, arguments.repeats, cold=arguments.cold)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
