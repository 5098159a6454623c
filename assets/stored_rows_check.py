"""The check `stored_rows_fit_schema`: whether stored rows read right under the current schema.

One check covers all schema versions that live files use, so that it stays one line on the asset
after a hundred of them; its metadata has a row for each version, and names the file and the schema
id of whatever does not fit.

The verb `validate_schema` does the work, for the command line too. This step reads rows when a
person, or the schedule of the job `validate_schema`, asks for the check. In a run that writes the
table it does so only if the schema is another than at the last evaluation that passed, which it
repeats otherwise.

Dagster skips that step after a write that failed, and would show the check as failed without a
word. So the step of such a write makes the evaluation (`stored_rows_after_failure`).
"""

from collections.abc import Iterator

import dagster as dg

from lakewright.assets.table_checks import SampleConfig, TableCheck
from lakewright.platform.ingest.validate_schema import ValidateRun
from lakewright.platform.orchestration.check_events import check_event, is_awaited
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.orchestration.run_config import options_of_run
from lakewright.platform.orchestration.stored_rows_reports import (
    evaluate_stored_rows,
    passed_before,
)
from lakewright.platform.tables.declaration_checks import STORED_ROWS_FIT
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage.errors import StorageError


def stored_rows_check(
    declaration: TableDeclaration, names: TableNames, *, resources: ResourceKeys
) -> TableCheck:
    """The check of a table; run config overrides the size of the declared sample."""
    declared = ValidateRun.declared(declaration.schema_policy.validation)

    def evaluate(context: dg.AssetCheckExecutionContext, config: dg.Config) -> dg.AssetCheckResult:
        warehouse: WarehouseResource = getattr(context.resources, resources.warehouse)
        spark: SparkResource = getattr(context.resources, resources.spark)
        with failures_for_dagster():
            if config == SampleConfig() and _is_written(context, names):
                repeated = passed_before(context, names, warehouse.catalog(), declaration)
                if repeated is not None:
                    return repeated
            return evaluate_stored_rows(
                declaration,
                warehouse.catalog(),
                spark.session,
                context,
                lambda table: options_of_run(config, declared, table),
            )

    return TableCheck(
        name=STORED_ROWS_FIT,
        description=(
            f"Whether a sample of the rows of {declaration.table}, of each schema version that its "
            "files have, reads right under the current schema: types, nulls, casts and row counts."
        ),
        evaluate=evaluate,
    )


def _is_written(context: dg.AssetCheckExecutionContext, names: TableNames) -> bool:
    """Whether the run writes the table, too."""
    layer = context.job_def.asset_layer
    return names.asset_key in layer.executable_asset_keys


def stored_rows_after_failure(
    declaration: TableDeclaration,
    names: TableNames,
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    warehouse: WarehouseResource,
    spark: SparkResource,
    error: Exception,
) -> Iterator[dg.AssetCheckEvaluation]:
    """The check's evaluation in the step of a write that fails, if the run was to evaluate it.

    After a rejection, and after other failures that are final, stored rows are read as the check's
    own step would read them, by the declared sample. A retry has the check's step again, so before
    one nothing is read.
    """
    key = dg.AssetCheckKey(names.asset_key, STORED_ROWS_FIT)
    if isinstance(error, dg.Failure) and is_awaited(context, key):
        declared = ValidateRun.declared(declaration.schema_policy.validation)
        try:
            catalog = warehouse.catalog()
            found = evaluate_stored_rows(
                declaration, catalog, spark.session, context, lambda _: declared
            )
        except StorageError as failure:
            told = f"the stored rows could not be read: {failure}"
            found = dg.AssetCheckResult(
                passed=False, severity=dg.AssetCheckSeverity.WARN, description=told
            )
        yield check_event(key, found)
