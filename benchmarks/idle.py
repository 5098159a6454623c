"""What upkeep takes while nothing is due: CPU and memory for a warehouse of many small tables.

1. Make the warehouse, unless it is there: a small table is copied.
2. In a process of its own: load the definitions, and let the upkeep sensor look as the daemon lets
   it, each look 30 s of the sensor's clock after the one before: the first one, which reads all
   tables; those that report what it found, some events at a time; and those of 20 minutes at rest.
3. With `--served`: start `dagster dev`, wait until all is reported, and add up the CPU time of each
   of its processes over some minutes of real time. With `--floor` too, its code location is empty.

`python -m benchmarks.idle FOLDER [--tables 1000] [--served MINUTES [--floor]] [--profile]`
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import dagster as dg

from benchmarks.adopting import copy_tables
from benchmarks.processes import ROOT
from lakewright.definitions import build_definitions
from lakewright.demo.dagster_server import DagsterServer
from lakewright.jobs import upkeep_sensor
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.warehouse.adopted import read_adopted
from lakewright.storage.env import SystemEnv

# Every verb is looked at, and the moments of their schedules are over.
POLICY = """\
warehouse:
  snapshots: {schedule: "0 0 29 2 *"}
  orphans: {schedule: "0 0 29 2 *"}
  quarantine: {schedule: "0 0 29 2 *"}
