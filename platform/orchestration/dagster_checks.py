"""Checks of a declaration that only Dagster can make: tags and schedules."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from lakewright.platform.declare.declaration_checks import Finding
from lakewright.platform.declare.declarations import TableDeclaration


def check_for_dagster(declaration: TableDeclaration) -> Iterator[Finding]:
    """Everything in a declaration that Dagster refuses."""
    try:
        dg.AssetSpec("any", tags=dict(declaration.tags))
    except dg.DagsterInvalidDefinitionError as err:
        yield ("tags",), str(err).splitlines()[0]
    schedule = declaration.maintenance.snapshots.schedule
    try:
        dg.ScheduleDefinition(name="any", cron_schedule=schedule, job_name="any")
    except (dg.DagsterInvalidDefinitionError, dg.DagsterInvariantViolationError):
        message = f"{schedule!r} is not a cron schedule; write for example '0 3 * * *'"
        yield ("maintenance", "snapshots", "schedule"), message
