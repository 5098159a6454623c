"""Runs in processes that are forked from one that has imported everything."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.errors import DagsterLaunchFailedError
from dagster._core.launcher.base import WorkerStatus

from lakewright.platform.orchestration.run_process import PROCESS_TAG
from tests.support.processes.launched_jobs import noting

PATIENCE_SECONDS = 600
LONG = 1000.0


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """With the launcher as `dagster_home/dagster.yaml` names it, and less imported ahead."""
    settings = Path(__file__).parents[4] / "dagster_home" / "dagster.yaml"
    launcher = yaml.safe_load(settings.read_text())["run_launcher"]
    launcher["config"]["preload"] = ["dagster"]
    (tmp_path / "home").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text(yaml.safe_dump({"run_launcher": launcher}))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        yield instance
        instance.run_launcher.join(PATIENCE_SECONDS)


def launched(instance: dg.DagsterInstance, notes: Path, *, seconds: float = 0.0) -> str:
    config = {"ops": {"note": {"config": {"notes": str(notes), "seconds": seconds}}}}
    run = instance.create_run_for_job(
        job_def=noting,
        run_config=config,
        job_code_origin=dg.reconstructable(noting).get_python_origin(),
    )
    instance.launch_run(run.run_id, None)  # type: ignore[arg-type]  # the workspace is for others
    return run.run_id


def noted(folder: Path, count: int = 1) -> list[tuple[int, int]]:
    """The processes of so many runs, with their parents."""
    until(lambda: len(list(folder.iterdir())) == count)
    pairs = (each.name.split("-") for each in folder.iterdir())
    return [(int(process), int(parent)) for process, parent in pairs]


def run_of(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run


def until(has_come: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not has_come():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_runs_are_forked_from_one_process_that_is_not_the_launchers(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    runs = [launched(instance, tmp_path / "notes") for _ in range(2)]
    until(lambda: all(run_of(instance, each).is_finished for each in runs))
    assert all(run_of(instance, each).is_success for each in runs)
    (first, parent), (second, other) = noted(tmp_path / "notes", 2)
    assert first != second
    assert parent == other
    assert parent != os.getpid()
    assert not instance.run_launcher.terminate(runs[0])


def test_a_run_whose_process_is_killed_has_failed(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    run_id = launched(instance, tmp_path / "notes", seconds=LONG)
    ((process, _),) = noted(tmp_path / "notes")
    launcher, run = instance.run_launcher, run_of(instance, run_id)
    assert launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING
    os.kill(process, signal.SIGKILL)
    until(lambda: run_of(instance, run_id).is_finished)
    assert run_of(instance, run_id).status is dg.DagsterRunStatus.FAILURE
    assert f"pid: {process}) ended with -9" in str(instance.all_logs(run_id))
    # What the monitoring asks after a crash of the launcher, too.
    assert launcher.check_run_worker_health(run).status is WorkerStatus.FAILED


def test_a_run_outlives_the_process_that_forked_it(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = launched(instance, tmp_path / "notes", seconds=LONG)
    ((_, parent),) = noted(tmp_path / "notes")
    os.kill(parent, signal.SIGKILL)
    # The next run finds that process gone, and the one after it begins with another.
    monkeypatch.setattr(instance.run_launcher, "_preload", ["tests.support.processes.no_import"])
    with pytest.raises(DagsterLaunchFailedError, match=r"it imports tests.support.processes.no_"):
        launched(instance, tmp_path / "notes")
    monkeypatch.undo()
    other = launched(instance, tmp_path / "notes")
    until(lambda: run_of(instance, other).is_finished)
    assert run_of(instance, other).is_success
    assert run_of(instance, run_id).status is dg.DagsterRunStatus.STARTED
    assert instance.run_launcher.terminate(run_id)
    until(lambda: run_of(instance, run_id).is_finished)
    assert run_of(instance, run_id).status is dg.DagsterRunStatus.CANCELED


def test_a_run_that_is_cancelled_ends_as_cancelled(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    run_id = launched(instance, tmp_path / "notes", seconds=LONG)
    noted(tmp_path / "notes")
    assert instance.run_launcher.terminate(run_id)
    until(lambda: run_of(instance, run_id).is_finished)
    assert run_of(instance, run_id).status is dg.DagsterRunStatus.CANCELED


def test_a_process_that_took_the_number_of_a_dead_one_is_not_taken_for_it(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    run_id = launched(instance, tmp_path / "notes")
    until(lambda: run_of(instance, run_id).is_finished)
    run = run_of(instance, run_id)
    host = run.tags[PROCESS_TAG].split()[0]
    reused = run.with_tags({PROCESS_TAG: f"{host} {os.getpid()} 1"})
    launcher = instance.run_launcher
    assert launcher.check_run_worker_health(reused).status is WorkerStatus.FAILED
    elsewhere = run.with_tags({PROCESS_TAG: f"another-host {os.getpid()} 1"})
    assert launcher.check_run_worker_health(elsewhere).status is WorkerStatus.RUNNING
