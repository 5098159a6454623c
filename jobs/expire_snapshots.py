"""Expiry: a job that lets go what is past its time, with the files only that needs.

Snapshots go first, step after step until none may go or the run's time is up, then tags and then
changelogs that outlived their snapshots: each is planned when what was before it is gone, since
that may be what kept a file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import dagster as dg
from pydantic import Field

from lakewright.platform.declare.declarations import SnapshotPolicy, TableDeclaration
from lakewright.platform.declare.durations import duration_ms
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import (
    Expired,
    ExpiryPlans,
    expire_metadata,
    expire_plan_metadata,
)
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.orchestration.runs import release_of_ended_runs
from lakewright.platform.upkeep.leases import expiring
from lakewright.storage import ExpirePlan, Lease, Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.leases.leases import check_held

VERB = "expire_snapshots"


class ExpireConfig(dg.Config):
    """What one run lets go; what is not given, the policy says, and then the table's options."""

    retain_min: int | None = Field(default=None, description="Snapshots that stay in any case.")
    retain_max: int | None = Field(default=None, description="Snapshots that may stay at most.")
    time_retained: str | None = Field(
        default=None, description="How long a snapshot stays; 1h, 7d or 0s."
    )
    max_deletes: int | None = Field(default=None, description="Snapshots one run expires at most.")
    max_duration: str = Field(
        default="1h", description="No further step begins after such a time; the next run goes on."
    )
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
        description=(
            f"Plan and run an expiry of snapshots, tags and changelogs of {declaration.table}."
        ),
    )
    def expire_table_snapshots(context: dg.OpExecutionContext, config: ExpireConfig) -> None:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        with failures_for_dagster():
            catalog = warehouse.catalog()
            if not catalog.table_exists(declaration.table):
                context.log.info("table %s does not exist yet", declaration.table)
                return
            table = catalog.table(declaration.table)
            retention = _retention(policy, config)
            max_duration_ms = _duration_ms(config, "max_duration")
            if config.dry_run:
                _tell_plans(table, context, retention)
                return
            release_of_ended_runs(context.instance, table, tell=context.log.info)
            with expiring(table, run=commit_user(context.run, names.job(VERB))) as lease:
                _expire(table, names, context, retention, max_duration_ms, lease)

    @dg.job(
        name=names.job(VERB),
        tags=names.tags(VERB),
        executor_def=dg.in_process_executor,
        description=f"Let old snapshots, tags and changelogs of {declaration.table} go.",
        metadata={"lakewright/table": declaration.table},
    )
    def expire_job() -> None:
        expire_table_snapshots.alias(names.job(VERB))()

    return expire_job


def _retention(policy: SnapshotPolicy, config: ExpireConfig) -> dict[str, int | None]:
    time_retained_ms = policy.time_retained
    if config.time_retained is not None:
        time_retained_ms = _duration_ms(config, "time_retained")
    return {
        "retain_min": policy.retain_min if config.retain_min is None else config.retain_min,
        "retain_max": policy.retain_max if config.retain_max is None else config.retain_max,
        "time_retained_ms": time_retained_ms,
        "max_deletes": policy.max_deletes if config.max_deletes is None else config.max_deletes,
    }


def _duration_ms(config: ExpireConfig, setting: str) -> int:
    try:
        return duration_ms(getattr(config, setting))
    except InvalidRequestError as err:
        raise InvalidRequestError(f"{setting}: {err.message}") from None


def _tell_plans(
    table: Table, context: dg.OpExecutionContext, retention: Mapping[str, int | None]
) -> None:
    would = ExpiryPlans(
        snapshots=table.plan_expire_snapshots(**retention),
        tags=table.plan_expire_tags(),
        changelogs=table.plan_expire_changelogs(),
    )
    context.add_output_metadata(dict(expire_plan_metadata(would)))
    _log(context, table, would.reasons)
    context.log.info("dry run: %s would go", would.summary)


def _expire(
    table: Table,
    names: TableNames,
    context: dg.OpExecutionContext,
    retention: Mapping[str, int | None],
    max_duration_ms: int,
    lease: Lease,
) -> None:
    expired = Expired()
    plans: list[ExpirePlan] = []
    try:
        for step in table.expire_in_steps(**retention, max_duration_ms=max_duration_ms):
            _log(context, table, step.plan.reasons)
            expired = expired.and_snapshots(step.result)
            plans.append(replace(step.plan, files=()) if plans else step.plan)
            check_held(table.files, lease)
        tags = table.plan_expire_tags()
        _log(context, table, tags.reasons)
        expired = replace(expired, tags=table.run_expire_tags(tags))
        check_held(table.files, lease)
        changelogs = table.plan_expire_changelogs()
        _log(context, table, changelogs.reasons)
        expired = expired.and_changelogs(table.run_expire_changelogs(changelogs))
        for _ in plans[1:]:
            check_held(table.files, lease)
            # Each step of snapshots may have left changelogs for one.
            following = table.plan_expire_changelogs()
            expired = expired.and_changelogs(table.run_expire_changelogs(following))
    except BaseException:
        # What is gone is told even if the rest failed; a run that is tried again tells the rest.
        # Of a step that fails Dagster drops the events, so this one is not the run's.
        _tell(context, table, names, expired, context.instance.report_runless_asset_event)
        raise
    _tell(context, table, names, expired, context.log_event)
    told = ExpiryPlans(snapshots=plans[0], tags=tags, changelogs=changelogs)
    context.add_output_metadata(dict(expire_plan_metadata(told, expired)))


def _log(context: dg.OpExecutionContext, table: Table, reasons: Sequence[str]) -> None:
    for reason in reasons:
        context.log.info("%s: %s", table.name, reason)


def _tell(
    context: dg.OpExecutionContext,
    table: Table,
    names: TableNames,
    expired: Expired,
    report: Callable[[dg.AssetObservation], None],
) -> None:
    context.log.info(
        "%s expired, %s files with %s bytes deleted",
        expired.summary,
        expired.files_deleted,
        expired.bytes_deleted,
    )
    if expired.count:
        report(
            dg.AssetObservation(
                names.asset_key,
                metadata=expire_metadata(table, expired),
                description=f"expired {expired.summary}",
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
        description=f"Lets old snapshots, tags and changelogs of {declaration.table} go.",
    )
