"""Run identity: the name under which a run commits, equal at every attempt."""

from __future__ import annotations

import re

import dagster as dg

ROOT_RUN = "dagster/root_run_id"
_RETRY_NUMBER = "dagster/retry_number"
_RESUME = "dagster/is_resume_retry"


def commit_user(run: dg.DagsterRun, step: str) -> str:
    """The commit user of one step.

    A retry by Dagster, and a re-execution of failed steps, is a new run that continues an old
    one. It keeps the name of the old run, so it finds the commits of that run. A run that a
    person launches again has its own name and does all its work.
    """
    return f"dagster-{_origin(run)}-{step}"


def tried_since_ms(instance: dg.DagsterInstance, run: dg.DagsterRun, retry: int) -> int | None:
    """When the first attempt at the work of a run was asked for; None if this one is the first.

    `retry` is the number of the step's own retries. Of a first run that Dagster has forgotten,
    the beginning is that of time.
    """
    origin = _origin(run)
    if origin == run.run_id and not retry:
        return None
    record = instance.get_run_record_by_id(origin)
    return 0 if record is None else round(record.create_timestamp.timestamp() * 1000)


def _origin(run: dg.DagsterRun) -> str:
    """The run whose work a run continues, which is mostly its own."""
    continues = _RETRY_NUMBER in run.tags or run.tags.get(_RESUME) == "true"
    root = run.root_run_id or run.tags.get(ROOT_RUN)
    return root if continues and root else run.run_id


def origin_of(name: str) -> str | None:
    """The run in the name of a commit user or of a lease's owner; None if it names no run."""
    found = re.match(r"dagster-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-", name)
    return None if found is None else found[1]
