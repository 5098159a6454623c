"""Checks of declarations that only Dagster can make: labels and schedules."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import dagster as dg
from dagster._check import CheckError

from lakewright.platform.documents.marked_yaml import Place
from lakewright.platform.documents.wrong_places import Finding
from lakewright.platform.orchestration.refresh import freshness_policy, longest_before
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage.secret_texts import kept_secret
from lakewright.storage.spec.option_values import duration_of_ms

# Dagster allows ten kinds; format and engine are two of them.
_MOST_KINDS = 8


def check_for_dagster(declaration: TableDeclaration) -> Iterator[Finding]:
    """Everything in a declaration that Dagster refuses."""
    yield from _check_labels(declaration)
    yield from _check_refresh(declaration)
    schedule = declaration.schema_policy.validation.schedule
    yield from _check_schedule(schedule, ("schema", "validation", "schedule"))


def _check_labels(declaration: TableDeclaration) -> Iterator[Finding]:
    # Dagster would repeat a secret, which is refused elsewhere.
    tags = {
        name: each for name, each in declaration.tags.items() if kept_secret(name, each) is None
    }
    try:
        dg.AssetSpec("any", tags=tags)
    except dg.DagsterInvalidDefinitionError as err:
        yield ("tags",), str(err).splitlines()[0]
    for at, owner in enumerate(declaration.owners):
        if not is_owner(owner):
            message = f"{owner!r} is no owner; write an e-mail address, or team:{owner.split()[0]}"
            yield ("owners", at), message
    if len(declaration.kinds) > _MOST_KINDS:
        message = f"there are {len(declaration.kinds)} kinds; Dagster shows {_MOST_KINDS} at most"
        yield ("kinds",), message


def is_owner(name: str) -> bool:
    """Whether Dagster takes a name for an owner: an e-mail address, or `team:` and a name."""
    try:
        dg.AssetSpec("any", owners=[name])
    except dg.DagsterInvalidDefinitionError:
        return False
    return True


def _check_refresh(declaration: TableDeclaration) -> Iterator[Finding]:
    schedule, automation = declaration.schedule, declaration.automation
    if schedule is not None:
        yield from _check_schedule(schedule.cron, ("schedule", "cron"))
    if automation is not None and automation.on_cron is not None:
        yield from _check_schedule(automation.on_cron, ("automation", "on_cron"))
    freshness = declaration.freshness
    if freshness is None or freshness.by is None:
        return
    wrong = list(_check_schedule(freshness.by, ("freshness", "by")))
    yield from wrong
    if wrong or freshness.not_before is None:
        return
    try:
        freshness_policy(freshness)
    except CheckError:
        longest = duration_of_ms(longest_before(freshness.by) // dt.timedelta(milliseconds=1))
        message = f"the ticks of {freshness.by!r} are {longest} apart; write at most that"
        yield ("freshness", "not_before"), message


def _check_schedule(schedule: str, place: Place) -> Iterator[Finding]:
    try:
        dg.ScheduleDefinition(name="any", cron_schedule=schedule, job_name="any")
    except (dg.DagsterInvalidDefinitionError, dg.DagsterInvariantViolationError):
        message = f"{schedule!r} is not a cron schedule; write for example '0 3 * * *'"
        yield place, message
