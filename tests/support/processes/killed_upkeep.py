"""A run of upkeep whose process kills itself, or is cancelled, at a moment of its work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.execution.api import execute_run
from dagster._utils.interrupts import capture_interrupts

from lakewright.definitions import build_definitions
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.run_process import PROCESS_TAG, process_identity
from lakewright.storage import Catalog
from tests.support.processes.racing import quick_starts, run_in
from tests.support.stores.watched_files import Call, WatchedFiles

_PATIENCE_SECONDS = 300
# Time for a cancellation, before the work of a run goes on.
_HALT_SECONDS = 10.0


def _is_commit(call: Call) -> bool:
    return call.changes and "/events/snapshot/snapshot-" in call.path


# Which call of the store is the last one, and whether it still takes effect.
MOMENTS: dict[str, tuple[Callable[[Call], bool], bool]] = {
    "started, before it has read the table": (lambda call: "/events/" in call.path, False),
    "with its lease": (lambda call: call.changes and "/leases/book-" in call.path, True),
    "during its work": (lambda call: call.changes and "/bucket-0/" in call.path, True),
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
        target=run_in, args=(dict(os.environ), _work, home, run_id, declared, warehouse, moment)
    )
    process.start()
    process.join(_PATIENCE_SECONDS)
    assert process.exitcode == -signal.SIGKILL, process.exitcode


def _work(home: str, run_id: str, declared: Path, warehouse: str, moment: str) -> None:
    deadly = DeadlyWarehouse(uri=warehouse, moment=moment)
    definitions = build_definitions([declared], warehouse=deadly)
    with dg.DagsterInstance.local_temp(home) as instance:
        # As the launcher tags it.
        instance.add_run_tags(run_id, {PROCESS_TAG: process_identity(os.getpid())})
        run = instance.get_run_by_id(run_id)
        assert run is not None
        execute_run(InMemoryJob(definitions.resolve_job_def(run.job_name)), run, instance)


class HaltingWarehouse(WarehouseResource):
    """A warehouse that tells in a file that the first file is staged, and waits a little then."""

    told: str

    def catalog(self) -> Catalog:
        opened = super().catalog()
        is_staging, _ = MOMENTS["during its work"]

        def halt(call: Call) -> None:
            if is_staging(call) and not Path(self.told).exists():
                Path(self.told).touch()
                time.sleep(_HALT_SECONDS)

        files = WatchedFiles(opened.fs)
        files.after = halt
        return replace(opened, fs=files)


@contextmanager
def working(
    home: str, run_id: str, declared: Path, warehouse: str, told: Path
) -> Iterator[ForkServerProcess]:
    """A process that works at a run and has staged a file; it must end within the block."""
    process = quick_starts().Process(
        target=run_in,
        args=(dict(os.environ), _work_as_launched, home, run_id, declared, warehouse, str(told)),
    )
    process.start()
    try:
        ends = time.monotonic() + _PATIENCE_SECONDS
        while not told.exists():
            assert process.is_alive(), f"it ended with {process.exitcode} before it staged a file"
            assert time.monotonic() < ends
            time.sleep(0.01)
        yield process
        process.join(_PATIENCE_SECONDS)
        assert process.exitcode == 0
    finally:
        process.kill()


def _work_as_launched(home: str, run_id: str, declared: Path, warehouse: str, told: str) -> None:
    """What the process of a launched run does, which heeds a cancellation."""
    definitions = build_definitions(
        [declared], warehouse=HaltingWarehouse(uri=warehouse, told=told)
    )
    with capture_interrupts(), dg.DagsterInstance.local_temp(home) as instance:
        # As the launcher tags it.
        instance.add_run_tags(run_id, {PROCESS_TAG: process_identity(os.getpid())})
        run = instance.get_run_by_id(run_id)
        assert run is not None
        with suppress(DagsterExecutionInterruptedError):
            execute_run(InMemoryJob(definitions.resolve_job_def(run.job_name)), run, instance)
