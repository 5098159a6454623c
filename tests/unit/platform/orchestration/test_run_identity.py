"""Run identity: a continued run keeps its name, a new one gets its own."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from lakewright.platform.orchestration.run_identity import commit_user, tried_since_ms


def run(run_id: str, root: str | None = None, **tags: str) -> dg.DagsterRun:
    named = {f"dagster/{name}": value for name, value in tags.items()}
    parent = {"root_run_id": root, "parent_run_id": root} if root else {}
    return dg.DagsterRun(job_name="ingest", run_id=run_id, tags=named, **parent)


FIRST = "11111111-1111-1111-1111-111111111111"
SECOND = "22222222-2222-2222-2222-222222222222"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as opened:
        yield opened


def test_tries_of_one_run_commit_under_one_name(instance: dg.DagsterInstance) -> None:
    name = commit_user(instance, run(FIRST), "nyc__flights")
    assert commit_user(instance, run(FIRST), "nyc__flights") == name
    assert commit_user(instance, run(FIRST), "nyc__weather") != name


@pytest.mark.parametrize(
    ("tag", "continues"),
    [
        ({"retry_number": "1"}, True),
        ({"is_resume_retry": "true"}, True),
        ({"is_asset_resume_retry": "true"}, True),
        # A re-execution of everything is meant anew.
        ({}, False),
    ],
    ids=str,
)
def test_a_retry_and_a_re_execution_from_failure_continue_the_first_run(
    instance: dg.DagsterInstance, tag: dict[str, str], *, continues: bool
) -> None:
    name = commit_user(instance, run(FIRST), "step")
    assert (commit_user(instance, run(SECOND, FIRST, **tag), "step") == name) is continues


def test_work_that_was_begun_anew_is_continued_from_there(instance: dg.DagsterInstance) -> None:
    first = create_run_for_test(instance)
    group = {"root_run_id": first.run_id}
    anew = create_run_for_test(instance, parent_run_id=first.run_id, **group)
    resumed = create_run_for_test(
        instance, parent_run_id=anew.run_id, tags={"dagster/is_resume_retry": "true"}, **group
    )
    retried = create_run_for_test(
        instance, parent_run_id=resumed.run_id, tags={"dagster/retry_number": "1"}, **group
    )
    name = commit_user(instance, anew, "step")
    assert name != commit_user(instance, first, "step")
    assert commit_user(instance, resumed, "step") == name
    assert commit_user(instance, retried, "step") == name


def test_a_retry_knows_since_when_its_work_is_tried(instance: dg.DagsterInstance) -> None:
    first = instance.create_run_for_job(dg.GraphDefinition("none").to_job())
    again = run(SECOND, first.run_id, is_resume_retry="true")
    assert tried_since_ms(instance, first, 0) is None
    assert tried_since_ms(instance, run(SECOND, first.run_id), 0) is None
    began = tried_since_ms(instance, again, 0)
    assert began is not None
    assert began > 0
    assert tried_since_ms(instance, first, 1) == began
    assert tried_since_ms(instance, run(SECOND, FIRST, retry_number="1"), 0) == 0
