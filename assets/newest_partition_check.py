"""The check `newest_partition_has_rows`: whether the partition that ended last came in time.

Dagster's own freshness asks when any partition was last written. This check asks the table, so it
holds for rows of other clients, too. Its step runs with each write of the asset, and in
the job `check_freshness` at its deadlines.
"""

import dagster as dg

from lakewright.assets.table_checks import TableCheck
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.newest_partition_reports import (
    Deadlines,
    evaluate_newest_partition,
    time_dimension,
)
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.tables.declaration_checks import NEWEST_PARTITION
from lakewright.platform.tables.declarations import TableDeclaration


def newest_partition_check(
    declaration: TableDeclaration, deadlines: Deadlines, *, resources: ResourceKeys
) -> TableCheck:
    """The check of a table with partitions by time."""
    cadence = time_dimension(declaration).cadence.value

    def evaluate(context: dg.AssetCheckExecutionContext, _: dg.Config) -> dg.AssetCheckResult:
        warehouse: WarehouseResource = getattr(context.resources, resources.warehouse)
        with failures_for_dagster():
            return evaluate_newest_partition(declaration, deadlines, warehouse.catalog())

    return TableCheck(
        name=NEWEST_PARTITION,
        description=(
            f"Whether, at the last tick of {deadlines.by!r} in {deadlines.timezone}, the {cadence} "
            f"partition of {declaration.table} that had ended last has rows."
        ),
        evaluate=evaluate,
    )
