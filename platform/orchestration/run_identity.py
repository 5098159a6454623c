"""Run identity: the name under which a run commits, equal at every attempt."""

from __future__ import annotations

import re

import dagster as dg

ROOT_RUN = "dagster/root_run_id"
_RETRY_NUMBER = "dagster/retry_number"
_RESUMES = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")


def commit_user(instance: dg.DagsterInstance, run: dg.DagsterRun, step: str) -> str:
    """The commit user of one step.

    A retry by Dagster, and a re-execution of failed steps, is a new run that continues an old
    one. It keeps the name of the old run, so it finds the commits of that run. A run that a
    person launches again has its own name and does all its work.
    """
    return f"dagster-{origin_run(instance, run)}-{step}"


def tried_since_ms(instance: dg.DagsterInstance, run: dg.DagsterRun, retry: int) -> int | None:
    """When the first attempt at the work of a run was asked for; None if this one is the first.

    `retry` is the number of the step's own retries. Of a first run that Dagster has forgotten,
    the beginning is that of time.
    """
    origin = origin_run(instance, run)
    if origin == run.run_id and not retry:
        return None
    record = instance.get_run_record_by_id(origin)
    return 0 if record is None else round(record.create_timestamp.timestamp() * 1000)


def root_of(run: dg.DagsterRun) -> str:
    """The first run of the group of re-executions that a run belongs to, which may be itself."""
    return run.root_run_id or run.tags.get(ROOT_RUN) or run.run_id


def origin_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """The run whose work a run continues, which is mostly its own.

    That is not the root if the work was begun anew in between.
    """
    while _continues(instance, run):
        parent = None if run.parent_run_id is None else instance.get_run_by_id(run.parent_run_id)
        if parent is None:
            return root_of(run)
        run = parent
    return run.run_id


def _continues(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether a run goes on with the work of its parent.

    Dagster's pages and its daemon say so by tags, its Python API only by the steps, of which the
    parent has ended none well. A step that had ended well is chosen to be done anew. Where none
    has, Python's re-execution of everything is the same as one from the failure.
    """
    if _RETRY_NUMBER in run.tags or any(run.tags.get(tag) == "true" for tag in _RESUMES):
        return True
    if run.parent_run_id is None or not run.step_keys_to_execute:
        return False
    steps = instance.get_run_step_stats(run.parent_run_id, list(run.step_keys_to_execute))
    return all(step.status is None or step.status.value != "SUCCESS" for step in steps)


def origin_of(name: str) -> str | None:
    """The run in the name of a commit user or of a lease's owner; None if it names no run."""
    found = re.match(r"dagster-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-", name)
    return None if found is None else found[1]
