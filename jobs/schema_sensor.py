"""The schema sensor: proposes on the asset what an edited declaration would change in its table.

A tick compares the id of the table's schema and a digest of the declaration with its cursor. If one
of them changed, the sensor evaluates the check `schema_matches` and reports it without a run, with
an observation that carries the plan. The job `evolve_schema` carries it out. It evaluates again if
the last result of the check is about another schema or declaration: a run that began before the
change may report later.

After a change of the partition keys, here or by another process, the sensor makes the partitions of
the asset those of the table (`follow_table.py`).
"""

import dagster as dg
from dagster._core.storage.asset_check_execution_record import (
    COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES,
)

from lakewright.platform.declare.declaration_checks import SCHEMA_MATCHES
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.schema_drift import schema_drift
from lakewright.platform.declare.workspace import Workspace
from lakewright.platform.orchestration.follow_table import follow_table
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.schema_reports import (
    COMPARED,
    ask_gate,
    compared,
    evaluate_schema,
)

_INTERVAL_SECONDS = 60


def build_schema_sensor(
    workspace: Workspace, declaration: TableDeclaration, *, resources: ResourceKeys | None = None
) -> dg.SensorDefinition:
    """The sensor of a table whose columns are declared; a tick reads its latest schema file."""
    keys = resources or ResourceKeys()
    names = TableNames(declaration.table)
    key = dg.AssetCheckKey(names.asset_key, SCHEMA_MATCHES)

    @dg.sensor(
        name=names.sensor("schema"),
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={keys.warehouse},
        description=f"Shows what makes {declaration.table} as declared, whenever that changes.",
    )
    def schema_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        catalog = warehouse.catalog()
        if not catalog.table_exists(declaration.table):
            return dg.SensorResult(skip_reason=f"table {declaration.table} does not exist yet")
        table = catalog.table(declaration.table)
        now = compared(declaration, table.schema.id)
        if now == context.cursor and now == _last_compared(context.instance, key):
            return dg.SensorResult(skip_reason=f"{now}: nothing changed", cursor=now)
        drift = schema_drift(declaration, table)
        answer = ask_gate(workspace, declaration, table, drift, context.instance)
        found = evaluate_schema(declaration, names, drift, answer)
        # A result that only comes again proposes nothing new.
        proposed = [found.observation(names)] if drift and now != context.cursor else []
        followed = follow_table(declaration, table, context.instance)
        for told in followed.warnings:
            context.log.warning("%s: %s", declaration.table, told)
        return dg.SensorResult(
            asset_events=[found.event(names), *proposed, *followed.events], cursor=now
        )

    return schema_sensor


def _last_compared(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> str | None:
    """What the last result of the check compared."""
    records = instance.event_log_storage.get_asset_check_execution_history(
        key, limit=1, status=COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
    )
    evaluation = records[0].evaluation if records else None
    told = evaluation.metadata.get(COMPARED) if evaluation is not None else None
    return told.value if isinstance(told, dg.TextMetadataValue) else None
