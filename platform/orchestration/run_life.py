"""Life of runs: which of Dagster's unfinished runs still work, and the end of those that do not.

A run record says what a run last told. A process that was killed tells nothing, so its record stays
as it was, for ever if nothing monitors it. The signs of life, the surest first:

1. The process that the run's tag names, if it is one of this machine.
2. A lease of the run in one of its tables: its process renews it, and it lapses 6 minutes later.
3. What the run's launcher says of its worker, if it can ask.
4. The last event of the run. A run of upkeep tells one a minute (`jobs/signs_of_life.py`).

A run without any of them for long is presumed dead, and nothing waits for it. If it lives after
all, leases and the checks of commits keep the tables right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, MutableMapping
from dataclasses import dataclass, field

import dagster as dg
from dagster._core.execution.backfill import PartitionBackfill
from dagster._core.launcher.base import WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.storage.dagster_run import (
    ACTIVE_RUN_STATUSES,
    FINISHED_STATUSES,
    RunRecord,
)
from dagster._core.storage.tags import BACKFILL_ID_TAG, MAX_RUNTIME_SECONDS_TAG

from lakewright.platform.declare.setting_text import lasting
from lakewright.platform.orchestration.names import AssetKeys
from lakewright.platform.orchestration.run_identity import origin_of, origin_run
from lakewright.platform.orchestration.run_process import (
    PROCESS_TAG,
    is_of_this_machine,
    living_process,
)
from lakewright.platform.orchestration.runs import UNFINISHED, tables_of
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError

_MS = 1000


@dataclass(slots=True)
class RunLife:
    """What is known of the life of runs at one moment; a value serves one look.

    A run that gives no sign of life for `silence_ms` is presumed dead. `died` remembers of failed
    runs, by their ids, whether they were killed; looks share it. `keys` has
    the keys of the tables' assets.
    """

    instance: dg.DagsterInstance
    catalog: Catalog
    now_ms: int
    silence_ms: int
    died: MutableMapping[str, bool] = field(default_factory=dict)
    keys: AssetKeys = field(default_factory=AssetKeys)
    _found: dict[tuple[str, frozenset[str]], str | None] = field(default_factory=dict)

    def cause_of_death(self, record: RunRecord, tables: Iterable[str] = ()) -> str | None:
        """Why an unfinished run counts as dead; None if it may live.

        `tables` are those that it works on, beside those that the run itself names.
        """
        run = record.dagster_run
        concerned = frozenset((*tables, *tables_of(run, self.keys)))
        if (run.run_id, concerned) not in self._found:
            self._found[run.run_id, concerned] = self._cause_of_death(record, concerned)
        return self._found[run.run_id, concerned]

    def has_died(self, run: dg.DagsterRun) -> bool:
        """Whether a run failed but its work did not: its process was killed, or never came."""
        if run.status is not dg.DagsterRunStatus.FAILURE:
            return False
        if run.run_id not in self.died:
            self.died[run.run_id] = not self.instance.get_run_stats(run.run_id).steps_failed
        return self.died[run.run_id]

    def is_at_rest(self, backfill: PartitionBackfill) -> bool:
        """Whether no run of an unfinished backfill lives, and none came for long."""
        if not self._is_silent(int(backfill.backfill_timestamp * _MS)):
            return False
        tags = {BACKFILL_ID_TAG: backfill.backfill_id}
        unfinished = self.instance.get_run_records(dg.RunsFilter(tags=tags, statuses=UNFINISHED))
        if any(self.cause_of_death(each) is None for each in unfinished):
            return False
        newest = self.instance.get_run_records(dg.RunsFilter(tags=tags), limit=1)
        return all(self._is_silent(_updated_ms(each)) for each in newest)

    def end_dead(
        self,
        jobs: Collection[str],
        tell: Callable[[str], object],
    ) -> None:
        """End runs of these jobs that are dead, and give back the places that ended runs hold.

        A dead run would keep its places in the queue and in its pool, so the next run would wait
        for ever although it was asked for.
        """
        filters = dg.RunsFilter(statuses=UNFINISHED)
        for record in self.instance.get_run_records(filters=filters):
            run = record.dagster_run
            if run.job_name not in jobs:
                continue
            cause = self.cause_of_death(record)
            # A process that has just ended may have told its end since the record was read.
            now = None if cause is None else self.instance.get_run_by_id(run.run_id)
            if now is None or now.status is not run.status:
                continue
            told = f"run {run.run_id[:8]} of {run.job_name} is given up: {cause}"
            if run.status is dg.DagsterRunStatus.CANCELING:
                self.instance.report_run_canceled(now, told)
            else:
                self.instance.report_run_failed(now, told)
            tell(told)
        self._free_places(jobs)

    def cancel_overlong(self, jobs: Collection[str], tell: Callable[[str], object]) -> None:
        """Cancel runs of these jobs that take longer than their tag `dagster/max_runtime` allows.

        Dagster's monitoring does the same, where it is enabled.
        """
        filters = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
        for record in self.instance.get_run_records(filters=filters):
            run = record.dagster_run
            limit = run.tags.get(MAX_RUNTIME_SECONDS_TAG)
            if run.job_name not in jobs or limit is None:
                continue
            started = record.start_time or record.create_timestamp.timestamp()
            if self.now_ms < (started + float(limit)) * _MS:
                continue
            told = f"run {run.run_id[:8]} of {run.job_name} takes longer than {limit} s"
            tell(f"{told}: it is cancelled")
            try:
                self.instance.run_launcher.terminate(run.run_id)
            except Exception as error:  # noqa: BLE001  # clients of platforms raise errors of their own
                tell(f"{told}, and could not be cancelled: {error}")

    def _free_places(self, jobs: Collection[str]) -> None:
        storage = self.instance.event_log_storage
        if not storage.supports_global_concurrency_limits:
            return
        holders = storage.get_concurrency_run_ids()
        if holders:
            filters = dg.RunsFilter(run_ids=list(holders), statuses=FINISHED_STATUSES)
            for run in self.instance.get_runs(filters=filters):
                if run.job_name in jobs:
                    storage.free_concurrency_slots_for_run(run.run_id)

    def _cause_of_death(self, record: RunRecord, tables: Iterable[str]) -> str | None:
        run = record.dagster_run
        if run.status is dg.DagsterRunStatus.CANCELING and self._is_silent(_updated_ms(record)):
            return f"it was cancelled and did not end for {lasting(self.silence_ms)}"
        identity = run.tags.get(PROCESS_TAG)
        if identity is not None and is_of_this_machine(identity):
            return None if living_process(identity) else f"its process ({identity}) has ended"
        if not self._is_silent(_updated_ms(record)) or not self._is_silent(self._told_ms(run)):
            return None
        silent = f"it told nothing for {lasting(self.silence_ms)}"
        if run.status is dg.DagsterRunStatus.QUEUED:
            return None if self._has_active_runs() else f"{silent}, and nothing else runs"
        if self._holds_lease(run, tables):
            return None
        return None if self._has_worker(run) else f"{silent}, and holds no lease"

    def _is_silent(self, last_sign_ms: int) -> bool:
        return self.now_ms - last_sign_ms >= self.silence_ms

    def _told_ms(self, run: dg.DagsterRun) -> int:
        found = self.instance.get_records_for_run(run.run_id, limit=1, ascending=False).records
        return max((int(each.timestamp * _MS) for each in found), default=0)

    def _has_active_runs(self) -> bool:
        """Whether a run lives that one in the queue may be waiting for."""
        active = self.instance.get_run_records(dg.RunsFilter(statuses=ACTIVE_RUN_STATUSES))
        return any(self.cause_of_death(each) is None for each in active)

    def _holds_lease(self, run: dg.DagsterRun, tables: Iterable[str]) -> bool:
        own = origin_run(self.instance, run)
        for name in tables:
            try:
                leases = self.catalog.table(name).upkeep.leases()
            except StorageError:
                # A table that is gone or cannot be read says nothing of the run.
                continue
            if any(origin_of(each.owner) == own for each in leases):
                return True
        return False

    def _has_worker(self, run: dg.DagsterRun) -> bool:
        launcher = self.instance.run_launcher
        # Dagster's launcher on one machine, and ours, know no more than the tag of the process.
        if (
            isinstance(launcher, DefaultRunLauncher)
            or not launcher.supports_check_run_worker_health
        ):
            return False
        try:
            return launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING
        except Exception:  # noqa: BLE001  # clients of platforms raise errors of their own
            # The next look asks again.
            return True


def _updated_ms(record: RunRecord) -> int:
    return int(record.update_timestamp.timestamp() * _MS)
