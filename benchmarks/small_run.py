"""`python -m benchmarks.small_run FOLDER [--runs 12]`: a small run from its request to its success.

A table of a few kilobytes gets six small files, and a run compacts them: launched as a person
launches it, so at any moment between two looks of the queue. Seconds are medians over the runs
after the first two, from the events of Dagster.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from statistics import median

import dagster as dg
import pyarrow as pa

from benchmarks.processes import ROOT
from lakewright.demo.dagster_server import ENDED, DagsterServer
from lakewright.platform.orchestration.names import UPKEEP, TableNames
from lakewright.storage import Catalog

_STEPS = (
    ("queued", "PIPELINE_ENQUEUED", "PIPELINE_STARTING"),
    ("process and definitions", "PIPELINE_STARTING", "PIPELINE_START"),
    ("the run", "PIPELINE_START", "PIPELINE_SUCCESS"),
    ("all", "PIPELINE_ENQUEUED", "PIPELINE_SUCCESS"),
)
_WARMING = 2
_POLL_SECONDS = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=12)
    given = parser.parse_args()
    folder = given.folder.absolute()
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text((ROOT / "dagster_home" / "dagster.yaml").read_text())
    (folder / "policy.yaml").write_text("warehouse: {}\n")
    catalog = Catalog.open(str(folder / "warehouse"))
    table = catalog.create_table("db.small", {"day": "STRING", "id": "BIGINT"})
    environment = {
        "LAKEWRIGHT_WAREHOUSE": str(folder / "warehouse"),
        "LAKEWRIGHT_POLICY": str(folder / "policy.yaml"),
    }
    config = TableNames("db.small").run_config("compact", {})
    runs: list[str] = []
    with DagsterServer(None, home, environment) as server:
        for number in range(given.runs + _WARMING):
            for each in range(6):
                table.write(pa.table({"day": ["d"], "id": [number * 6 + each]}))
            # Requests come at different moments between two looks of the queue.
            time.sleep(number * 0.137 % 1)
            runs.append(server.launch_job(UPKEEP, config))
            while {run.id: run.status for run in server.runs()}.get(runs[-1]) not in ENDED:
                time.sleep(_POLL_SECONDS)
    os.environ["DAGSTER_HOME"] = str(home)
    with dg.DagsterInstance.get() as instance:
        taken = [_seconds(instance, run) for run in runs[_WARMING:]]
    shown = {
        step: [f"{measure([each[step] for each in taken]):.2f}" for measure in (median, min, max)]
        for step, _, _ in _STEPS
    }
    print(json.dumps(shown))


def _seconds(instance: dg.DagsterInstance, run: str) -> dict[str, float]:
    at: dict[str, float] = {}
    for entry in instance.all_logs(run):
        if entry.dagster_event is not None:
            at.setdefault(entry.dagster_event.event_type_value, entry.timestamp)
    assert "PIPELINE_SUCCESS" in at, f"run {run} did not succeed"
    return {step: at[end] - at[begin] for step, begin, end in _STEPS}


if __name__ == "__main__":
    main()
