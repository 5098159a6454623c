"""Expiry: a job that lets go what is past its time, with the files only that needs."""

import dagster as dg

from lakewright.jobs.schedules import build_schedule
from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.upkeep.expire import ExpireOptions
from lakewright.platform.upkeep.expire_all import EXPIRE

VERB = "expire_snapshots"
# The next run goes on with what one does not get to.
_MAX_DURATION_MS = 3_600_000


def _declared(declaration: TableDeclaration) -> ExpireOptions:
    policy = declaration.maintenance.snapshots
    return ExpireOptions(
        retain_min=policy.retain_min,
        retain_max=policy.retain_max,
        time_retained_ms=policy.time_retained,
        max_deletes=policy.max_deletes,
        max_duration_ms=_MAX_DURATION_MS,
    )


EXPIRE_JOB = UpkeepJob(
    name=VERB,
    description="Let old snapshots, tags and changelogs of {table} go.",
    verbs=lambda *_: (EXPIRE,),
    declared=_declared,
    needs_spark=False,
    may_come_early=True,
)


def build_expire_schedule(
    declaration: TableDeclaration, job: dg.JobDefinition
) -> dg.ScheduleDefinition:
    """The schedule on which snapshots of the table expire."""
    return build_schedule(
        TableNames(declaration.table),
        VERB,
        job,
        declaration.maintenance.snapshots,
        description=f"Lets old snapshots, tags and changelogs of {declaration.table} go.",
    )
