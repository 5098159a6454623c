"""The relay of declared tables with a log: a sensor sees new commits, and asks for the job."""

from collections.abc import Sequence

import dagster as dg
from pydantic import Field

from lakewright.connectors.log import relay, unrelayed
from lakewright.jobs.warehouse_job import build_warehouse_job
from lakewright.platform.orchestration.names import TABLE_TAG, UpkeepNames, table_tag
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.storage import Catalog
from lakewright.storage.spec.log_options import has_log

VERB = "relay"
_DESCRIPTION = "Publish what was committed to tables in their logs (`lakewright relay`)."
_INTERVAL_SECONDS = 30


class RelayConfig(dg.Config):
    """Which tables are relayed."""

    tables: list[str] = Field(description="Tables with a log, as database.table.")


def build_relay(
    tables: Sequence[str], *, names: UpkeepNames, resources: ResourceKeys
) -> dg.Definitions:
    """The job and its sensor for declared tables with a log."""
    job = build_warehouse_job(
        VERB, _run, description=_DESCRIPTION, names=names, resources=resources
    )

    @dg.sensor(
        name=names.job("relay_sensor"),
        job=job,
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={resources.warehouse},
        description="Asks for a run when tables have commits that are not in their logs.",
    )
    def relay_sensor(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        warehouse: WarehouseResource = getattr(context.resources, resources.warehouse)
        catalog = warehouse.catalog()
        there = [catalog.table(name) for name in tables if catalog.table_exists(name)]
        behind = {
            each.name: each.table_files.snapshots.latest_id()
            for each in there
            if has_log(each.schema.options) and unrelayed(each)
        }
        if not behind:
            return dg.SkipReason("each commit is in its table's log")
        return dg.RunRequest(
            run_key=" ".join(f"{name}@{latest}" for name, latest in behind.items()),
            run_config={"ops": {names.job(VERB): {"config": {"tables": list(behind)}}}},
            tags={TABLE_TAG: table_tag(behind)},
        )

    return dg.Definitions(jobs=[job], sensors=[relay_sensor])


def _run(context: dg.OpExecutionContext, catalog: Catalog, config: RelayConfig) -> None:
    for name in config.tables:
        done = relay(catalog.table(name))
        context.log.info("%s: %s commits, up to snapshot %s", name, done.commits, done.snapshot_id)
