"""Compaction: a job that rewrites what is worth it.

The run plans anew: what the sensor saw may have changed while the run waited. It leases the
buckets it rewrites, leaves those that others work on, and gives up what a writer wants. Rows of
a table that postpones its buckets get theirs first, which is what readers wait for. Where
they wait for rows of level 0, as with deletion vectors and first-row, any plan takes those
along, however few they are.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import dagster as dg
from pydantic import Field

from lakewright.platform.declare.declarations import (
    CompactionPolicy,
    EngineChoice,
    TableDeclaration,
)
from lakewright.platform.declare.partition_keys import (
    InvalidPartitionKeyError,
    decode_partition,
    describe_partition,
    partition_identity,
)
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import (
    compaction_metadata,
    partition_health_metadata,
    plan_metadata,
)
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.orchestration.run_choices import EngineName, VerifyName
from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.orchestration.runs import release_of_ended_runs
from lakewright.platform.upkeep.engines import compaction_engine
from lakewright.platform.upkeep.health import TableHealth, partition_columns, read_health
from lakewright.platform.upkeep.known_partitions import check_partitions_known, unknown_partitions
from lakewright.platform.upkeep.leases import maintaining, plan_scope
from lakewright.storage import CompactionPlan, Lease, LeaseKind, PostponePlan, Table, VerifyLevel
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.options import BucketMode

VERB = "compact"
# The snapshot that the sensor looked at when it asked for the run.
SENSOR_TAG = "lakewright/snapshot"


class CompactConfig(dg.Config):
    """What one run compacts."""

    partitions: list[str] | None = Field(
        default=None,
        description=(
            "Keys of the partitions to look at: a value, or dt=…/hh=… where there are several "
            "columns. Without any, all of them."
        ),
    )
    full: bool | None = Field(
        default=None,
        description=(
            "Rewrite all that is not one sorted run yet, or holds small files or deleted rows, "
            "instead of only what the policy of the table asks for."
        ),
    )
    engine: EngineName | None = Field(
        default=None, description="spark, local or auto, instead of what the policy says."
    )
    verify: VerifyName | None = Field(
        default=None,
        description=(
            "How much is proved before anything is published, instead of what the policy says: "
            "counts, checksums, or full, which reads the new files back."
        ),
    )
    dry_run: bool = Field(default=False, description="Tell what would be done, and do nothing.")


def build_compact_job(
    declaration: TableDeclaration, *, resources: ResourceKeys | None = None
) -> dg.JobDefinition:
    """The job that compacts the table."""
    keys = resources or ResourceKeys()
    names = TableNames(declaration.table)
    policy = declaration.maintenance.compaction

    @dg.op(
        name=names.op(VERB),
        pool=names.pool,
        required_resource_keys={keys.warehouse, keys.spark},
        description=f"Plan and run a compaction of {declaration.table}.",
    )
    def compact_table(context: dg.OpExecutionContext, config: CompactConfig) -> None:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        spark: SparkResource = getattr(context.resources, keys.spark)
        with failures_for_dagster():
            table = warehouse.catalog().table(declaration.table)
            if not config.dry_run:
                release_of_ended_runs(context.instance, table, tell=context.log.info)
            _compact(table, policy, names, context, config, spark)

    @dg.job(
        name=names.job(VERB),
        tags=names.tags(VERB),
        executor_def=dg.in_process_executor,
        description=f"Rewrite small files of {declaration.table} into few large ones.",
        metadata={"lakewright/table": declaration.table},
    )
    def compact_job() -> None:
        compact_table.alias(names.job(VERB))()

    return compact_job


def _compact(
    table: Table,
    policy: CompactionPolicy,
    names: TableNames,
    context: dg.OpExecutionContext,
    config: CompactConfig,
    spark: SparkResource,
) -> None:
    partitions = _partitions(table, config.partitions, context)
    if partitions is not None and not partitions:
        return
    if table.options.bucket_mode is BucketMode.POSTPONE:
        _give_buckets(table, partitions, policy, names, context, config, spark)
    plan = table.plan_compact(
        partitions,
        full=policy.full if config.full is None else config.full,
        min_file_num=policy.small_files,
    )
    context.add_output_metadata(dict(plan_metadata(plan)))
    for task in plan.tasks:
        context.log.info("bucket %s of %s: %s", task.bucket, dict(task.partition), task.reason)
    if config.dry_run:
        context.log.info("dry run: %s files would be rewritten", plan.files_before)
        return
    if not plan.tasks:
        context.log.info(
            "nothing is worth compacting in %s any more; it is left as it is", table.name
        )
        return
    engine = compaction_engine(
        _engine_choice(config, policy), size_bytes=plan.bytes_before, session=spark.session
    )
    before = read_health(table)
    verify = _verify_level(config, policy)
    with _leased(table, plan, names, context) as lease:
        result = table.run_compact(plan, engine, verify=verify, lease=lease)
    if result.dropped_tasks:
        context.log.info(
            "%s of %s buckets are left to those who work on them",
            result.dropped_tasks,
            len(plan.tasks),
        )
    metadata = compaction_metadata(table, result, engine=engine.name)
    context.log.info(
        "%s files became %s, %s bytes became %s",
        result.files_before,
        result.files_after,
        result.bytes_before,
        result.bytes_after,
    )
    _observe_partitions(before, read_health(table), plan, names, context)
    # Last, so that a list of events with the newest first begins with the whole table.
    context.log_event(
        dg.AssetObservation(
            names.asset_key,
            metadata=metadata,
            description=f"compacted {result.files_before} files into {result.files_after}",
        )
    )


def _give_buckets(
    table: Table,
    partitions: Sequence[Mapping[str, object]] | None,
    policy: CompactionPolicy,
    names: TableNames,
    context: dg.OpExecutionContext,
    config: CompactConfig,
    spark: SparkResource,
) -> None:
    """Let readers see the rows that wait for a bucket."""
    plan = table.plan_postpone_compact(partitions)
    if not plan.tasks or config.dry_run:
        context.log.info("%s rows of %s wait for a bucket", plan.rows, table.name)
        return
    engine = compaction_engine(
        _engine_choice(config, policy), size_bytes=plan.bytes_before, session=spark.session
    )
    verify = _verify_level(config, policy)
    with _leased(table, plan, names, context) as lease:
        result = table.run_postpone_compact(plan, engine, verify=verify, lease=lease)
    description = (
        f"gave {result.rows_before} rows of {result.partitions} partitions their buckets, and "
        f"left {len(result.dropped)} partitions that others changed"
    )
    context.log.info(description)
    context.log_event(dg.AssetObservation(names.asset_key, description=description))


def _leased(
    table: Table,
    plan: CompactionPlan | PostponePlan,
    names: TableNames,
    context: dg.OpExecutionContext,
) -> AbstractContextManager[Lease]:
    run = commit_user(context.run, names.job(VERB))
    return maintaining(table, LeaseKind.COMPACT, plan_scope(table, plan), run=run)


def _observe_partitions(
    before: TableHealth,
    after: TableHealth,
    plan: CompactionPlan,
    names: TableNames,
    context: dg.OpExecutionContext,
) -> None:
    """Tell each compacted partition's files before and after."""
    touched = {partition_identity(task.partition) for task in plan.tasks}
    earlier = {each.key: each for each in before.partitions}
    for partition in after.partitions:
        if not partition.key or partition_identity(partition.spec) not in touched:
            continue
        context.log_event(
            dg.AssetObservation(
                names.asset_key,
                partition=partition.key,
                metadata=partition_health_metadata(earlier.get(partition.key), partition),
            )
        )


