"""No stuck state: whatever dies or changes at whichever moment, the next look decides anew.

Dagster's monitoring of runs ends what died; the tests call it as its daemon does.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.test_utils import create_run_for_test
from dagster._daemon.monitoring.run_monitoring import monitor_started_run, monitor_starting_run

from lakewright.jobs import upkeep_sensor
from lakewright.platform.orchestration import past_runs
from lakewright.platform.orchestration.names import UPKEEP, VERB_TAG, UpkeepNames
from lakewright.platform.orchestration.warm_launcher import WarmRunLauncher
from lakewright.storage import Table
from lakewright.storage.env import SystemEnv
from tests.pipelines.lake import Lake
from tests.support.processes.killed_upkeep import MOMENTS, work_until_killed, working
from tests.support.tables.builders import remove_orphans, rows
from tests.support.tally import tally

TABLE = "table: shop.events\nmaintenance: {compaction: {min_bytes: 0 b, small_files: 3}}\n"
FILES = 4
LATER_MS = 600_000
START_TIMEOUT_SECONDS = 2

NOT_STARTED, QUEUED, STARTING, STARTED = (
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
)


@dataclass
class Ordeal:
    """A table that is due, an instance with files of its own, and the runs that ticks ask for."""

    lake: Lake
    monkeypatch: pytest.MonkeyPatch
    keys: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.lake.declare(TABLE)
        self.write(FILES)

    def write(self, files: int) -> None:
        table = self.lake.catalog.create_table("shop.events", {"k": "INT"}, if_not_exists=True)
        for number in range(files):
            table.write(rows(table, [{"k": number}]))

    @property
    def files(self) -> int:
        return self.lake.table().at().partitions()[0].file_count

    def ask(self) -> dg.RunRequest:
        """Tick once; what is asked for has a new key, without which Dagster would not launch it."""
        answer = self.lake.tick()
        assert answer.run_requests, answer.skip_message
        (request,) = answer.run_requests
        assert isinstance(request, dg.RunRequest)
        assert request.run_key is not None
        assert request.run_key not in self.keys
        self.keys.add(request.run_key)
        return request

    def create(self, status: dg.DagsterRunStatus) -> dg.DagsterRun:
        """What the daemon makes of a request: a run, queued, then taken out of the queue."""
        request = self.ask()
        location = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("here"), "__repository__")
        run = self.lake.instance.create_run_for_job(
            job_def=self.lake.definitions.resolve_job_def(UPKEEP),
            run_config=dict(request.run_config),
            tags={**request.tags, "dagster/run_key": str(request.run_key)},
            status=QUEUED if status is not NOT_STARTED else NOT_STARTED,
            remote_job_origin=RemoteJobOrigin(location, UPKEEP),
        )
        if status is STARTING:
            starting = DagsterEvent(DagsterEventType.PIPELINE_STARTING.value, job_name=UPKEEP)
            self.lake.instance.report_dagster_event(starting, run_id=run.run_id)
        return run

    def die(self, moment: str) -> dg.DagsterRun:
        """Ask for a run that is worked at by a process which dies at the moment."""
        run = self.create(STARTING)
        home = self.lake.instance.root_directory
        tables, warehouse = self.lake.folder / "tables", self.lake.warehouse.uri
        work_until_killed(home, run.run_id, tables, warehouse, moment)
        tally("kills survived")
        assert self.status(run) is STARTED
        self.monitored()
        assert self.status(run) is dg.DagsterRunStatus.FAILURE
        return run

    def status(self, run: dg.DagsterRun) -> dg.DagsterRunStatus:
        now = self.lake.instance.get_run_by_id(run.run_id)
        assert now is not None
        return now.status

    def monitored(self) -> None:
        """What Dagster's daemon does of a run that has not ended, once a minute."""
        instance, log = self.lake.instance, logging.getLogger("monitoring")
        for record in instance.get_run_records():
            run = record.dagster_run
            if run.status is STARTED:
                workspace: Any = None
                monitor_started_run(instance, workspace, record, log)
            elif run.status in (NOT_STARTED, STARTING):
                monitor_starting_run(instance, record, log)

    def time_passes(self, passed_ms: int) -> None:
        """Let the sensor's clock be ahead."""

        class Later(SystemEnv):
            def now_ms(self) -> int:
                return super().now_ms() + passed_ms

        self.monkeypatch.setattr(upkeep_sensor, "SystemEnv", Later)

    def ends_well(self) -> None:
        """The next tick asks for what is due, its run does it, and then nothing is due."""
        assert self.lake.request(self.ask()).success
        assert self.files == 1
        self.is_at_rest()

    def is_at_rest(self) -> None:
        answer = self.lake.tick()
        assert not answer.run_requests
        assert answer.skip_message == "looked at 1 table: nothing is due"
        unfinished = [each for each in self.lake.instance.get_runs() if not each.is_finished]
        assert not unfinished


