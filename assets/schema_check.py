"""The check `schema_matches`: whether a table is as its declaration says.

A check of Dagster runs after its asset, when rows are published. So the check has several sources
with one evaluation (`schema_reports.py`):

* This step alone, without a materialization, from the UI or in the job `validate_schema`.
* The step that writes the table, before it reads its source. It reports the evaluation for its own
  write mode, and a failure of severity ERROR fails the step before any row is staged.

A run that a schedule or a sensor asks for has only the step that writes. A materialization from the
UI has both: then this step repeats the result of the other one, and never fails a run whose rows
are published.

The sensor of the schema reports the same evaluation, without a run, when the declaration was edited
or the table was altered.
"""

import dagster as dg

from lakewright.assets.table_checks import TableCheck
from lakewright.platform.orchestration.check_events import evaluations
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import UPKEEP, TableNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.schema_reports import (
    EVOLVE,
    RESPEC_JOB,
    judge_schema,
)
from lakewright.platform.tables.declaration_checks import SCHEMA_MATCHES
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.workspace import Workspace


def schema_check(
    workspace: Workspace,
    declaration: TableDeclaration,
    names: TableNames,
    *,
    resources: ResourceKeys,
) -> TableCheck:
    """The check of a table whose columns are declared; the gate asks who uses them."""

    def evaluate(context: dg.AssetCheckExecutionContext, _: dg.Config) -> dg.AssetCheckResult:
        warehouse: WarehouseResource = getattr(context.resources, resources.warehouse)
        judged = _judged_in(context, dg.AssetCheckKey(names.asset_key, SCHEMA_MATCHES))
        if judged is not None:
            return judged
        with failures_for_dagster():
            catalog = warehouse.catalog()
            found = judge_schema(workspace, declaration, names, catalog, context.instance)
        return found.result()

    return TableCheck(
        name=SCHEMA_MATCHES,
        description=(
            f"Whether {declaration.table} is as declared. Runs that write it are refused where "
            f"their rows would not fit. The job {names.job_of_all(UPKEEP)} makes the table as "
            f"declared by the verb {EVOLVE}, and changes its partition keys by {RESPEC_JOB}."
        ),
        evaluate=evaluate,
    )


def _judged_in(
    context: dg.AssetCheckExecutionContext, key: dg.AssetCheckKey
) -> dg.AssetCheckResult | None:
    """The result that the step which writes the table has reported in the same run."""
    # So many runs and sensors may report the check while one run goes from a step to the next.
    for record in evaluations(context.instance, key):
        if record.run_id == context.run.run_id and record.evaluation is not None:
            return dg.AssetCheckResult(
                passed=record.evaluation.passed,
                severity=record.evaluation.severity,
                description=record.evaluation.description,
                metadata=record.evaluation.metadata,
            )
    return None
