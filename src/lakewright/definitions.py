"""The definitions of a workspace: every declared table with its asset, jobs, sensor and schedule.

`LAKEWRIGHT_TABLES` names the files and folders of declarations, parted as in PATH, and
`LAKEWRIGHT_POLICY` those of policies, under which all tables of the warehouse are kept. Without
any, the demonstration's declarations are taken.
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
from lakewright.jobs.evolve_schema import evolve_job
from lakewright.jobs.ingest import build_ingest_job
from lakewright.jobs.respec import respec_job
from lakewright.jobs.schema_sensor import build_schema_sensor
from lakewright.jobs.upkeep import build_table_job, build_upkeep_job
from lakewright.jobs.upkeep_sensor import build_upkeep_sensor
from lakewright.jobs.validate_schema import build_validate_job, build_validate_schedule
from lakewright.jobs.verbs import KEEPING_JOBS, REQUESTED_JOBS
from lakewright.platform.declare.policy_watch import PolicyFiles
from lakewright.platform.declare.variables import POLICY_VARIABLE, TABLES_VARIABLE
from lakewright.platform.declare.workspace import Workspace, read_workspace
from lakewright.platform.orchestration.dagster_checks import check_for_dagster, check_schedules
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.warehouse.kept_tables import KeptTables

DEMO_TABLES = Path(__file__).parent / "demo" / "tables"


def build_definitions(
    paths: Sequence[str | Path],
    *,
    warehouse: WarehouseResource | None = None,
    spark: SparkResource | None = None,
    resources: ResourceKeys | None = None,
    policies: Sequence[str | Path] = (),
    adopted: Sequence[str] = (),
    group: str = "",
) -> dg.Definitions:
    """Definitions of all tables declared in files and folders.

    Raises:
        DeclarationError: something is wrong with the declarations; all of it is listed.
    """
    workspace = read_workspace(paths, check=check_for_dagster)
    return definitions_of(
        workspace,
        warehouse=warehouse,
        spark=spark,
        resources=resources,
        policies=policies,
        adopted=adopted,
        group=group,
    )


def definitions_of(
    workspace: Workspace,
    *,
    warehouse: WarehouseResource | None = None,
    spark: SparkResource | None = None,
    resources: ResourceKeys | None = None,
    policies: Sequence[str | Path] = (),
    adopted: Sequence[str] = (),
    group: str = "",
) -> dg.Definitions:
    """Definitions of the declared tables of a workspace, and of the upkeep of all tables.

    `policies` are policy files and folders. `adopted` are patterns of names: the tables of the
    warehouse that match are kept too. `group` tells the names of jobs apart from those of another
    workspace in the same code location.
    """
    keys = resources or ResourceKeys()
    assets: list[dg.AssetsDefinition] = []
    checks: list[dg.AssetChecksDefinition] = []
    jobs: list[Any] = []
    sensors: list[dg.SensorDefinition] = []
    schedules: list[dg.ScheduleDefinition] = []
    tables = KeptTables(
        files=PolicyFiles(policies, workspace=workspace, check=check_schedules),
        declarations={each.table: each for each in workspace.declarations},
        adopted=tuple(adopted),
    )
    names = UpkeepNames(group)
    keeping = [build_upkeep_job(kind, tables, names=names, resources=keys) for kind in KEEPING_JOBS]
    jobs += keeping
    jobs += [build_upkeep_job(kind, tables, names=names, resources=keys) for kind in REQUESTED_JOBS]
    sensors.append(build_upkeep_sensor(tables, keeping, names=names, resources=keys))
    for declaration in workspace.declarations:
        assets.append(build_asset(declaration, workspace=workspace, resources=keys))
        checks.append(build_stored_rows_check(declaration, resources=keys))
        validate = build_validate_job(declaration)
        jobs.append(validate)
        schedules.append(build_validate_schedule(declaration, validate))
        if declaration.is_written_here:
            jobs.append(build_ingest_job(declaration))
        if declaration.columns:
            checks.append(build_schema_check(workspace, declaration, resources=keys))
            sensors.append(build_schema_sensor(workspace, declaration, resources=keys))
            jobs += [
                build_table_job(kind, declaration, resources=keys)
                for kind in (evolve_job(workspace, declaration), respec_job(declaration))
            ]
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
    paths, policies = _named(TABLES_VARIABLE), _named(POLICY_VARIABLE)
    # The jobs bring their executor along; this one is for assets materialized without a job.
    in_process = dg.Definitions(executor=dg.in_process_executor)
    # With policies, all tables of the warehouse are kept.
    built = build_definitions(
        paths or [DEMO_TABLES], policies=policies, adopted=["*"] if policies else []
    )
    return dg.Definitions.merge(built, in_process)


def _named(variable: str) -> list[Path]:
    """The paths in an environment variable, parted as in PATH."""
    return [Path(each) for each in os.environ.get(variable, "").split(os.pathsep) if each]
