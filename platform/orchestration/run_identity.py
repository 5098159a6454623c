"""Run identity: the name under which a run commits, the same at every try of it."""

from __future__ import annotations

import re

import dagster as dg

ROOT_RUN = "dagster/root_run_id"
_RETRY_NUMBER = "dagster/retry_number"
_RESUME = "dagster/is_resume_retry"


def commit_user(run: dg.DagsterRun, step: str) -> str:
    """The commit user of one step.

    Dagster's own retries, and re-executions of failed steps, are new runs that
    continue an old one: they keep its name, so that they find what it has
    committed. Whoever launches a run anew wants it done anew.
    """
    continues = _RETRY_NUMBER in run.tags or run.tags.get(_RESUME) == "true"
    root = run.root_run_id or run.tags.get(ROOT_RUN)
    origin = root if continues and root else run.run_id
    return f"dagster-{origin}-{step}"


def origin_of(name: str) -> str | None:
    """The run that a commit user, or the owner of a lease, is named after; None if it is none."""
    found = re.match(r"dagster-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-", name)
    return None if found is None else found[1]
