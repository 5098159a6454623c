"""The schema sensor: proposes on the asset what an edited declaration would change in its table.

It runs when the code location was loaded again, and when another client altered the table: both are
seen as a new evaluation of the check `schema_matches`. The sensor reports it without a run, with an
observation that carries the plan. The job `evolve_schema` carries it out.
"""

import dagster as dg

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.schema_drift import schema_drift
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.schema_reports import evaluate_schema

_INTERVAL_SECONDS = 60


def build_schema_sensor(
    declaration: TableDeclaration, *, resources: ResourceKeys | None = None
) -> dg.SensorDefinition:
    """The sensor of a table whose columns are declared; a tick reads its latest schema file."""
    keys = resources or ResourceKeys()
    names = TableNames(declaration.table)

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
        drift = schema_drift(declaration, catalog.table(declaration.table))
        found = evaluate_schema(declaration, names, drift)
        # The description names the schema and every change.
        if found.description == context.cursor:
            return dg.SensorResult(skip_reason=found.description, cursor=context.cursor)
        proposed = [found.observation(names)] if drift else []
        return dg.SensorResult(
            asset_events=[found.event(names), *proposed], cursor=found.description
        )

    return schema_sensor
