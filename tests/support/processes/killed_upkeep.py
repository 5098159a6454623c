"""A run of upkeep whose process kills itself at a moment of its work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

from lakewright.definitions import build_definitions
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.storage import Catalog
from tests.support.processes.racing import quick_starts, run_in
from tests.support.stores.watched_files import Call, WatchedFiles

_PATIENCE_SECONDS = 300


def _is_commit(call: Call) -> bool:
    return call.changes and "/events/snapshot/snapshot-" in call.path


# Which call of the store is the last one, and whether it still takes effect.
MOMENTS: dict[str, tuple[Callable[[Call], bool], bool]] = {
    "started, before it has read the table": (lambda call: "/events/" in call.path, False),
    "with its lease": (lambda call: call.changes and "/leases/book-" in call.path, True),
    "amid its work": (lambda call: call.changes and "/bucket-0/" in call.path, True),
    "before its commit": (_is_commit, False),
    "after its commit, before its end": (_is_commit, True),
}


class DeadlyWarehouse(WarehouseResource):
    """A warehouse that ends the process at a moment."""

    moment: str

    def catalog(self) -> Catalog:
        opened = super().catalog()
        is_last, takes_effect = MOMENTS[self.moment]

        def die(call: Call) -> None:
            if is_last(call):
                os.kill(os.getpid(), signal.SIGKILL)

        files = WatchedFiles(opened.fs)
        if takes_effect:
            files.after = die
        else:
            files.before = die
        return replace(opened, fs=files)


def work_until_killed(home: str, run_id: str, declared: Path, warehouse: str, moment: str) -> None:
    """Work at a run in a process of its own that dies at the moment; nothing reports its end."""
    process = quick_starts().Process(
        target=run_in,
        args=(dict(os.environ), _work, home, run_id, declared, warehouse, moment),
    )
    process.start()
    process.join(_PATIENCE_SECONDS)
    assert process.exitcode == -signal.SIGKILL, process.exitcode


def _work(home: str, run_id: str, declared: Path, warehouse: str, moment: str) -> None:
    deadly = DeadlyWarehouse(uri=warehouse, moment=moment)
    definitions = build_definitions([declared], warehouse=deadly)
    with dg.DagsterInstance.local_temp(home) as instance:
        run = instance.get_run_by_id(run_id)
        assert run is not None
        execute_run(InMemoryJob(definitions.resolve_job_def(run.job_name)), run, instance)
