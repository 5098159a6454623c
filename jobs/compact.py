"""Compaction: a job that rewrites what is worth it, and a sensor that asks for it.

The sensor reads metadata only. It decides partition by partition, and a plan,
made from metadata too, must find work before a run is asked for. There is one
sensor a table, so that each has its own history of reasons, can be stopped by
itself, and hides no other when its table cannot be read.

The run plans anew: what the sensor saw may have changed while the run waited. It leases the
buckets it rewrites, leaves those that others work on, and gives up what a writer wants. Rows of
a table that postpones its buckets get theirs first, which is what readers wait for. Where
they wait for rows of level 0, as with deletion vectors and first-row, any plan takes those
along, however few they are.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import dagster as dg
from pydantic import Field

from lakewright.platform.decide import (
    Asked,
    Declined,
    Intent,
    asked_now,
    decide,
    intents,
    summarize,
)
from lakewright.platform.declarations import CompactionPolicy, EngineChoice, TableDeclaration
from lakewright.platform.engines import compaction_engine
from lakewright.platform.failures import failures_for_dagster
from lakewright.platform.health import TableHealth, partition_columns, read_health
from lakewright.platform.leases import maintaining, plan_scope
from lakewright.platform.names import TableNames
from lakewright.platform.partition_keys import InvalidPartitionKeyError, decode_partition
from lakewright.platform.reports import (
    compaction_metadata,
    decision_table,
    partition_health_metadata,
    plan_metadata,
)
from lakewright.platform.resource_keys import ResourceKeys
from lakewright.platform.resources import SparkResource, WarehouseResource
from lakewright.platform.run_identity import commit_user
from lakewright.platform.runs import release_of_ended_runs, work_in_flight
from lakewright.storage import CompactionPlan, Lease, LeaseKind, PostponePlan, Table
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.options import BucketMode

VERB = "compact"


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
    engine: str | None = Field(
        default=None, description="spark, local or auto, instead of what the policy says."
    )
    verify: str | None = Field(
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
    partitions = _partitions(table, config.partitions)
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
        _engine_choice(config.engine, policy), size_bytes=plan.bytes_before, session=spark.session
    )
    before = read_health(table)
    verify = config.verify or policy.verify
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
        _engine_choice(config.engine, policy), size_bytes=plan.bytes_before, session=spark.session
    )
    verify = config.verify or policy.verify
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
    touched = [dict(task.partition) for task in plan.tasks]
    earlier = {each.key: each for each in before.partitions}
    for partition in after.partitions:
        if not partition.key or dict(partition.spec) not in touched:
            continue
        context.log_event(
            dg.AssetObservation(
                names.asset_key,
                partition=partition.key,
                metadata=partition_health_metadata(earlier.get(partition.key), partition),
            )
        )


def _partitions(table: Table, keys: Sequence[str] | None) -> list[Mapping[str, object]] | None:
    if keys is None:
        return None
    columns = partition_columns(table)
    if not columns:
        raise InvalidRequestError(f"{table.name} has no partitions; leave `partitions` out")
    try:
        return [decode_partition(key, columns) for key in keys]
    except InvalidPartitionKeyError as err:
        raise InvalidRequestError(str(err), table=table.name) from err


def _engine_choice(given: str | None, policy: CompactionPolicy) -> EngineChoice:
    try:
        return policy.engine if given is None else EngineChoice(given)
    except ValueError:
        known = ", ".join(each.value for each in EngineChoice)
        raise InvalidRequestError(f"engine {given!r} is none of {known}") from None


# --- the sensor -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorMemory:
    """What a sensor knows of its earlier answers; kept as its cursor.

    `seen` is the state of table and policy to which `answer` was given, which holds until
    `look_again_ms`; `acted` says of each partition what was asked for.
    """

    table_uuid: str = ""
    seen: str = ""
    answer: str = ""
    look_again_ms: int | None = None
    acted: Mapping[str, Asked] = field(default_factory=dict)

    def to_cursor(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_cursor(cls, cursor: str | None) -> "SensorMemory":
        """The memory in a cursor; a cursor somebody wrote by hand counts as none."""
        try:
            found = json.loads(cursor or "")
            again = found["look_again_ms"]
            return cls(
                table_uuid=str(found["table_uuid"]),
                seen=str(found["seen"]),
                answer=str(found["answer"]),
                look_again_ms=None if again is None else int(again),
                acted={str(key): Asked(**asked) for key, asked in found["acted"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls()


def build_compact_sensor(
    declaration: TableDeclaration,
    job: dg.JobDefinition,
    *,
    resources: ResourceKeys | None = None,
) -> dg.SensorDefinition:
    """The sensor that asks for compactions of the table."""
    keys = resources or ResourceKeys()
    names = TableNames(declaration.table)
    policy = declaration.maintenance.compaction
    status = dg.DefaultSensorStatus.RUNNING if policy.enabled else dg.DefaultSensorStatus.STOPPED

    @dg.sensor(
        name=names.sensor(VERB),
        job=job,
        minimum_interval_seconds=max(policy.interval // 1000, 1),
        default_status=status,
        required_resource_keys={keys.warehouse},
        description=(
            f"Asks for a compaction where a bucket of {declaration.table} has at least "
            f"{policy.small_files} small files or sorted runs, or rows that no reader sees before."
        ),
    )
    def compact_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        catalog = warehouse.catalog()
        if not catalog.table_exists(declaration.table):
            reason = f"table {declaration.table} does not exist yet"
            return dg.SensorResult(skip_reason=reason)
        table = catalog.table(declaration.table)
        return _evaluate(table, policy, names, context)

    return compact_sensor


def _evaluate(
    table: Table, policy: CompactionPolicy, names: TableNames, context: dg.SensorEvaluationContext
) -> dg.SensorResult:
    memory = SensorMemory.from_cursor(context.cursor)
    if memory.table_uuid != table.uuid:
        # A table that was dropped and created again has another history.
        memory = SensorMemory(table_uuid=table.uuid)
    snapshot = table.latest_snapshot()
    seen = f"{None if snapshot is None else snapshot.id} {policy.model_dump_json()}"
    now_ms = SystemEnv().now_ms()
    is_early = memory.look_again_ms is None or now_ms < memory.look_again_ms
    if memory.seen == seen and is_early:
        return dg.SensorResult(
            skip_reason=f"nothing was committed since: {memory.answer}", cursor=context.cursor
        )
    health = read_health(table)
    in_flight = work_in_flight(context.instance, names)
    decisions = decide(health, policy, in_flight=in_flight, acted=memory.acted, now_ms=now_ms)
    answer = summarize(decisions)
    context.log.info("%s", decision_table(decisions))
    wanted = intents(decisions)
    fingerprints = {each.key: each.fingerprint for each in health.partitions}
    # What has changed since, or is gone, need not be remembered.
    acted = {
        key: asked
        for key, asked in memory.acted.items()
        if fingerprints.get(key) == asked.fingerprint
    }
    kept = SensorMemory(table_uuid=table.uuid, answer=answer, acted=acted)
    if not wanted:
        declined = [each for each in decisions if isinstance(each, Declined)]
        again = [each.again_ms for each in declined if each.again_ms is not None]
        if not any(each.waits for each in declined):
            # While something waits, the same snapshot is looked at again.
            kept = replace(kept, seen=seen, look_again_ms=min(again, default=None))
        return dg.SensorResult(skip_reason=answer, cursor=kept.to_cursor())
    acted |= {
        each.partition.key: asked_now(each.partition, acted.get(each.partition.key), now_ms)
        for each in wanted
    }
    planned = _planned(table, policy, wanted)
    if not planned.tasks and not _waiting_rows(table, wanted):
        reason = "; ".join(dict.fromkeys(each.reason for each in planned.skipped))
        answer = f"{answer}; but a plan finds nothing to rewrite: {reason}"
        for each in wanted:
            acted[each.partition.key] = replace(acted[each.partition.key], again_ms=None)
        again = [asked.again_ms for asked in acted.values() if asked.again_ms is not None]
        kept = replace(
            kept, seen=seen, answer=answer, look_again_ms=min(again, default=None), acted=acted
        )
        return dg.SensorResult(skip_reason=answer, cursor=kept.to_cursor())
    kept = replace(kept, acted=acted)
    return dg.SensorResult(
        run_requests=[_request(table, health, wanted, acted, names)], cursor=kept.to_cursor()
    )


def _planned(table: Table, policy: CompactionPolicy, wanted: Sequence[Intent]) -> CompactionPlan:
    partitions = [each.partition.spec for each in wanted if each.partition.spec]
    return table.plan_compact(partitions or None, full=policy.full, min_file_num=policy.small_files)


def _waiting_rows(table: Table, wanted: Sequence[Intent]) -> int:
    """Rows of the partitions that readers do not see before they get a bucket."""
    if table.options.bucket_mode is not BucketMode.POSTPONE:
        return 0
    partitions = [each.partition.spec for each in wanted if each.partition.spec]
    return table.plan_postpone_compact(partitions or None).rows


def _request(
    table: Table,
    health: TableHealth,
    wanted: Sequence[Intent],
    acted: Mapping[str, Asked],
    names: TableNames,
) -> dg.RunRequest:
    config: dict[str, Any] = {}
    keys = [each.partition.key for each in wanted]
    if table.schema.partition_keys:
        config["partitions"] = keys
    # Of one snapshot other partitions may be asked for, and the same once more.
    asked = json.dumps([(key, acted[key].times) for key in keys])
    digest = hashlib.sha256(asked.encode()).hexdigest()[:12]
    return dg.RunRequest(
        # A table that was created again begins at snapshot 1 again; its uuid tells it apart.
        run_key=f"{table.uuid}@{health.snapshot_id} {digest}",
        run_config={"ops": {names.job(VERB): {"config": config}}},
        tags={**names.tags(VERB), "lakewright/snapshot": str(health.snapshot_id)},
    )