"""
LOOKS, EVERY_MS = 40, 30_000
AIM_CORES = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_REST_SECONDS = 60
# Each table has three materializations and a check to report at first, and a look reports 100.
_TABLES_A_LOOK = 25
_UNLIMITED_MS = 86_400_000
_LISTING_SECONDS = 600.0


def measure(folder: Path, *, profiled: bool) -> dict[str, object]:
    """Load, look for the first time, and look again and again, in this process."""
    began, before_cpu, before_mib = time.perf_counter(), _cpu(), _peak_mib()
    warehouse = WarehouseResource(uri=str(folder / "warehouse"))
    built = build_definitions(
        [],
        warehouse=warehouse,
        policies=[folder / "policy.yaml"],
        adopted=["*"],
        adopted_tables=read_adopted(warehouse.catalog(), ["*"], most_seconds=_LISTING_SECONDS),
    )
    assert len(built.resolve_asset_graph().get_all_asset_keys()) >= len(
        list((folder / "warehouse" / "many.db").iterdir())
    )
    sensor = built.get_repository_def().get_sensor_def("upkeep_sensor")
    loaded, loaded_cpu, loaded_mib = time.perf_counter(), _cpu(), _peak_mib()
    ahead_ms = 0

    class Ahead(SystemEnv):
        def now_ms(self) -> int:
            return super().now_ms() + ahead_ms

    vars(upkeep_sensor)["SystemEnv"] = Ahead
    # Else a busy machine needs several looks to read all tables, and to report them.
    vars(upkeep_sensor)["_LOOK_MS"] = vars(upkeep_sensor)["_TELL_MS"] = _UNLIMITED_MS
    profile = cProfile.Profile()
    home = folder / "looks"
    home.mkdir(exist_ok=True)
    with dg.DagsterInstance.local_temp(str(home)) as instance:

        def look() -> tuple[float, float, int]:
            """CPU seconds of a look, and of what the daemon does with its reports; their number."""
            before = _cpu()
            context = dg.build_sensor_context(
                instance=instance,
                sensor_name="upkeep_sensor",
                resources={"lakewright_warehouse": warehouse},
            )
            answer = sensor.evaluate_tick(context)
            looked = _cpu()
            for event in answer.asset_events:
                instance.report_runless_asset_event(event)
            assert not answer.run_requests
            print(f"{looked - before:.2f} CPU s: {answer.skip_message}", file=sys.stderr)
            return looked - before, _cpu() - looked, len(answer.asset_events)

        first_seconds = time.perf_counter()
        first_used, told_cpu, told = look()
        first_seconds, first_mib = time.perf_counter() - first_seconds, _peak_mib()
        while told:
            ahead_ms += EVERY_MS
            looked, reported, told = look()
            told_cpu += looked + reported if told else 0.0
        used = []
        for _ in range(LOOKS):
            ahead_ms += EVERY_MS
            if profiled:
                profile.enable()
            looked, reported, told = look()
            assert not told, f"a look at rest reported {told} events"
            used.append(looked + reported)
            profile.disable()
    if profiled:
        pstats.Stats(profile, stream=sys.stderr).sort_stats("cumulative").print_stats(60)
    looks = sorted(used)
    return {
        "imported_mib": before_mib,
        "load_seconds": round(loaded - began, 2),
        "load_cpu": round(loaded_cpu - before_cpu, 2),
        "load_mib": loaded_mib,
        "all_read_seconds": round(first_seconds, 2),
        "all_read_cpu": round(first_used, 2),
        "all_told_cpu": round(told_cpu, 2),
        "all_read_mib": first_mib,
        "look_cpu_median": round(looks[len(looks) // 2], 3),
        "look_cpu_most": round(looks[-1], 3),
        "look_cpu_sum": round(sum(looks), 2),
        "cores": round(sum(looks) / (LOOKS * EVERY_MS / 1000), 4),
        "aim_cores": AIM_CORES,
        "peak_mib": _peak_mib(),
    }


def measure_served(folder: Path, minutes: float, *, empty: bool) -> dict[str, object]:
    """CPU of each process of `dagster dev` at rest, in cores."""
    environment = {
        "LAKEWRIGHT_WAREHOUSE": str(folder / "warehouse"),
        "LAKEWRIGHT_POLICY": str(folder / "policy.yaml"),
    }
    home, workspace, rest = folder / "home", ROOT / "workspace.yaml", _REST_SECONDS
    if empty:
        (folder / "empty.py").write_text("import dagster\n\ndefs = dagster.Definitions()\n")
        workspace = folder / "empty.yaml"
        workspace.write_text(f"load_from:\n  - python_file: {folder / 'empty.py'}\n")
        home = folder / "empty_home"
    else:
        tables = len(list((folder / "warehouse" / "many.db").iterdir()))
        rest += EVERY_MS // 1000 * (tables // _TABLES_A_LOOK + 1)
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text((ROOT / "dagster_home" / "dagster.yaml").read_text())
    with DagsterServer(workspace, home, environment) as server:
        session = server.session
        time.sleep(rest)
        before, began = _cpu_of_session(session), time.monotonic()
        time.sleep(60 * minutes)
        after, seconds = _cpu_of_session(session), time.monotonic() - began
        tick = None if empty else server.last_tick("upkeep_sensor")
    cores: Counter[str] = Counter()
    for pid, (name, used) in after.items():
        cores[name] += round((used - before.get(pid, ("", 0.0))[1]) / seconds, 4)
    return {
        "minutes": minutes,
        "cores": dict(cores),
        "all": round(sum(cores.values()), 4),
        "last_tick": tick,
    }


def _cpu_of_session(session: int) -> dict[int, tuple[str, float]]:
    """By process its kind and its CPU seconds."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if int(fields[3]) == session:
            found[int(status.parent.name)] = (
                _kind(command),
                (int(fields[11]) + int(fields[12])) / _TICKS,
            )
    return found


def _kind(command: list[str]) -> str:
    text = " ".join(command)
    kinds = {
        "api grpc": "code server",
        "_daemon": "daemon",
        "webserver": "web server",
        "forkserver": "fork server",
        "resource_tracker": "fork server",
    }
    return next((kind for part, kind in kinds.items() if part in text), "dagster dev")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_mib() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--tables", type=int, default=1000)
    arguments.add_argument("--served", type=float, help="minutes to measure `dagster dev` for")
    arguments.add_argument("--floor", action="store_true", help="`dagster dev` without tables")
    arguments.add_argument("--profile", action="store_true")
    arguments.add_argument("--here", action="store_true", help="measure in this process")
    given = arguments.parse_args()
    if given.here:
        print(json.dumps(measure(given.folder, profiled=given.profile)))
        return
    if not given.folder.exists():
        copy_tables(given.folder / "warehouse", given.tables)
        (given.folder / "policy.yaml").write_text(POLICY)
    if given.served:
        print(json.dumps(measure_served(given.folder, given.served, empty=given.floor)))
        return
    command = [sys.executable, "-m", "benchmarks.idle", str(given.folder), "--here"]
    subprocess.run([*command, *(["--profile"] if given.profile else [])], check=True)


if __name__ == "__main__":
    main()