def _partitions(
    table: Table, keys: Sequence[str] | None, context: dg.OpExecutionContext
) -> list[Mapping[str, object]] | None:
    """The partitions to look at, None for all.

    Raises:
        InvalidRequestError: a text is the key of no partition.
        NotFoundError: the table has no such partition.
    """
    if keys is None:
        return None
    columns = partition_columns(table)
    if not columns:
        raise InvalidRequestError(f"{table.name} has no partitions; leave `partitions` out")
    if not keys:
        raise InvalidRequestError("partitions is an empty list; leave it out to look at all")
    try:
        specs: list[Mapping[str, object]] = [decode_partition(key, columns) for key in keys]
    except InvalidPartitionKeyError as err:
        raise InvalidRequestError(str(err), table=table.name) from err
    if SENSOR_TAG not in context.run.tags:
        check_partitions_known(table, specs)
        return specs
    # The sensor saw them; what was dropped while the run waited needs no compaction.
    gone = unknown_partitions(table, specs)
    for spec in gone:
        context.log.info("%s of %s is gone by now", describe_partition(spec), table.name)
    # Compared by `==`, a partition of -0.0 that is gone would take that of 0.0 with it.
    left_out = {partition_identity(spec) for spec in gone}
    return [spec for spec in specs if partition_identity(spec) not in left_out]


def _engine_choice(config: CompactConfig, policy: CompactionPolicy) -> EngineChoice:
    return policy.engine if config.engine is None else config.engine.value


def _verify_level(config: CompactConfig, policy: CompactionPolicy) -> VerifyLevel:
    return policy.verify if config.verify is None else config.verify.value
