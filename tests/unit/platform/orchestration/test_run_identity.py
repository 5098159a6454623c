"""Run identity: a continued run keeps its name, a new one gets its own."""

from __future__ import annotations

import dagster as dg

from lakewright.platform.orchestration.run_identity import commit_user, tried_since_ms


def run(run_id: str, root: str | None = None, **tags: str) -> dg.DagsterRun:
    named = {f"dagster/{name}": value for name, value in tags.items()}
    parent = {"root_run_id": root, "parent_run_id": root} if root else {}
    return dg.DagsterRun(job_name="ingest", run_id=run_id, tags=named, **parent)


FIRST = "11111111-1111-1111-1111-111111111111"
SECOND = "22222222-2222-2222-2222-222222222222"


def test_tries_of_one_run_commit_under_one_name() -> None:
    assert commit_user(run(FIRST), "nyc__flights") == commit_user(run(FIRST), "nyc__flights")
    assert commit_user(run(FIRST), "nyc__flights") != commit_user(run(FIRST), "nyc__weather")


def test_a_retry_and_a_re_execution_from_failure_continue_the_first_run() -> None:
    name = commit_user(run(FIRST), "step")
    assert commit_user(run(SECOND, FIRST, retry_number="1"), "step") == name
    assert commit_user(run(SECOND, FIRST, is_resume_retry="true"), "step") == name


def test_a_re_execution_of_everything_is_meant_anew() -> None:
    assert commit_user(run(SECOND, FIRST), "step") != commit_user(run(FIRST), "step")


def test_a_retry_knows_since_when_its_work_is_tried() -> None:
    instance = dg.DagsterInstance.ephemeral()
    first = instance.create_run_for_job(dg.GraphDefinition("none").to_job())
    again = run(SECOND, first.run_id, is_resume_retry="true")
    assert tried_since_ms(instance, first, 0) is None
    assert tried_since_ms(instance, run(SECOND, first.run_id), 0) is None
    began = tried_since_ms(instance, again, 0)
    assert began is not None
    assert began > 0
    assert tried_since_ms(instance, first, 1) == began
    assert tried_since_ms(instance, run(SECOND, FIRST, retry_number="1"), 0) == 0
