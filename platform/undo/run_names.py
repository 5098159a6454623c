"""How runs are named: by the users of their commits, the records of deletions, and the ledger."""

from __future__ import annotations

import re

# Runs of Dagster and of commands, as names of commit users begin.
_DAGSTER = re.compile(r"dagster-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-|$)")
_COMMAND = re.compile(r"(lakewright .+ \(([0-9a-f]{8})\))(?:-|$)")
# A shorter beginning of a Dagster run's id could be that of many runs.
LEAST_DIGITS = 8
TOO_SHORT = re.compile(rf"(?:dagster-)?[0-9a-f]{{1,{LEAST_DIGITS - 1}}}")


def is_of_lakewright(user: str) -> bool:
    """Whether a user of commits is a run of Dagster's, or a command's."""
    return bool(_DAGSTER.match(user) or _COMMAND.match(user))


def is_of(run: str, user: str) -> bool:
    """Whether a run made what this user, or the name of a run, made."""
    if user == run or of_this_run(run, user):
        return True
    if found := _DAGSTER.match(user):
        digits = run.removeprefix("dagster-")
        return len(digits) >= LEAST_DIGITS and found[1].startswith(digits)
    if found := _COMMAND.match(user):
        return run in (found[1], found[2])
    return False


def of_this_run(run: str, user: str) -> bool:
    """Whether a user is a run's name with a step or an id of one commit at its end."""
    names_one = _DAGSTER.match(run) or _COMMAND.match(run)
    return names_one is not None and user.startswith(f"{run}-")


def run_of(user: str) -> str:
    """The run in the user of a commit."""
    if found := _DAGSTER.match(user):
        return found[1]
    if found := _COMMAND.match(user):
        return found[1]
    return user


def short_name(user: str) -> str:
    """The run of a commit as `lakewright undo` takes it; of a command, its 8 digits."""
    found = _COMMAND.match(user)
    return found[2] if found else run_of(user)
