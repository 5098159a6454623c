"""Run workers and the daemon of Dagster killed in the middle of runs: what was published stays so.

A run that is executed again after its worker died continues its commit's name, so it finds what
the first try has published.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import dagster as dg
import pyarrow as pa
import pytest

from lakewright.demo.dagster_server import DagsterServer
from lakewright.platform.orchestration.run_process import PROCESS_TAG
from lakewright.storage import Catalog, Table
from tests.kills.processes import descendants, kill, of_session
from tests.kills.slow_source import NOTES_VARIABLE, ROWS
from tests.support.tables.builders import remove_orphans
from tests.support.tables.invariants import assert_sound
from tests.support.tally import tally

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 900
DAY = "2024-01-01"
TABLE = """
    table: shop.events
    columns:
      - {name: dt, type: STRING NOT NULL}
      - {name: id, type: BIGINT NOT NULL}
    partition_keys: [dt]
    partitions:
      daily: {column: dt, start: 2024-01-01, end: 2024-02-01}
    source: {python: "tests.kills.slow_source:rows"}
    write: {engine: local}
    maintenance:
      compaction: {min_bytes: 0 b, small_files: 3, enabled: false}
"""

pytestmark = pytest.mark.deep


@dataclass
class Platform:
    """A workspace with one table, served by real processes from a home of its own."""

    folder: Path

    def __post_init__(self) -> None:
        for name in ("home", "tables", "notes"):
            (self.folder / name).mkdir()
        (self.folder / "tables" / "events.yaml").write_text(dedent(TABLE))
        settings = (ROOT / "dagster_home" / "dagster.yaml").read_text()
        for name in ("poll_interval_seconds", "free_slots_after_run_end_seconds"):
            assert f"{name}: 60" in settings
            settings = settings.replace(f"{name}: 60", f"{name}: 1")
        (self.folder / "home" / "dagster.yaml").write_text(settings)

    @contextmanager
    def served(self) -> Iterator[DagsterServer]:
        """The platform while it runs; none of its processes is left afterwards."""
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
        server = DagsterServer(
            None,
            self.folder / "home",
            {
                "LAKEWRIGHT_TABLES": str(self.folder / "tables"),
                "LAKEWRIGHT_WAREHOUSE": str(self.folder / "warehouse"),
                NOTES_VARIABLE: str(self.folder / "notes"),
                "PYTHONPATH": path,
            },
        )
        with server:
            assert server._process is not None
            group = server._process.pid
            try:
                yield server
            finally:
                everyone = {*of_session(group), *descendants(group)} - {group}
        for pid in everyone:
            kill(pid)

    @property
    def table(self) -> Table:
        return Catalog.open(str(self.folder / "warehouse")).table("shop.events")

    @property
    def asked(self) -> int | None:
        """The process that reads the source for its run; None before one does."""
        names = [each.name for each in (self.folder / "notes").iterdir()]
        return int(names[0].removeprefix("asked-")) if names else None

    @property
    def has_published(self) -> bool:
        return bool(list(self.folder.glob("warehouse/shop.db/events/snapshot/snapshot-*")))

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        """What the processes share; it takes a second to open."""
        home = str(self.folder / "home")
        # The log of events finds its folder by the variable, as for every command of Dagster.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DAGSTER_HOME", home)
            with dg.DagsterInstance.from_config(home) as instance:
                yield instance


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    yield Platform(tmp_path)
    shutil.rmtree(tmp_path / "home", ignore_errors=True)


@pytest.mark.parametrize("moment", ["before it has written", "after it has published"])
@pytest.mark.mission("PT54")
def test_an_ingest_whose_worker_was_killed_is_published_once_by_the_next_try(
    platform: Platform, moment: str
) -> None:
    with platform.served() as server:
        run = launch_ingest(server)
        until(lambda: platform.asked is not None, every=0.01)
        worker = platform.asked
        assert worker is not None
        if moment == "after it has published":
            until(lambda: platform.has_published, every=0.002)
        kill(worker)
        tally("kills survived")
        until(lambda: status_of(server, run) in ("FAILURE", "SUCCESS"))
        assert status_of(server, run) == "FAILURE"
        published = len(platform.table.history.snapshots())
        assert published == (moment == "after it has published")

        again = execute_again(server, run)
        until(lambda: status_of(server, again) in ("FAILURE", "SUCCESS"))
        assert status_of(server, again) == "SUCCESS", server.failure_of(again)
    assert len(platform.table.history.snapshots()) == 1
    assert platform.table.read().num_rows == ROWS
    assert_sound(swept(platform.table))


@pytest.mark.parametrize("verb", ["compact", "expire_snapshots"])
@pytest.mark.mission("PT54")
def test_upkeep_whose_worker_was_killed_is_done_by_the_next_run(
    platform: Platform, verb: str
) -> None:
    with platform.served() as server:
        first = launch_ingest(server)
        until(lambda: status_of(server, first) == "SUCCESS")
        table = platform.table
        # So many that the work goes on after its worker is known.
        for number in range(300):
            values = [{"dt": DAY, "id": ROWS + number * 100 + each} for each in range(100)]
            table.write(pa.Table.from_pylist(values, table.arrow_schema))
        before = sorted(table.read().column("id").to_pylist())
        snapshots = len(table.history.snapshots())
        expiry = {"retain_min": 1, "retain_max": 1, "time_retained": "0s", "max_deletes": 999}
        given: dict[str, object] = {"full": True} if verb == "compact" else expiry
        config = {"ops": {verb: {"config": {"tables": {"shop.events": given}}}}}
        written = entries(table)

        with platform.instance() as instance:
            run = server.launch_job(verb, config)
            until(lambda: worker_of(instance, run) is not None, every=0.005)
            worker = worker_of(instance, run)
        assert worker is not None
        if verb == "compact":
            until(lambda: entries(table) > written, every=0.001)
        else:
            until(lambda: len(table.table_files.snapshots.ids()) < snapshots, every=0.001)
        kill(worker)
        tally("kills survived")
        until(lambda: status_of(server, run) in ("FAILURE", "SUCCESS"))
        assert status_of(server, run) == "FAILURE"
        assert sorted(table.read().column("id").to_pylist()) == before
        # The dead holds it for minutes yet, but Dagster knows that its run has ended. On a busy
        # machine an expiry may have come to its end before the kill.
        ended = verb != "compact" and len(table.table_files.snapshots.ids()) == 1
        assert ended or len(table.upkeep.leases()) == 1

        again = server.launch_job(verb, config)
        until(lambda: status_of(server, again) in ("FAILURE", "SUCCESS"))
        assert status_of(server, again) == "SUCCESS", server.failure_of(again)
    assert not table.upkeep.leases()
    assert sorted(table.read().column("id").to_pylist()) == before
    if verb == "compact":
        assert len(table.at().files()) == 1
    else:
        assert len(table.history.snapshots()) == 1
    assert_sound(swept(table))


@pytest.mark.mission("PT54")
def test_when_everything_of_dagster_is_killed_the_next_start_goes_on(platform: Platform) -> None:
    with platform.served() as server:
        run = launch_ingest(server)
        until(lambda: platform.asked is not None)
        queued = launch_ingest(server, "2024-01-02")
        assert server._process is not None
        group = server._process.pid
        for pid in {*of_session(group), *descendants(group)}:
            os.kill(pid, signal.SIGKILL)
            tally("kills survived")
    with platform.served() as server:
        # No process is left that knows how it ended, so a person ends it.
        server.query(
            """mutation($id: String!) { terminateRun(runId: $id,
                 terminatePolicy: MARK_AS_CANCELED_IMMEDIATELY) { __typename } }""",
            id=run,
        )
        until(lambda: status_of(server, queued) in ("FAILURE", "SUCCESS"))
        assert status_of(server, queued) == "SUCCESS", server.failure_of(queued)
        again = execute_again(server, run)
        until(lambda: status_of(server, again) in ("FAILURE", "SUCCESS"))
        assert status_of(server, again) == "SUCCESS", server.failure_of(again)
    assert platform.table.read().num_rows == 2 * ROWS
    assert len(platform.table.history.snapshots()) == 2
    assert_sound(swept(platform.table))


def launch_ingest(server: DagsterServer, day: str = DAY) -> str:
    return server.launch_assets(["shop.events"], partitions=(day, day))


def execute_again(server: DagsterServer, run_id: str) -> str:
    """What the UI's button `re-execute from failure` does."""
    answer = server.query(
        """mutation($p: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $p) {
             __typename ... on LaunchRunSuccess { run { runId } }
             ... on PythonError { message } } }""",
        p={"parentRunId": run_id, "strategy": "FROM_FAILURE"},
    )["launchRunReexecution"]
    assert answer["__typename"] == "LaunchRunSuccess", answer
    return str(answer["run"]["runId"])


def status_of(server: DagsterServer, run_id: str) -> str:
    return next(each.status for each in server.runs() if each.id == run_id)


def swept(table: Table) -> Table:
    """The table without what the dead left behind."""
    remove_orphans(table)
    return table


def worker_of(instance: dg.DagsterInstance, run_id: str) -> int | None:
    """The process that does a run, as soon as the launcher has told it."""
    run = instance.get_run_by_id(run_id)
    told = None if run is None else run.tags.get(PROCESS_TAG)
    return None if told is None else int(told.split()[-2])


def entries(table: Table) -> int:
    """How many files lie in the bucket of the day, unfinished ones too; quick enough to be seen."""
    return len(list(Path(table.table_files.paths.root, f"dt={DAY}", "bucket-0").iterdir()))


def until(has_come: Callable[[], bool], *, every: float = 0.2) -> None:
    latest = time.monotonic() + PATIENCE_SECONDS
    while not has_come():
        assert time.monotonic() < latest
        time.sleep(every)
