"""Expiry of partitions: a job that drops those past their time, on a schedule."""

import dagster as dg

from lakewright.jobs.schedules import build_schedule
from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.upkeep.expire_partitions import (
    EXPIRE_PARTITIONS,
    ExpirePartitionsOptions,
)

VERB = "expire_partitions"


def _declared(declaration: TableDeclaration) -> ExpirePartitionsOptions:
    policy = declaration.maintenance.partitions
    return ExpirePartitionsOptions(
        older_than_ms=policy.older_than,
        strategy=None if policy.strategy is None else policy.strategy.value,
        pattern=policy.pattern,
        formatter=policy.formatter,
        max_partitions=policy.max_partitions,
        spare_tagged=policy.spare_tagged,
    )


EXPIRE_PARTITIONS_JOB = UpkeepJob(
    name=VERB,
    description="Drop the partitions of {table} that are past their time.",
    verbs=lambda *_: (EXPIRE_PARTITIONS,),
    declared=_declared,
    needs_spark=False,
    may_come_early=True,
)


def build_expire_partitions_schedule(
    declaration: TableDeclaration, job: dg.JobDefinition
) -> dg.ScheduleDefinition:
    """The schedule on which partitions of the table expire."""
    return build_schedule(
        TableNames(declaration.table),
        VERB,
        job,
        declaration.maintenance.partitions,
        description=f"Drops the partitions of {declaration.table} that are past their time.",
    )
