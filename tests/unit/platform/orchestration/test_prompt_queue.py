"""The queue of runs of a project: Dagster's, looked at more often."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._daemon.controller import create_daemon_of_type
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import (
    QueuedRunCoordinatorDaemon,
)

from lakewright.project import serve


def test_the_daemon_of_a_project_looks_at_its_queue_twice_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = yaml.safe_load((Path(serve.__file__).parent / "dagster.yaml").read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(settings))
    with dg.DagsterInstance.get() as instance:
        daemon = create_daemon_of_type(QueuedRunCoordinatorDaemon.daemon_type(), instance)
        assert isinstance(daemon, QueuedRunCoordinatorDaemon)
        assert daemon.interval_seconds == 0.5
        # The limits of runs are those of the same file.
        concurrency = instance.get_concurrency_config()
        assert concurrency.run_queue_config is not None
        assert concurrency.run_queue_config.max_concurrent_runs == 2
