"""What upkeep takes while nothing is due: CPU and memory for a warehouse of many small tables.

1. Make the warehouse, unless it is there: a small table is copied.
2. In a process of its own: load the definitions, and let the upkeep sensor look as the daemon lets
   it, each look 30 s of the sensor's clock after the one before: the first one, which reads all
   tables; those that report what it found, some events at a time; and those of 20 minutes at rest.
3. With `--served`: start `dagster dev`, wait until all is reported, and add up the CPU time of each
   of its processes over some minutes of real time. With `--floor` too, its code location is empty.

With `--declared N`, N tables with columns, partitions and a source are declared instead of adopted,
and the schema sensor looks too. A folder is made for one of both, and stays that.

`python -m benchmarks.idle FOLDER [--tables 1000 | --declared 100] [--served MINUTES [--floor]]
[--profile]`
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
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import dagster as dg

from benchmarks.adopting import copy_tables
from benchmarks.processes import ROOT
from lakewright.definitions import build_definitions
from lakewright.demo.dagster_server import DagsterServer
from lakewright.jobs import upkeep_sensor
from lakewright.platform.decide.adopted import read_adopted
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.storage.env import SystemEnv

# Every verb is looked at, and the moments of their schedules are over.
POLICY = """\
warehouse:
  snapshots: {schedule: "0 0 29 2 *"}
  orphans: {schedule: "0 0 29 2 *"}
  collect: {schedule: "0 0 29 2 *"}
"""
DECLARATION = """\
table: {table}
columns:
  - {{name: day, type: STRING}}
  - {{name: id, type: BIGINT}}
partition_keys: [day]
partitions:
  static: {{column: day, values: [d0, d1]}}
source: {{csv: "{folder}/rows-{{day}}.csv"}}
maintenance:
  snapshots: {{schedule: "0 0 29 2 *"}}
  orphans: {{schedule: "0 0 29 2 *"}}
"""
REST_MS, EVERY_MS = 1_200_000, 30_000
AIM_CORES = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_REST_SECONDS = 60
# Each table has three materializations and a check to report at first, and a look reports 100.
_TABLES_A_LOOK = 25
_UNLIMITED_MS = 86_400_000
_LISTING_SECONDS = 600.0


@dataclass(slots=True)
class _Daemon:
    """Lets sensors look, and stores what they report, as Dagster's daemon does."""

    instance: dg.DagsterInstance
    warehouse: WarehouseResource
    cursors: dict[str, str | None] = field(default_factory=dict)

    def look(self, sensor: dg.SensorDefinition) -> tuple[float, float, int]:
        """CPU seconds of a look, and of what the daemon does with its reports; their number."""
        before = _cpu()
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(sensor.name),
            sensor_name=sensor.name,
            resources={"lakewright_warehouse": self.warehouse},
        )
        answer = sensor.evaluate_tick(context)
        looked = _cpu()
        self.cursors[sensor.name] = answer.cursor
        for event in answer.asset_events:
            self.instance.report_runless_asset_event(event)
        assert not answer.run_requests
        used = looked - before
        print(f"{used:.2f} CPU s, {sensor.name}: {answer.skip_message}", file=sys.stderr)
        return used, _cpu() - looked, len(answer.asset_events)


def _load(folder: Path, warehouse: WarehouseResource) -> dg.RepositoryDefinition:
    if _is_declared(folder):
        built = build_definitions([folder / "tables"], warehouse=warehouse)
    else:
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
    return built.get_repository_def()


