"""Validation of schemas: a job that runs both checks of a table's schema, on a schedule."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakewright.jobs.schedules import build_schedule
from lakewright.platform.declare.declaration_checks import SCHEMA_MATCHES, STORED_ROWS_FIT
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.orchestration.names import TableNames

VERB = "validate_schema"


def build_validate_job(
    declaration: TableDeclaration, names: TableNames
) -> UnresolvedAssetJobDefinition:
    """The job of a table; without declared columns there is nothing that the schema could match."""
    checks = [STORED_ROWS_FIT, *([SCHEMA_MATCHES] if declaration.columns else [])]
    return dg.define_asset_job(
        names.job(VERB),
        selection=dg.AssetSelection.checks(
            *(dg.AssetCheckKey(names.asset_key, check) for check in checks)
        ),
        tags=names.tags(VERB),
        # Steps share one process and so one Spark session; others would each start their own.
        executor_def=dg.in_process_executor,
        description=f"Read a sample of the rows of {declaration.table} under its current schema.",
    )


def build_validate_schedule(
    declaration: TableDeclaration, job: UnresolvedAssetJobDefinition
) -> dg.ScheduleDefinition:
    """The schedule on which the schema of the table is validated."""
    return build_schedule(
        TableNames(declaration.table),
        VERB,
        job,
        declaration.schema_policy.validation,
        description=f"Reads a sample of the rows of {declaration.table} under its current schema.",
    )
