"""The check `schema_matches`: whether a table is as its declaration says.

A check of Dagster runs after its asset, and a blocking one stops only what comes downstream in the
same run. So the check has two sources with one evaluation (`schema_reports.py`):

* This step alone, without a materialization: from the UI, or in the job `validate_schema`. It only
  reads schema files.
* The step that writes the table, before it reads its source. It reports the evaluation, and a
  failure of severity ERROR fails the step before any row is staged. Dagster keeps one result of a
  check for each run, so this step adds none where both run.

The sensor of the schema reports the same evaluation, without a run, when the declaration was edited
or the table was altered.
"""

import dagster as dg

from lakewright.platform.declare.declaration_checks import SCHEMA_MATCHES
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.schema_drift import schema_drift
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.schema_reports import evaluate_schema


def build_schema_check(
    declaration: TableDeclaration, *, resources: ResourceKeys | None = None
) -> dg.AssetChecksDefinition:
    """The check of a table whose columns are declared."""
    keys = resources or ResourceKeys()
    names = TableNames(declaration.table)

    @dg.asset_check(
        name=SCHEMA_MATCHES,
        asset=names.asset_key,
        blocking=True,
        required_resource_keys={keys.warehouse},
        description=(
            f"Whether {declaration.table} is as declared. Runs that write it are refused where "
            "their rows would not fit; the job evolve_schema makes the table as declared."
        ),
    )
    def schema_matches(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        with failures_for_dagster():
            catalog = warehouse.catalog()
            exists = catalog.table_exists(declaration.table)
            drift = schema_drift(declaration, catalog.table(declaration.table)) if exists else None
        found = evaluate_schema(declaration, names, drift)
        return dg.AssetCheckResult(
            passed=found.passed,
            severity=found.severity,
            description=found.description,
            metadata=found.metadata,
        )

    return schema_matches
