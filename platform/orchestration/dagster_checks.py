"""Checks of declarations and policies that only Dagster can make: tags and schedules."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.marked_yaml import Place
from lakewright.platform.declare.upkeep_policies import UpkeepPolicy
from lakewright.platform.declare.wrong_places import Finding


def check_for_dagster(declaration: TableDeclaration) -> Iterator[Finding]:
    """Everything in a declaration that Dagster refuses."""
    try:
        dg.AssetSpec("any", tags=dict(declaration.tags))
    except dg.DagsterInvalidDefinitionError as err:
        yield ("tags",), str(err).splitlines()[0]
    for place, message in check_schedules(declaration.maintenance):
        yield ("maintenance", *place), message
    schedule = declaration.schema_policy.validation.schedule
    yield from _check_schedule(schedule, ("schema", "validation", "schedule"))


def check_schedules(policy: UpkeepPolicy) -> Iterator[Finding]:
    """The schedules of a policy that Dagster refuses."""
    for name, section in policy:
        schedule = getattr(section, "schedule", None)
        if schedule is not None:
            yield from _check_schedule(schedule, (name, "schedule"))


def _check_schedule(schedule: str, place: Place) -> Iterator[Finding]:
    try:
        dg.ScheduleDefinition(name="any", cron_schedule=schedule, job_name="any")
    except (dg.DagsterInvalidDefinitionError, dg.DagsterInvariantViolationError):
        message = f"{schedule!r} is not a cron schedule; write for example '0 3 * * *'"
        yield place, message
