"""The steps of the demo; existing data stays unchanged.

1. Backfill January to November of flights, weather and delays; load the reference tables. Meanwhile
   a small neglected warehouse is adopted and kept (`adoption.py`).
2. Append December to flights in many small commits, as a program of another kind would.
3. Print the table's health.
4. Wait for the upkeep sensor to detect it, and for the run it launches; meanwhile
   weather and delays get their December.
5. Change the schema of flights (`evolution.py`).
6. Change its partition keys, and change them back (`partition_keys.py`). The weather of December
   goes from days to days and hours, and back (`hourly_weather.py`).
7. Expire snapshots.
8. Print the changes.

All other writing happens in runs of the workspace, so the UI shows every one of them.
"""

from __future__ import annotations

import datetime as dt
import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.demo import nycflights
from lakewright.demo.adoption import adopt, is_adopted
from lakewright.demo.dagster_server import ENDED, DagsterServer, ServedRun
from lakewright.demo.evolution import (
    DROPPED,
    LAST_DAY,
    Stage,
    bad_change,
    declare,
    evolve,
    is_evolved,
    seen,
    seen_lines,
)
from lakewright.demo.hourly_weather import HOURLY_WEATHER, give_hours, hours_to_give
from lakewright.demo.narrator import Narrator
from lakewright.demo.partition_keys import all_rows, give_keys, keys_to_give, told
from lakewright.demo.report import ShownChange, ShownState, render_changes, render_health, state_of
from lakewright.platform.documents.variables import DEFAULT_WAREHOUSE, TABLES_VARIABLE
from lakewright.platform.ledger.kept_verbs import COMPACT
from lakewright.platform.ledger.kept_verbs import EXPIRE_SNAPSHOTS as EXPIRE
from lakewright.platform.orchestration.names import (
    TABLE_TAG,
    UPKEEP,
    UpkeepNames,
    tables_of_tag,
)
from lakewright.project.serve import ServedProject, workspace_of
from lakewright.storage import Catalog, Table
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import UnavailableError

FLIGHTS = "nyc.flights"
BY_DAY = (FLIGHTS, "nyc.weather", "nyc.delays_by_carrier")
REFERENCE = ("nyc.airlines", "nyc.airports", "nyc.planes")
SMALL_APPENDS = 24
# Also the compacted snapshot, and those of the two changes.
RETAINED_SNAPSHOTS = 8
SHOWN_SNAPSHOTS = 5

# What keeps short runs short; a variable of the calling shell has precedence.
_SHORT_RUNS = {
    # One planned event for each asset of a run, and not for each partition: a thousand less.
    "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS": "true",
    # A Spark session of a minute ends before Java's optimising compiler has paid for itself.
    "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1",
}

_YEAR = 2013
FIRST_DAY = dt.date(_YEAR, 1, 1)
LAST_BACKFILLED = dt.date(_YEAR, 11, 30)
_POLL_MS = 1_000
_RUN_SECONDS = 1_800
_SENSOR_SECONDS = 600

Found = TypeVar("Found")


def run_demo(warehouse: str, first_day: dt.date = FIRST_DAY) -> None:
    """Run all steps of the demo, with the flights since a day of January to November."""
    workspace = workspace_of(warehouse)
    env = SystemEnv()
    started = env.now_ms()
    say = Narrator(env, started)
    say.line(f"warehouse {workspace.warehouse}")
    say.step("starting Dagster: web server, daemon and code server, on loopback")
    catalog = Catalog.open(workspace.warehouse)
    # Runs read the declarations of this folder, so that the demo can change one.
    tables = workspace.home / "demo_tables"
    evolved = catalog.table_exists(FLIGHTS) and is_evolved(catalog.table(FLIGHTS))
    declare(tables, Stage.FINAL if evolved else Stage.FIRST)
    environment = {
        **workspace.environment,
        TABLES_VARIABLE: str(tables),
        **{name: os.environ.get(name, value) for name, value in _SHORT_RUNS.items()},
    }
    with DagsterServer(None, workspace.home, environment) as server:
        story = Story(server, catalog, say, env, first_day, tables)
        story.tell()
    say.line("")
    say.line(render_changes(story.changes) or "everything was there already; nothing was done")
    say.line("")
    say.line(f"done in {(env.now_ms() - started) / 1000:.0f} s. Look at it:")
    _say_how_to_look(say, workspace, tables)


