"""Failures: every category of storage's tree has one reaction."""

from __future__ import annotations

import dagster as dg
import pytest

from lakewright.platform.orchestration.failures import REACTIONS, failures_for_dagster, reaction_to
from lakewright.storage import errors
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.leases.leases import CLOCKS_DIFFER_MS, LEASE_MS


def test_every_category_has_a_reaction() -> None:
    assert set(REACTIONS) >= set(StorageError.__subclasses__())


def test_a_lease_of_the_dead_is_outlasted() -> None:
    reaction = reaction_to(errors.LeaseHeld("the dead has it"))
    assert reaction.retries * reaction.wait_seconds * 1000 > LEASE_MS + CLOCKS_DIFFER_MS


def test_what_waiting_does_not_change_is_not_tried_again() -> None:
    assert reaction_to(errors.ClockJumped("set the clocks")).retries == 0
    assert reaction_to(errors.LeaseLost("broken", lease_id="x")).retries == 0
    given_up = errors.LeaseLost("given up", lease_id="x", given_up_to="an ingest")
    assert reaction_to(given_up).retries > 0


@pytest.mark.parametrize(
    "kind", [errors.CommitConflictError, errors.CommitOutcomeUnknownError, errors.UnavailableError]
)
def test_what_may_pass_is_tried_again(kind: type[StorageError]) -> None:
    with pytest.raises(dg.RetryRequested) as raised, failures_for_dagster():
        raise kind("someone else was first")
    assert raised.value.max_retries > 0
    assert raised.value.seconds_to_wait
    assert isinstance(raised.value.__cause__, kind)


def test_a_stale_plan_is_tried_again_only_by_a_step_that_plans_again() -> None:
    stale = errors.StalePlan("3 of its files are gone; plan again")
    with pytest.raises(dg.RetryRequested), failures_for_dagster():
        raise stale
    with pytest.raises(dg.Failure) as raised, failures_for_dagster(plans_again=False):
        raise stale
    assert raised.value.description == "StalePlan: 3 of its files are gone; plan again"
    assert raised.value.allow_retries is False
    with pytest.raises(dg.RetryRequested), failures_for_dagster(plans_again=False):
        raise errors.UnavailableError("no answer")


def test_the_page_of_a_stale_plan_shows_no_trace_of_a_worker() -> None:
    def in_a_task() -> None:
        raise RuntimeError("a trace of Spark")

    def carry_out() -> None:
        try:
            in_a_task()
        except RuntimeError as error:
            raise errors.StalePlan("3 of its files are gone; plan again") from error

    with pytest.raises(dg.Failure) as raised, failures_for_dagster(plans_again=False):
        carry_out()
    stale = raised.value.__cause__
    assert isinstance(stale, errors.StalePlan)
    assert stale.__cause__ is stale.__context__ is None


@pytest.mark.parametrize(
    "kind",
    [
        errors.TableNotFound,
        errors.AlreadyExistsError,
        errors.InvalidRows,
        errors.UnsupportedError,
        errors.CorruptionError,
    ],
)
def test_what_stays_as_it_is_fails_at_once_and_says_why(kind: type[StorageError]) -> None:
    with pytest.raises(dg.Failure) as raised, failures_for_dagster():
        raise kind("no table a.b; tables of a: c", table="a.b", looked_for=3)
    failure = raised.value
    assert failure.allow_retries is False
    assert failure.description == f"{kind.__name__}: no table a.b; tables of a: c"
    assert failure.metadata["table"].value == "a.b"
    assert failure.metadata["looked_for"].value == "3"


def test_a_kind_of_error_inherits_the_reaction_of_its_category() -> None:
    assert reaction_to(errors.StalePlan("x")) == REACTIONS[errors.CommitConflictError]


def test_errors_of_others_pass_through() -> None:
    with pytest.raises(ZeroDivisionError), failures_for_dagster():
        _ = 1 / 0
