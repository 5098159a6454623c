"""Freshness by partition: a job that runs the check of the newest partition at its deadlines."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakewright.platform.declare.declaration_checks import NEWEST_PARTITION
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.orchestration.names import TableNames

VERB = "check_freshness"


def build_freshness_job(
    declaration: TableDeclaration, names: TableNames
) -> UnresolvedAssetJobDefinition:
    """The job of a table."""
    check = dg.AssetCheckKey(names.asset_key, NEWEST_PARTITION)
    return dg.define_asset_job(
        names.job(VERB),
        selection=dg.AssetSelection.checks(check),
        tags=names.tags(VERB),
        executor_def=dg.in_process_executor,
        description=f"Ask whether the newest partition of {declaration.table} came in time.",
    )


def build_freshness_schedule(
    declaration: TableDeclaration, by: str, timezone: str, job: UnresolvedAssetJobDefinition
) -> dg.ScheduleDefinition:
    """The schedule of the deadlines."""
    return dg.ScheduleDefinition(
        name=TableNames(declaration.table).schedule(VERB),
        job=job,
        cron_schedule=by,
        execution_timezone=timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Asks whether the newest partition of {declaration.table} came in time.",
    )