def measure(folder: Path, *, profiled: bool) -> dict[str, object]:
    """Load, look for the first time, and look again and again, in this process."""
    began, before_cpu, before_mib = time.perf_counter(), _cpu(), _peak_mib()
    warehouse = WarehouseResource(uri=str(folder / "warehouse"))
    repository = _load(folder, warehouse)
    sensor = repository.get_sensor_def("upkeep_sensor")
    # The sensor of schemas, where tables are declared.
    others = [each for each in repository.sensor_defs if each is not sensor]
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
    used: dict[str, list[float]] = {each.name: [] for each in (sensor, *others)}
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        daemon = _Daemon(instance, warehouse)
        first_seconds = time.perf_counter()
        first_used, told_cpu, told = daemon.look(sensor)
        first_seconds, first_mib = time.perf_counter() - first_seconds, _peak_mib()
        while told:
            ahead_ms += EVERY_MS
            looked, reported, told = daemon.look(sensor)
            told_cpu += looked + reported if told else 0.0
        first_of_others = 0.0
        for each in others:
            # It has a cursor once it has compared all tables, some at a look.
            while daemon.cursors.get(each.name) is None:
                first_of_others += sum(daemon.look(each)[:2])
        for at_ms in range(EVERY_MS, REST_MS + 1, EVERY_MS):
            ahead_ms += EVERY_MS
            due = [each for each in others if at_ms % _interval_ms(each) == 0]
            if profiled:
                profile.enable()
            for each in (sensor, *due):
                looked, reported, told = daemon.look(each)
                assert each is not sensor or not told, f"a look at rest reported {told} events"
                used[each.name].append(looked + reported)
            profile.disable()
    if profiled:
        pstats.Stats(profile, stream=sys.stderr).sort_stats("cumulative").print_stats(60)
    return {
        "jobs": sum(not each.name.startswith("__") for each in repository.get_all_jobs()),
        "schedules": len(repository.schedule_defs),
        "sensors": len(repository.sensor_defs),
        "imported_mib": before_mib,
        "load_seconds": round(loaded - began, 2),
        "load_cpu": round(loaded_cpu - before_cpu, 2),
        "load_mib": loaded_mib,
        "all_read_seconds": round(first_seconds, 2),
        "all_read_cpu": round(first_used + first_of_others, 2),
        "all_told_cpu": round(told_cpu, 2),
        "all_read_mib": first_mib,
        "look_cpu_median": {name: round(median(looks), 3) for name, looks in used.items()},
        "look_cpu_most": {name: round(max(looks), 3) for name, looks in used.items()},
        "look_cpu_sum": {name: round(sum(looks), 2) for name, looks in used.items()},
        "cores": round(sum(map(sum, used.values())) / (REST_MS / 1000), 4),
        "aim_cores": AIM_CORES,
        "peak_mib": _peak_mib(),
    }


def _interval_ms(sensor: dg.SensorDefinition) -> int:
    return (sensor.minimum_interval_seconds or 1) * 1000


def measure_served(folder: Path, minutes: float, *, empty: bool) -> dict[str, object]:
    """CPU of each process of `dagster dev` at rest, in cores."""
    environment = {
        "LAKEWRIGHT_WAREHOUSE": str(folder / "warehouse"),
        **(
            {"LAKEWRIGHT_TABLES": str(folder / "tables")}
            if _is_declared(folder)
            else {"LAKEWRIGHT_POLICY": str(folder / "policy.yaml")}
        ),
    }
    home, workspace, rest = folder / "home", None, _REST_SECONDS
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


def make_folder(folder: Path, *, adopted: int, declared: int | None) -> None:
    """The warehouse, and what says that its tables are kept: a policy, or their declarations."""
    copy_tables(folder / "warehouse", adopted if declared is None else declared)
    if declared is None:
        (folder / "policy.yaml").write_text(POLICY)
        return
    (folder / "tables").mkdir()
    for table in sorted((folder / "warehouse" / "many.db").iterdir()):
        name = f"many.{table.name}"
        text = DECLARATION.format(table=name, folder=folder.resolve())
        (folder / "tables" / f"{name}.yaml").write_text(text)


def _is_declared(folder: Path) -> bool:
    return (folder / "tables").exists()


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
    arguments.add_argument("--declared", type=int, help="so many declared tables, none adopted")
    arguments.add_argument("--served", type=float, help="minutes to measure `dagster dev` for")
    arguments.add_argument("--floor", action="store_true", help="`dagster dev` without tables")
    arguments.add_argument("--profile", action="store_true")
    arguments.add_argument("--here", action="store_true", help="measure in this process")
    given = arguments.parse_args()
    if given.here:
        print(json.dumps(measure(given.folder, profiled=given.profile)))
        return
    if given.declared is not None and given.folder.exists() and not _is_declared(given.folder):
        raise SystemExit(f"the tables of {given.folder} are adopted: name another folder")
    if not given.folder.exists():
        make_folder(given.folder, adopted=given.tables, declared=given.declared)
    if given.served:
        print(json.dumps(measure_served(given.folder, given.served, empty=given.floor)))
        return
    command = [sys.executable, "-m", "benchmarks.idle", str(given.folder), "--here"]
    subprocess.run([*command, *(["--profile"] if given.profile else [])], check=True)


if __name__ == "__main__":
    main()
