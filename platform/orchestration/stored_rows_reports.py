"""Whether stored rows fit the schema of their table, as the asset check shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg

from lakewright.platform.ingest.validate_schema import VALIDATE_SCHEMA, ValidateRun
from lakewright.platform.orchestration.check_events import last_evaluation
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import report_metadata
from lakewright.platform.orchestration.run_identity import commit_user
from lakewright.platform.tables.declaration_checks import STORED_ROWS_FIT
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.upkeep.procedure import Work, carry_out
from lakewright.storage import Catalog, Table


def evaluate_stored_rows(
    declaration: TableDeclaration,
    catalog: Catalog,
    session: Callable[[], Any],
    context: dg.AssetExecutionContext | dg.OpExecutionContext | dg.AssetCheckExecutionContext,
    options: Callable[[Table], ValidateRun],
) -> dg.AssetCheckResult:
    """Read the sample that the options ask for, and judge it; nothing is reported yet."""
    if not catalog.table_exists(declaration.table):
        told = f"table {declaration.table} does not exist yet"
        return dg.AssetCheckResult(passed=True, description=told)
    table = catalog.table(declaration.table)
    work = Work(run=commit_user(context.instance, context.run, STORED_ROWS_FIT), session=session)
    done = carry_out(VALIDATE_SCHEMA, table, options(table), work)
    report = VALIDATE_SCHEMA.report(table, done)
    return dg.AssetCheckResult(
        passed=done.result is not None and done.result.has_passed,
        description=report.summary,
        metadata=report_metadata(report),
    )


def passed_before(
    context: dg.AssetCheckExecutionContext,
    names: TableNames,
    catalog: Catalog,
    declaration: TableDeclaration,
) -> dg.AssetCheckResult | None:
    """The last evaluation, if it passed under the schema that the table has now."""
    last = last_evaluation(context.instance, dg.AssetCheckKey(names.asset_key, STORED_ROWS_FIT))
    if last is None or not last.passed or not catalog.table_exists(declaration.table):
        return None
    schema_id = last.metadata.get("lakewright/schema_id")
    if schema_id is None or schema_id.value != catalog.table(declaration.table).schema.id:
        return None
    return dg.AssetCheckResult(passed=True, description=last.description, metadata=last.metadata)
