"""The definitions of a workspace: every declared table with its asset, jobs, sensor and schedule.

`LAKEWRIGHT_TABLES` names the files and folders of declarations, parted as in
PATH; without it the demonstration's are taken.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from lakewright.assets.schema_check import build_schema_check
from lakewright.assets.stored_rows_check import build_stored_rows_check
from lakewright.assets.tables import build_asset
from lakewright.jobs.compact import COMPACT_JOB
from lakewright.jobs.compact_sensor import build_compact_sensor
from lakewright.jobs.drop_partitions import DROP_PARTITIONS_JOB
from lakewright.jobs.evolve_schema import evolve_job
from lakewright.jobs.exchange_partition import EXCHANGE_PARTITION_JOB
from lakewright.jobs.expire_partitions import (
    EXPIRE_PARTITIONS_JOB,
    build_expire_partitions_schedule,
)
from lakewright.jobs.expire_snapshots import EXPIRE_JOB, build_expire_schedule
from lakewright.jobs.external_partitions import ADD_PARTITIONS_JOB, REPAIR_PARTITIONS_JOB
from lakewright.jobs.ingest import build_ingest_job
from lakewright.jobs.mark_done import MARK_DONE_JOB
from lakewright.jobs.rename_partition import RENAME_PARTITION_JOB
from lakewright.jobs.respec import respec_job
from lakewright.jobs.schema_sensor import build_schema_sensor
from lakewright.jobs.upkeep import UpkeepJob, build_upkeep_job
from lakewright.jobs.validate_schema import build_validate_job, build_validate_schedule
from lakewright.platform.declare.variables import TABLES_VARIABLE
from lakewright.platform.declare.workspace import Workspace, read_workspace
from lakewright.platform.orchestration.dagster_checks import check_for_dagster
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource

# Jobs on whole partitions that run on request only.
PARTITION_JOBS: tuple[UpkeepJob, ...] = (
    ADD_PARTITIONS_JOB,
    REPAIR_PARTITIONS_JOB,
    DROP_PARTITIONS_JOB,
    RENAME_PARTITION_JOB,
    EXCHANGE_PARTITION_JOB,
    MARK_DONE_JOB,
)
DEMO_TABLES = Path(__file__).parent / "demo" / "tables"


def build_definitions(
    paths: Sequence[str | Path],
    *,
    warehouse: WarehouseResource | None = None,
    spark: SparkResource | None = None,
    resources: ResourceKeys | None = None,
) -> dg.Definitions:
    """Definitions of all tables declared in files and folders.

    Raises:
        DeclarationError: something is wrong with the declarations; all of it is listed.
    """
    workspace = read_workspace(paths, check=check_for_dagster)
    return definitions_of(workspace, warehouse=warehouse, spark=spark, resources=resources)


def definitions_of(
    workspace: Workspace,
    *,
    warehouse: WarehouseResource | None = None,
    spark: SparkResource | None = None,
    resources: ResourceKeys | None = None,
) -> dg.Definitions:
    """Definitions of the declared tables of a workspace."""
    keys = resources or ResourceKeys()
    assets: list[dg.AssetsDefinition] = []
    checks: list[dg.AssetChecksDefinition] = []
    jobs: list[Any] = []
    sensors: list[dg.SensorDefinition] = []
    schedules: list[dg.ScheduleDefinition] = []
    for declaration in workspace.declarations:
        assets.append(build_asset(declaration, workspace=workspace, resources=keys))
        checks.append(build_stored_rows_check(declaration, resources=keys))
        if declaration.columns:
            checks.append(build_schema_check(workspace, declaration, resources=keys))
            sensors.append(build_schema_sensor(workspace, declaration, resources=keys))
        if declaration.is_written_here:
            jobs.append(build_ingest_job(declaration))
        compact = build_upkeep_job(COMPACT_JOB, declaration, resources=keys)
        sensors.append(build_compact_sensor(declaration, compact, resources=keys))
        expire = build_upkeep_job(EXPIRE_JOB, declaration, resources=keys)
        schedules.append(build_expire_schedule(declaration, expire))
        validate = build_validate_job(declaration)
        schedules.append(build_validate_schedule(declaration, validate))
        jobs += [compact, expire, validate]
        if declaration.may_have_partitions:
            age_out = build_upkeep_job(EXPIRE_PARTITIONS_JOB, declaration, resources=keys)
            jobs.append(age_out)
            jobs += [build_upkeep_job(each, declaration, resources=keys) for each in PARTITION_JOBS]
            if declaration.expires_partitions:
                schedules.append(build_expire_partitions_schedule(declaration, age_out))
        if declaration.columns:
            for kind in (evolve_job(workspace, declaration), respec_job(declaration)):
                jobs.append(build_upkeep_job(kind, declaration, resources=keys))
    return dg.Definitions(
        assets=assets,
        asset_checks=checks,
        jobs=jobs,
        sensors=sensors,
        schedules=schedules,
        resources={
            keys.warehouse: warehouse or WarehouseResource(),
            keys.spark: spark or SparkResource(),
        },
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The workspace that `workspace.yaml` loads."""
    given = os.environ.get(TABLES_VARIABLE, "")
    paths = [Path(each) for each in given.split(os.pathsep) if each]
    # The jobs bring their executor along; this one is for assets materialized without a job.
    in_process = dg.Definitions(executor=dg.in_process_executor)
    return dg.Definitions.merge(build_definitions(paths or [DEMO_TABLES]), in_process)
