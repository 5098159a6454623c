"""Failures of storage as Dagster understands them: try again, or stop and tell why."""

from __future__ import annotations

from collections.abc import Iterator
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
    StorageError,
    UnavailableError,
    UnsupportedError,
)


@dataclass(frozen=True, slots=True)
class Reaction:
    """What a step does about a kind of failure; no retries means that it fails at once."""

    retries: int
    wait_seconds: int = 0


# From the tree of failures to what helps: trying again does where somebody else was in the way.
# Of a kind and its kinds the narrower stands first.
REACTIONS: dict[type[StorageError], Reaction] = {
    NotFoundError: Reaction(0),
    AlreadyExistsError: Reaction(0),
    InvalidRequestError: Reaction(0),
    UnsupportedError: Reaction(0),
    AccessError: Reaction(0),
    CorruptionError: Reaction(0),
    # The step plans or stages again from the latest snapshot.
    CommitConflictError: Reaction(3, wait_seconds=2),
    # The next try looks for its own commit before it does anything.
    CommitOutcomeUnknownError: Reaction(3, wait_seconds=5),
    # What a dead process holds is free 6 minutes after it was last renewed.
    LeaseHeld: Reaction(14, wait_seconds=30),
    # No waiting sets a clock.
    ClockJumped: Reaction(0),
    UnavailableError: Reaction(5, wait_seconds=20),
}


def reaction_to(error: StorageError) -> Reaction:
    """What to do about an error; one of no known kind is not tried again."""
    if isinstance(error, LeaseLost) and "wanted_by" not in error.details:
        # Whoever has it does the work, and whoever broke it wants it left.
        return Reaction(0)
    for kind, reaction in REACTIONS.items():
        if isinstance(error, kind):
            return reaction
    return Reaction(0)


@contextmanager
def failures_for_dagster() -> Iterator[None]:
    """Turn what storage raises into a retry, or into a failure that nobody retries.

    Raises:
        RetryRequested: trying again can help.
        Failure: it cannot; the message says what would.
    """
    try:
        yield
    except StorageError as err:
        reaction = reaction_to(err)
        if reaction.retries:
            raise dg.RetryRequested(reaction.retries, reaction.wait_seconds) from err
        raise dg.Failure(
            description=f"{type(err).__name__}: {err}",
            metadata={
                "error": type(err).__name__,
                **({"table": err.table} if err.table else {}),
                **{name: str(value) for name, value in err.details.items()},
            },
            allow_retries=False,
        ) from err
