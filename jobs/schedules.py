"""The schedule of a table's job, as a policy of its declaration says."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakewright.platform.declare.declarations import SchemaValidation
from lakewright.platform.orchestration.names import TableNames


def build_schedule(
    names: TableNames,
    verb: str,
    job: dg.JobDefinition | UnresolvedAssetJobDefinition,
    policy: SchemaValidation,
    *,
    description: str,
) -> dg.ScheduleDefinition:
    """The schedule of a job; a policy that is not enabled leaves it stopped."""
    running, stopped = dg.DefaultScheduleStatus.RUNNING, dg.DefaultScheduleStatus.STOPPED
    return dg.ScheduleDefinition(
        name=names.schedule(verb),
        job=job,
        cron_schedule=policy.schedule,
        execution_timezone=policy.timezone,
        default_status=running if policy.enabled else stopped,
        description=description,
    )
