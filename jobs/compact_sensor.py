"""The compaction sensor: requests compactions that are due, and reports why.

Each table has its own sensor. It has its own history of reasons, can be stopped alone, and does not
block other tables if its table cannot be read.
"""

from functools import partial

import dagster as dg

from lakewright.jobs.compact import VERB
from lakewright.jobs.upkeep import SENSOR_TAG
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import decision_table
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.runs import work_in_flight
from lakewright.platform.upkeep.asking import Memory, Request, ask
from lakewright.storage.env import SystemEnv


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
        answer = ask(
            catalog.table(declaration.table),
            policy,
            Memory.from_cursor(context.cursor),
            in_flight=partial(work_in_flight, context.instance, names),
            now_ms=SystemEnv().now_ms(),
        )
        if answer.decisions:
            context.log.info("%s", decision_table(answer.decisions))
        cursor = answer.memory.to_cursor()
        if answer.request is None:
            return dg.SensorResult(skip_reason=answer.reason, cursor=cursor)
        return dg.SensorResult(run_requests=[_run_request(answer.request, names)], cursor=cursor)

    return compact_sensor


def _run_request(request: Request, names: TableNames) -> dg.RunRequest:
    config = {} if request.partitions is None else {"partitions": list(request.partitions)}
    return dg.RunRequest(
        run_key=request.key,
        run_config={"ops": {names.job(VERB): {"config": config}}},
        tags={**names.tags(VERB), SENSOR_TAG: str(request.snapshot_id)},
    )
