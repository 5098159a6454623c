"""Launches runs in processes that are forked from one that has imported everything.

Dagster's own launcher starts an interpreter for each run, which imports Dagster and this platform
before it does anything: most of the time of a small run. Here the process that launches runs keeps
a fork server beside it. It imports once, does nothing else, and forks for each run; a run then
loads the definitions, as ever, and works.

1. Tag the run with its process, so that other processes find it, and none takes another for it.
2. Wait for the process beside; if it ends before its run, the run has failed.
3. A cancellation is a signal to the process. The monitoring of runs asks whether it still lives,
   so that a run is not thought to work for ever after a crash of the whole machine.

Runs of code that has another interpreter are left to Dagster's launcher.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerContext, ForkServerProcess
from threading import Lock, Thread
from typing import Any, Self

import dagster as dg
from dagster._cli.api import _execute_run_command_body
from dagster._config import UserConfigSchema
from dagster._core.errors import DagsterLaunchFailedError
from dagster._core.instance import InstanceRef
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._serdes import ConfigurableClassData
from dagster._utils.interrupts import capture_interrupts

from lakewright.platform.orchestration.run_process import (
    PROCESS_TAG,
    is_of_this_machine,
    living_process,
    process_identity,
)
from lakewright.storage.env import SystemEnv, seed_after_fork

_PRELOADED = ("lakewright.definitions",)
_ASKS_MS = 1000


class WarmRunLauncher(dg.DefaultRunLauncher):
    """Dagster's own launcher, but for how processes of runs begin.

    A `dagster.yaml` names it as `run_launcher`. `preload` are the modules that are imported ahead
    of all runs; they must start no thread and open no file.
    """

    def __init__(
        self, inst_data: ConfigurableClassData | None = None, preload: Sequence[str] = _PRELOADED
    ) -> None:
        super().__init__(inst_data)
        self._preload = list(preload)
        self._starting = Lock()
        self._waiting: list[Thread] = []

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """The one setting, `preload`."""
        return {"preload": dg.Field([str], is_required=False, default_value=list(_PRELOADED))}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> Self:
        """The launcher of an instance."""
        return cls(inst_data, config_value["preload"])

    def launch_run(self, context: LaunchRunContext) -> None:
        """Fork a process for the run."""
        run, origin = context.dagster_run, context.job_code_origin
        if origin is None or origin.repository_origin.executable_path != sys.executable:
            super().launch_run(context)
            return
        # Only the first call of a process counts, so its preloaded modules are those of all runs.
        with self._starting:
            server: ForkServerContext = multiprocessing.get_context("forkserver")
            server.set_forkserver_preload(self._preloaded())
            process = server.Process(
                target=_execute, args=(self._instance.get_ref(), run.run_id), name=run.run_id
            )
            try:
                process.start()
            except (EOFError, ConnectionError) as error:
                raise DagsterLaunchFailedError(  # type: ignore[no-untyped-call]  # Dagster's
                    "the process that forks runs ended before it forked this one; it imports "
                    f"{', '.join(self._preloaded())}: what this process writes to its standard "
                    "error says why"
                ) from error
        assert process.pid is not None
        identity = process_identity(process.pid)
        self._instance.add_run_tags(run.run_id, {PROCESS_TAG: identity})
        waiting = Thread(target=self._wait, args=(process, identity, run.run_id), daemon=True)
        waiting.start()
        self._waiting = [*(each for each in self._waiting if each.is_alive()), waiting]

    def _preloaded(self) -> list[str]:
        """What a run imports in any case: what is configured, this module, and the storages."""
        instance = self._instance
        used = (
            instance.run_storage,
            instance.event_log_storage,
            instance.schedule_storage,
            instance.compute_log_manager,
            instance.run_coordinator,
        )
        return [*self._preload, __name__, *sorted({type(each).__module__ for each in used})]

    def join(self, timeout: int = 30) -> None:
        """Wait until the processes of runs have ended, each for so many seconds."""
        super().join(timeout)  # type: ignore[no-untyped-call]  # Dagster's
        for each in self._waiting:
            each.join(timeout)

    def _wait(self, process: ForkServerProcess, identity: str, run_id: str) -> None:
        process.join()
        # A run outlives the process that forked it, which then cannot tell when the run ends.
        while living_process(identity) is not None:
            SystemEnv().sleep_ms(_ASKS_MS)
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return
        ended = f"the process of the run (pid: {process.pid}) ended with {process.exitcode}"
        self._instance.report_engine_event(f"{ended} before the run did", run, cls=type(self))
        self._instance.report_run_failed(run)

    def terminate(self, run_id: str) -> bool:
        """Interrupt a run; False if it has ended."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished or PROCESS_TAG not in run.tags:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]  # Dagster's
        self._instance.report_run_canceling(run)
        process = living_process(run.tags[PROCESS_TAG])
        if process is None:
            self._instance.report_engine_event(
                f"the process {run.tags[PROCESS_TAG]} does not run on {socket.gethostname()}",
                run,
                cls=type(self),
            )
            return False
        os.kill(process, signal.SIGTERM)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Whether the monitoring of runs may ask."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether the process of a run lives; of a process elsewhere this is taken for granted."""
        known = run.tags.get(PROCESS_TAG)
        if known is None or not is_of_this_machine(known):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        if living_process(known) is not None:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, f"the process {known} has ended")


def _execute(instance_ref: InstanceRef, run_id: str) -> None:
    """A run, in its process."""
    seed_after_fork()
    with capture_interrupts(), dg.DagsterInstance.from_ref(instance_ref) as instance:
        _execute_run_command_body(run_id, instance, lambda _: None, set_exit_code_on_failure=False)