def _say_how_to_look(say: Narrator, workspace: ServedProject, tables: Path) -> None:
    command = f"  {shlex.quote(sys.argv[0])}"
    if workspace.warehouse != str(Path(DEFAULT_WAREHOUSE).absolute()):
        command += f" --warehouse {shlex.quote(workspace.warehouse)}"
    say.line(f"{command} up --tables {shlex.quote(str(tables))}   the Dagster UI, with every run")
    say.line(f"{command} show {FLIGHTS}           schema, partitions, health")
    say.line(f"{command} read {FLIGHTS} --limit 5  rows, without Spark")


@dataclass
class Story:
    """The steps; `changes` is what the report will say."""

    server: DagsterServer
    catalog: Catalog
    say: Narrator
    env: SystemEnv
    first_day: dt.date
    tables: Path
    changes: list[ShownChange] = field(default_factory=list)

    def tell(self) -> None:
        """All steps, in order."""
        self._backfill()
        self._stream_december()
        self._show_health()
        self._compact_and_catch_up()
        self._evolve()
        self._change_partition_keys()
        self._give_hours()
        self._expire()

    # --- the steps ----------------------------------------------------------------------------

    def _backfill(self) -> None:
        first, last = self.first_day, LAST_BACKFILLED
        self.say.step(f"{first:%B} to {last:%B %Y} by backfill, and the reference tables")
        days = _days(first, last)
        missing = {table: self._missing(table, days) for table in BY_DAY}
        wanted = sorted({day for each in missing.values() for day in each})
        empty = [table for table in REFERENCE if not self._has_rows(table)]
        with self._changes("backfill", (*BY_DAY, *REFERENCE)):
            runs: list[str] = []
            backfill = None
            if wanted:
                stale = [table for table in BY_DAY if missing[table]]
                backfill = self.server.launch_backfill(
                    stale, wanted, title=f"demo: {len(wanted)} days"
                )
                self.say.note(f"backfill of {len(wanted)} days of {', '.join(stale)} launched")
            if empty:
                runs.append(self.server.launch_assets(empty))
                self.say.note(f"run for {', '.join(empty)} launched")
            self._adopt()
            self._wait_for(runs, backfill)
        if not wanted and not empty:
            self.say.note("all of it is there")

    def _adopt(self) -> None:
        """In this process, while Dagster begins with its runs."""
        folder = self.tables.with_name("demo_neglected")
        self.say.step("meanwhile, a neglected warehouse: adopted, watched, kept, taken back")
        if is_adopted(folder):
            self.say.note(f"it was adopted before, in {folder}")
            return
        adopt(folder, self.say.line)
        self.say.note("adopted; now to the runs")

    def _stream_december(self) -> None:
        days = _days(dt.date(_YEAR, 12, 1), dt.date(_YEAR, 12, 31))
        missing = self._missing(FLIGHTS, days)
        self.say.step(
            f"December of {FLIGHTS} as {SMALL_APPENDS} small appends, as a stream leaves it"
        )
        if not missing:
            self.say.note("it is there")
            return
        with self._changes("stream", (FLIGHTS,)):
            table = self.catalog.table(FLIGHTS)
            flights = nycflights.flights() if is_evolved(table) else nycflights.earlier_flights()
            rows = flights.filter(pc.is_in(flights.column("dt"), pa.array(missing)))
            for at in range(SMALL_APPENDS):
                # Every 24th flight: each append has a share of each day.
                table.write(rows.take(list(range(at, rows.num_rows, SMALL_APPENDS))))

    def _show_health(self) -> None:
        self.say.step("health, from metadata alone")
        for name in BY_DAY:
            self.say.line(render_health(self.catalog.table(name)))

    def _compact_and_catch_up(self) -> None:
        """The sensor acts by itself; meanwhile the other tables get their December."""
        self.say.step("the upkeep sensor looks by itself; meanwhile, December of the rest")
        due = [name for name in BY_DAY if self.catalog.table(name).upkeep.plan_compact().tasks]
        late = self._late_in_december()
        with self._changes("compaction", due), self._changes("ingest", list(late)):
            runs = []
            if late:
                days = sorted(day for each in late.values() for day in each)
                runs.append(self.server.launch_assets(list(late), partitions=(days[0], days[-1])))
                self.say.note(f"run for {' and '.join(late)} launched")
            for name in due:
                self._wait_until_compacted(name)
            self._wait_for(runs, None)
        if not due:
            self.say.note("nothing is worth compacting, and no run was launched")

    def _late_in_december(self) -> dict[str, list[str]]:
        days = _days(dt.date(_YEAR, 12, 1), dt.date(_YEAR, 12, 31))
        # The data set ends a day earlier for the weather.
        missing = {
            "nyc.weather": self._missing("nyc.weather", days[:-1]),
            "nyc.delays_by_carrier": self._missing("nyc.delays_by_carrier", days),
        }
        return {table: each for table, each in missing.items() if each}

    def _expire(self) -> None:
        self.say.step(f"expiring all but the last {RETAINED_SNAPSHOTS} snapshots")
        due = [name for name in BY_DAY if self._has_old_snapshots(self.catalog.table(name))]
        if not due:
            self.say.note("no table has more")
            return
        with self._changes("expiry", due):
            config = {"retain_min": RETAINED_SNAPSHOTS, "time_retained": "0s", "max_deletes": 1000}
            asked = UpkeepNames().run_config(EXPIRE, {"tables": dict.fromkeys(due, config)})
            run = self.server.launch_job(UPKEEP, asked)
            self._wait_for([run], None)

    def _evolve(self) -> None:
        table = self.catalog.table(FLIGHTS)
        if is_evolved(table):
            self.say.step(f"the schema of {FLIGHTS}")
            self.say.note("it is as declared")
            return
        self.say.step("the gate judges a change that nothing should make")
        plan = bad_change(table, self.tables)
        self.say.line(f"    {'; '.join(plan.differences)}: {plan.verdict.value}")
        for finding in plan.findings:
            self.say.line(textwrap.indent(textwrap.fill(str(finding), 110), "        "))
        with self._changes("evolution", (FLIGHTS,)):
            self.say.step(f"the declaration loses {DROPPED}, as by mistake; a run drops it")
            self._wait_for([evolve(self.server, self.tables, Stage.MISTAKEN)], None)
            self.say.step("the declaration has it again, and what else changed; a run follows")
            self._wait_for([evolve(self.server, self.tables, Stage.FINAL)], None)
            self.say.step(f"{LAST_DAY} is ingested again")
            self._wait_for(
                [self.server.launch_assets([FLIGHTS], partitions=(LAST_DAY, LAST_DAY))], None
            )
        self.say.step("the last snapshots are read, each in the schema of its time")
        for line in seen_lines(seen(self.catalog.table(FLIGHTS), SHOWN_SNAPSHOTS)):
            self.say.line(f"    {line}")

    def _change_partition_keys(self) -> None:
        wanted = keys_to_give(self.catalog.table(FLIGHTS))
        if not wanted:
            self.say.step(f"the partition keys of {FLIGHTS}")
            self.say.note("they were changed, and changed back")
            return
        with self._changes("partition keys", (FLIGHTS,)):
            before = all_rows(self.catalog.table(FLIGHTS))
            for keys in wanted:
                self.say.step(f"a run gives {FLIGHTS} the partition keys {', '.join(keys)}")
                run = give_keys(self.server, FLIGHTS, keys)
                self._wait_for([run], None)
                after = all_rows(self.catalog.table(FLIGHTS))
                said = told(FLIGHTS, self.server.observed(run), before, after)
                self.say.line(f"    {said}")

    def _give_hours(self) -> None:
        """In this process, by the command line."""
        self.say.step(f"{HOURLY_WEATHER} goes from days to days and hours, and back")
        if not hours_to_give(self.catalog):
            self.say.note("it has been there, and is back")
            return
        with self._changes("partition keys", (HOURLY_WEATHER,)):
            give_hours(self.catalog, self.say.line)

    # --- waiting ------------------------------------------------------------------------------

    def _wait_for(self, run_ids: Sequence[str], backfill: str | None) -> None:
        """Until the runs, and those of the backfill, have ended well.

        Raises:
            UnavailableError: one failed, or none ended in time.
        """
        if not run_ids and backfill is None:
            return

        def ended() -> bool | None:
            runs = [
                run
                for run in self.server.runs()
                if run.id in run_ids or (backfill and run.tags.get("dagster/backfill") == backfill)
            ]
            self._check(runs)
            self.say.note(_in_words(runs))
            waiting_for_backfill = backfill is not None and not any(
                run.tags.get("dagster/backfill") == backfill for run in runs
            )
            if waiting_for_backfill or any(run.status not in ENDED for run in runs):
                return None
            return True

        self._until(ended, _RUN_SECONDS, "the runs to end")

    def _wait_until_compacted(self, name: str) -> None:
        def compacted() -> bool | None:
            runs = [
                run
                for run in self.server.runs()
                if run.verb == COMPACT and name in tables_of_tag(run.tags.get(TABLE_TAG, ""))
            ]
            self._check(runs)
            if not self.catalog.table(name).upkeep.plan_compact().tasks and all(
                run.status in ENDED for run in runs
            ):
                return True
            tick = self.server.last_tick(UpkeepNames().sensor)
            if runs:
                self.say.note(f"{name}: {_in_words(runs[:1])}")
            elif tick is not None:
                said = tick["skipReason"] or tick["status"].lower()
                self.say.note(f"{name}: the sensor says: {textwrap.shorten(said, 100)}")
            return None

        self._until(compacted, _SENSOR_SECONDS, f"the sensor to compact {name}")
        self.say.note(f"{name}: compacted")

    def _until(self, look: Callable[[], Found | None], seconds: int, what: str) -> Found:
        deadline = self.env.now_ms() + seconds * 1000
        while self.env.now_ms() < deadline:
            found = look()
            if found is not None:
                return found
            self.env.sleep_ms(_POLL_MS)
        raise UnavailableError(f"waited {seconds} s for {what}; see {self.server.log}")

    def _check(self, runs: Iterable[ServedRun]) -> None:
        for run in runs:
            if run.status in ("FAILURE", "CANCELED"):
                raise UnavailableError(
                    f"run {run.id[:8]} of {run.job} ended as {run.status}: "
                    f"{self.server.failure_of(run.id)}"
                )

    # --- looking at tables --------------------------------------------------------------------

    def _changes(self, step: str, tables: Sequence[str]) -> _Recorder:
        return _Recorder(self, step, tables)

    def states(self, tables: Sequence[str]) -> Mapping[str, ShownState]:
        """How tables are now; those that do not exist yet are empty."""
        return {
            name: state_of(self.catalog.table(name))
            if self.catalog.table_exists(name)
            else ShownState()
            for name in tables
        }

    def _missing(self, name: str, days: Sequence[str]) -> list[str]:
        if not self.catalog.table_exists(name):
            return list(days)
        present = {str(stats.spec["dt"]) for stats in self.catalog.table(name).at().partitions()}
        return [day for day in days if day not in present]

    def _has_rows(self, name: str) -> bool:
        return self.catalog.table_exists(name) and bool(self.catalog.table(name).at().partitions())

    def _has_old_snapshots(self, table: Table) -> bool:
        plan = table.upkeep.plan_expire_snapshots(
            retain_min=RETAINED_SNAPSHOTS, time_retained_ms=0, max_deletes=1000, grace_ms=0
        )
        return bool(plan.snapshot_ids)


@dataclass
class _Recorder:
    """Notes how tables differ between its beginning and its end."""

    story: Story
    step: str
    tables: Sequence[str]
    _before: Mapping[str, ShownState] = field(default_factory=dict)
    _started_ms: int = 0

    def __enter__(self) -> None:
        self._before = self.story.states(self.tables)
        self._started_ms = self.story.env.now_ms()

    def __exit__(self, *failure: object) -> None:
        seconds = (self.story.env.now_ms() - self._started_ms) / 1000
        after = self.story.states(self.tables)
        self.story.changes += [
            ShownChange(self.step, name, self._before[name], after[name], seconds)
            for name in self.tables
            if self._before[name] != after[name]
        ]


def _days(first: dt.date, last: dt.date) -> list[str]:
    count = (last - first).days + 1
    return [(first + dt.timedelta(days=offset)).isoformat() for offset in range(count)]


def _in_words(runs: Sequence[ServedRun]) -> str:
    if not runs:
        return "waiting for Dagster to start the run"
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.status.lower()] = counts.get(run.status.lower(), 0) + 1
    said = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"{len(runs)} run{'s' if len(runs) > 1 else ''}: {said}"
