"""The check `stored_rows_fit_schema`: whether stored rows read right under the current schema.

One check covers all schema versions that live files use, so that it stays one line on the asset
after a hundred of them; its metadata has a row for each version, and names the file and the schema
id of whatever does not fit.

The verb `validate_schema` does the work, for the command line too. It is no `UpkeepJob`: Dagster
shows and runs a check only with the step that owns it, so this step is the job's step. The job
`validate_schema` selects both checks of the schema.
"""

import dagster as dg

from lakewright.platform.declare.declaration_checks import STORED_ROWS_FIT
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.ingest.validate_schema import VALIDATE_SCHEMA, ValidateOptions
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import report_metadata
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.orchestration.run_config import config_class, options_of_run
from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.upkeep.verb import Work, carry_out


def build_stored_rows_check(
    declaration: TableDeclaration, names: TableNames, *, resources: ResourceKeys | None = None
) -> dg.AssetChecksDefinition:
    """The check of a table; run config overrides the size of the declared sample."""
    keys = resources or ResourceKeys()
    declared = ValidateOptions.declared(declaration.schema_policy.validation)

    def stored_rows_fit_schema(
        context: dg.AssetCheckExecutionContext, config: dg.Config
    ) -> dg.AssetCheckResult:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        spark: SparkResource = getattr(context.resources, keys.spark)
        with failures_for_dagster():
            catalog = warehouse.catalog()
            if not catalog.table_exists(declaration.table):
                told = f"table {declaration.table} does not exist yet"
                return dg.AssetCheckResult(passed=True, description=told)
            table = catalog.table(declaration.table)
            options = options_of_run(config, declared, table)
            work = Work(run=commit_user(context.run, STORED_ROWS_FIT), session=spark.session)
            done = carry_out(VALIDATE_SCHEMA, table, options, work)
        report = VALIDATE_SCHEMA.report(table, done)
        return dg.AssetCheckResult(
            passed=done.result is not None and done.result.has_passed,
            description=report.summary,
            metadata=report_metadata(report),
        )

    # Without `dry_run`: a result without a sample would stand in place of the last one.
    config_type = config_class(ValidateOptions, dg.Config)
    stored_rows_fit_schema.__annotations__["config"] = config_type
    return dg.asset_check(
        name=STORED_ROWS_FIT,
        asset=names.asset_key,
        required_resource_keys={keys.warehouse, keys.spark},
        description=(
            f"Whether a sample of the rows of {declaration.table}, of each schema version that its "
            "files have, reads right under the current schema: types, nulls, casts and row counts."
        ),
    )(stored_rows_fit_schema)
