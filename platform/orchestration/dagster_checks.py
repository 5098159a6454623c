"""Checks of a declaration that only Dagster can make: tags and schedules."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.marked_yaml import Place
from lakewright.platform.declare.wrong_places import Finding


def check_for_dagster(declaration: TableDeclaration) -> Iterator[Finding]:
    """Everything in a declaration that Dagster refuses."""
    try:
        dg.AssetSpec("any", tags=dict(declaration.tags))
    except dg.DagsterInvalidDefinitionError as err:
        yield ("tags",), str(err).splitlines()[0]
    upkeep, validation = declaration.maintenance, declaration.schema_policy.validation
    schedules: tuple[tuple[Place, str], ...] = (
        (("maintenance", "snapshots", "schedule"), upkeep.snapshots.schedule),
        (("maintenance", "partitions", "schedule"), upkeep.partitions.schedule),
        (("schema", "validation", "schedule"), validation.schedule),
    )
    for place, schedule in schedules:
        try:
            dg.ScheduleDefinition(name="any", cron_schedule=schedule, job_name="any")
        except (dg.DagsterInvalidDefinitionError, dg.DagsterInvariantViolationError):
            message = f"{schedule!r} is not a cron schedule; write for example '0 3 * * *'"
            yield place, message
