"""Ingest: a job per written table, so that its runs carry the table's tags."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakewright.platform.declare.declaration_checks import SCHEMA_MATCHES, STORED_ROWS_FIT
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.orchestration.health_reports import HEALTHY
from lakewright.platform.orchestration.names import TableNames

VERB = "ingest"


def build_ingest_job(declaration: TableDeclaration) -> UnresolvedAssetJobDefinition:
    """The job that materializes the table's asset."""
    names = TableNames(declaration.table)
    # The first reads rows of earlier runs, and has a schedule of its own. The second's result comes
    # from the step that writes, the third's from the upkeep sensor.
    others = (STORED_ROWS_FIT, SCHEMA_MATCHES, HEALTHY)
    alone = [dg.AssetCheckKey(names.asset_key, each) for each in others]
    return dg.define_asset_job(
        names.job(VERB),
        selection=dg.AssetSelection.assets(names.asset_key) - dg.AssetSelection.checks(*alone),
        tags=names.tags(VERB),
        # Steps share one process and so one Spark session; others would each start their own.
        executor_def=dg.in_process_executor,
        description=f"Write {declaration.table} from its source.",
    )
