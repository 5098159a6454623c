"""A job of one op over the whole warehouse."""

from collections.abc import Callable
from typing import TypeVar

import dagster as dg

from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.storage import Catalog

ConfigT = TypeVar("ConfigT", bound=dg.Config)


def build_warehouse_job(
    verb: str,
    run: Callable[[dg.OpExecutionContext, Catalog, ConfigT], None],
    *,
    description: str,
    names: UpkeepNames | None,
    resources: ResourceKeys | None,
) -> dg.JobDefinition:
    """The job that calls `run` with the warehouse and the run's config, which `run` annotates."""
    names = names or UpkeepNames()
    keys = resources or ResourceKeys()

    def run_op(context: dg.OpExecutionContext, config: ConfigT) -> None:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        with failures_for_dagster():
            run(context, warehouse.catalog(), config)

    # Dagster reads the type of run config here.
    run_op.__annotations__["config"] = run.__annotations__["config"]
    op = dg.op(
        name=names.op(verb),
        pool=names.pool(verb),
        required_resource_keys={keys.warehouse},
        description=description,
    )(run_op)

    @dg.job(name=names.job(verb), executor_def=dg.in_process_executor, description=description)
    def warehouse_job() -> None:
        op.alias(names.job(verb))()

    return warehouse_job