@pytest.fixture
def ordeal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ordeal]:
    home = tmp_path / "home"
    home.mkdir()
    monitoring = {"enabled": True, "start_timeout_seconds": START_TIMEOUT_SECONDS}
    launcher = {
        "module": "lakewright.platform.orchestration.warm_launcher",
        "class": "WarmRunLauncher",
    }
    settings = {"run_launcher": launcher, "run_monitoring": monitoring}
    with dg.DagsterInstance.local_temp(str(home), settings) as instance:
        lake = Lake(tmp_path, instance)
        yield Ordeal(lake, monkeypatch)
        # The files that the killed process staged are orphans.
        if lake.catalog.table_exists("shop.events"):
            table = lake.table()
            # A process that dies right after its commit leaves a hint to the next one.
            table.write(table.read().slice(0, 1))
            remove_orphans(table)
        lake.check_soundness()
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.parametrize("status", [NOT_STARTED, STARTING])
def test_a_run_that_never_began_holds_its_table_until_it_is_given_up(
    ordeal: Ordeal, status: dg.DagsterRunStatus
) -> None:
    run = ordeal.create(status)
    answer = ordeal.lake.tick()
    assert not answer.run_requests
    assert f"waits for run {run.run_id[:8]} of upkeep (compact)" in answer.skip_message
    ordeal.monitored()
    assert ordeal.status(run) is status
    time.sleep(START_TIMEOUT_SECONDS)
    ordeal.monitored()
    ordeal.ends_well()
    assert ordeal.status(run) is dg.DagsterRunStatus.FAILURE


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(each, marks=[] if each == "during its work" else [pytest.mark.deep])
        for each in MOMENTS
    ],
)
def test_the_next_tick_makes_up_for_a_run_whose_process_was_killed(
    ordeal: Ordeal, moment: str
) -> None:
    ordeal.die(moment)
    if moment.startswith("after its commit"):
        assert ordeal.files == 1
        ordeal.is_at_rest()
    else:
        assert ordeal.files == FILES
        ordeal.ends_well()


def test_a_killed_run_is_made_up_for_after_as_many_runs_as_are_looked_at(ordeal: Ordeal) -> None:
    for number in range(past_runs._RUNS):
        asked = {"tables": {"shop.events": {}}, "asked": {"shop.events": {"state": str(number)}}}
        create_run_for_test(
            ordeal.lake.instance,
            job_name=UPKEEP,
            status=dg.DagsterRunStatus.SUCCESS,
            tags={VERB_TAG: "compact"},
            run_config=UpkeepNames().run_config("compact", asked),
        )
    ordeal.die("during its work")
    ordeal.ends_well()


def test_a_run_that_is_cancelled_while_it_works_leaves_no_staged_file_and_no_lease(
    ordeal: Ordeal, tmp_path: Path
) -> None:
    before = data_files(ordeal.lake.table())
    run = ordeal.create(STARTING)
    instance = ordeal.lake.instance
    launcher = WarmRunLauncher()
    launcher.register_instance(instance)
    tables, warehouse = tmp_path / "tables", ordeal.lake.warehouse.uri
    with working(instance.root_directory, run.run_id, tables, warehouse, tmp_path / "told"):
        assert data_files(ordeal.lake.table()) > before
        assert ordeal.lake.table().upkeep.leases()
        assert launcher.terminate(run.run_id)
    assert ordeal.status(run) is dg.DagsterRunStatus.CANCELED
    assert data_files(ordeal.lake.table()) == before
    assert ordeal.lake.table().upkeep.leases() == ()
    assert "was asked for already in this state, and is again from " in (
        ordeal.lake.tick().skip_message
    )
    ordeal.time_passes(LATER_MS)
    ordeal.ends_well()


def data_files(table: Table) -> set[Path]:
    return set(Path(table.table_files.paths.root).glob("bucket-*/data-*"))


def policy_changes(ordeal: Ordeal) -> None:
    ordeal.lake.declare(TABLE.replace("min_bytes: 0 b, small_files: 3", "small_files: 9"))


def table_is_dropped(ordeal: Ordeal) -> None:
    ordeal.lake.catalog.drop_table("shop.events")


def table_is_created_again(ordeal: Ordeal) -> None:
    table_is_dropped(ordeal)
    ordeal.write(FILES)


CHANGES: list[tuple[Callable[[Ordeal], None], bool]] = [
    (policy_changes, False),
    (table_is_dropped, False),
    (table_is_created_again, True),
]


@pytest.mark.parametrize("moment", ["during its work", "before its commit"])
@pytest.mark.parametrize(("change", "is_due"), CHANGES)
@pytest.mark.deep
def test_what_changed_while_a_killed_run_was_thought_to_work_is_decided_by_the_next_tick(
    ordeal: Ordeal, moment: str, change: Callable[[Ordeal], None], is_due: bool
) -> None:
    ordeal.die(moment)
    change(ordeal)
    if is_due:
        ordeal.ends_well()
    else:
        answer = ordeal.lake.tick()
        assert not answer.run_requests
        assert "waits for" not in answer.skip_message


@pytest.mark.deep
def test_runs_killed_one_after_the_other_are_made_up_for_later_and_later(ordeal: Ordeal) -> None:
    ordeal.die("during its work")
    ordeal.die("during its work")
    answer = ordeal.lake.tick()
    assert "was asked for already in this state, and is again from " in answer.skip_message
    ordeal.time_passes(LATER_MS)
    ordeal.ends_well()
