"""Expiry: a job that lets old snapshots go with the files only they need, and its schedule."""

import dagster as dg
from pydantic import Field

from lakewright.platform.declarations import SnapshotPolicy, TableDeclaration
from lakewright.platform.failures import failures_for_dagster
from lakewright.platform.names import TableNames
from lakewright.platform.reports import expire_metadata, expire_plan_metadata
from lakewright.platform.resource_keys import ResourceKeys
from lakewright.platform.resources import WarehouseResource
from lakewright.storage import Table
from lakewright.storage.spec.options import parse_duration_ms

VERB = "expire_snapshots"


class ExpireConfig(dg.Config):
    """What one run lets go; what is not given, the policy says, and then the table's options."""

    retain_min: int | None = Field(default=None, description="Snapshots that stay in any case.")
    retain_max: int | None = Field(default=None, description="Snapshots that may stay at most.")
    time_retained: str | None = Field(
        default=None, description="How long a snapshot stays; 1h, 7d or 0s."
    )
    max_deletes: int | None = Field(default=None, description="Snapshots one run expires at most.")
    dry_run: bool = Field(default=False, description="Tell what would be done, and do nothing.")


def build_expire_job(
    declaration: TableDeclaration, *, resources: ResourceKeys | None = None
) -> dg.JobDefinition:
    """The job that expires the table's snapshots."""
    keys = resources or ResourceKeys()
    names = TableNames(declaration.table)
    policy = declaration.maintenance.snapshots

    @dg.op(
        name=names.op(VERB),
        pool=names.pool,
        required_resource_keys={keys.warehouse},
        description=f"Plan and run an expiry of snapshots of {declaration.table}.",
    )
    def expire_table_snapshots(context: dg.OpExecutionContext, config: ExpireConfig) -> None:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        with failures_for_dagster():
            catalog = warehouse.catalog()
            if not catalog.table_exists(declaration.table):
                context.log.info("table %s does not exist yet", declaration.table)
                return
            _expire(catalog.table(declaration.table), policy, names, context, config)

    @dg.job(
        name=names.job(VERB),
        tags=names.tags(VERB),
        executor_def=dg.in_process_executor,
        description=f"Let old snapshots of {declaration.table} go.",
        metadata={"lakewright/table": declaration.table},
    )
    def expire_job() -> None:
        expire_table_snapshots.alias(names.job(VERB))()

    return expire_job


def _expire(
    table: Table,
    policy: SnapshotPolicy,
    names: TableNames,
    context: dg.OpExecutionContext,
    config: ExpireConfig,
) -> None:
    time_retained_ms = policy.time_retained
    if config.time_retained is not None:
        time_retained_ms = parse_duration_ms(config.time_retained)
    plan = table.plan_expire_snapshots(
        retain_min=policy.retain_min if config.retain_min is None else config.retain_min,
        retain_max=policy.retain_max if config.retain_max is None else config.retain_max,
        time_retained_ms=time_retained_ms,
        max_deletes=policy.max_deletes if config.max_deletes is None else config.max_deletes,
    )
    context.add_output_metadata(dict(expire_plan_metadata(plan)))
    for reason in plan.reasons:
        context.log.info("%s: %s", table.name, reason)
    if config.dry_run or not plan.snapshot_ids:
        said = "would go" if config.dry_run else "have to go"
        context.log.info("%s snapshots %s", len(plan.snapshot_ids), said)
        return
    result = table.run_expire_snapshots(plan)
    context.log.info(
        "%s snapshots expired, %s files with %s bytes deleted",
        len(result.expired),
        result.files_deleted,
        result.bytes_deleted,
    )
    context.log_event(
        dg.AssetObservation(
            names.asset_key,
            metadata=expire_metadata(table, result),
            description=f"expired {len(result.expired)} snapshots",
        )
    )


def build_expire_schedule(
    declaration: TableDeclaration, job: dg.JobDefinition
) -> dg.ScheduleDefinition:
    """The schedule on which snapshots of the table expire."""
    policy = declaration.maintenance.snapshots
    running, stopped = dg.DefaultScheduleStatus.RUNNING, dg.DefaultScheduleStatus.STOPPED
    return dg.ScheduleDefinition(
        name=TableNames(declaration.table).schedule(VERB),
        job=job,
        cron_schedule=policy.schedule,
        execution_timezone=policy.timezone,
        default_status=running if policy.enabled else stopped,
        description=f"Lets old snapshots of {declaration.table} go.",
    )
