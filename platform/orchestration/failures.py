"""Maps failures of storage to Dagster: retry, or fail with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import dagster as dg

from lakewright.storage.errors import (
    AccessError,
    AlreadyExistsError,
    ClockJumped,
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptionError,
    InvalidRequestError,
    LeaseHeld,
    LeaseLost,
    NotFoundError,
    StalePlan,
    StorageError,
    UnavailableError,
    UnsupportedError,
)


@dataclass(frozen=True, slots=True)
class Reaction:
    """A step's reaction to an error class; without retries it fails at once."""

    retries: int
    wait_seconds: int = 0


# The reaction to each error class: a retry helps if another process was in the way.
# A subclass stands before its base class.
REACTIONS: dict[type[StorageError], Reaction] = {
    NotFoundError: Reaction(0),
    AlreadyExistsError: Reaction(0),
    InvalidRequestError: Reaction(0),
    UnsupportedError: Reaction(0),
    AccessError: Reaction(0),
    CorruptionError: Reaction(0),
    # The step plans or stages again from the latest snapshot.
    CommitConflictError: Reaction(3, wait_seconds=2),
    # The next attempt first looks for its own commit.
    CommitOutcomeUnknownError: Reaction(3, wait_seconds=5),
    # The lease of a dead process expires 6 minutes after its last renewal.
    LeaseHeld: Reaction(14, wait_seconds=30),
    # Waiting does not correct a clock.
    ClockJumped: Reaction(0),
    UnavailableError: Reaction(5, wait_seconds=20),
}


def reaction_to(error: StorageError) -> Reaction:
    """The reaction to an error; an unknown class is not retried."""
    if isinstance(error, LeaseLost) and "given_up_to" not in error.details:
        # The new holder of the lease does the work; a person who broke the lease wants the run to
        # stop.
        return Reaction(0)
    for kind, reaction in REACTIONS.items():
        if isinstance(error, kind):
            return reaction
    return Reaction(0)


@contextmanager
def failures_for_dagster(
    metadata: Callable[[], Mapping[str, dg.MetadataValue]] = dict,
    *,
    plans_again: bool = True,
) -> Iterator[None]:
    """Turn an error of storage into a retry, or into a failure that is not retried.

    `metadata` is added to that of the failure. A step that does not plan again gains nothing from a
    retry if its plan is stale.

    Raises:
        RetryRequested: trying again can help.
        Failure: it cannot; the message says what would.
    """
    try:
        yield
    except StorageError as err:
        reaction = reaction_to(err)
        is_final = isinstance(err, StalePlan) and not plans_again
        if reaction.retries and not is_final:
            raise dg.RetryRequested(reaction.retries, reaction.wait_seconds) from err
        if isinstance(err, StalePlan):
            # It is no fault of the program, and may have crossed Spark, whose traces say nothing.
            err.__cause__ = err.__context__ = None
            err.with_traceback(None)
        raise dg.Failure(
            description=f"{type(err).__name__}: {err}",
            metadata={
                "error": type(err).__name__,
                **({"table": err.table} if err.table else {}),
                **{name: str(value) for name, value in err.details.items()},
                **metadata(),
            },
            allow_retries=False,
        ) from err
