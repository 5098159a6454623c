"""The definitions of a workspace: every declared table with its asset, jobs, sensor and schedule.

`LAKEWRIGHT_TABLES` names the files and folders of declarations, parted as in PATH, and
`LAKEWRIGHT_POLICY` those of policies, under which all tables of the warehouse are kept.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.definitions_load_context import (
    DefinitionsLoadContext,
    DefinitionsLoadType,
)

from lakewright.assets.adopted_tables import adopted_spec
from lakewright.assets.backfill import build_backfill_job, can_be_backfilled
from lakewright.assets.health_check import build_health_check
from lakewright.assets.hooks import (
    AssetHooks,
    PlainHooks,
    ShownTable,
    keys_by_hooks,
    spec_by_hooks,
)
from lakewright.assets.newest_partition_check import build_newest_partition_check
from lakewright.assets.schema_check import build_schema_check
from lakewright.assets.stored_rows_check import build_stored_rows_check
from lakewright.assets.tables import build_asset, derived_spec
from lakewright.assets.warehouse_report import build_warehouse_report, can_be_reported
from lakewright.jobs.automation_sensor import build_automation_sensors
from lakewright.jobs.evolve_schema import evolve_job
from lakewright.jobs.ingest import build_ingest_job, build_ingest_schedule
from lakewright.jobs.refresh_assets import Refresh, build_refresh_job
from lakewright.jobs.rejection_sensor import build_rejection_sensor
from lakewright.jobs.replay import build_replay_job
from lakewright.jobs.scheduled_checks import build_scheduled_checks
from lakewright.jobs.schema_sensor import build_schema_sensor
from lakewright.jobs.statements import build_statements_job
from lakewright.jobs.undo import build_undo_job
from lakewright.jobs.upkeep import build_requests_job, build_upkeep_job
from lakewright.jobs.upkeep_sensor import build_upkeep_sensor
from lakewright.jobs.verbs import KEEPING_JOBS, REQUESTED_JOBS
from lakewright.platform.declare.policy_watch import PolicyFiles
from lakewright.platform.declare.variables import POLICY_VARIABLE, TABLES_VARIABLE
from lakewright.platform.declare.workspace import Workspace, read_workspace
from lakewright.platform.orchestration.check_events import HEALTHY
from lakewright.platform.orchestration.dagster_checks import check_for_dagster
from lakewright.platform.orchestration.names import UpkeepNames, usual_key
from lakewright.platform.orchestration.newest_partition_reports import deadlines_of
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.warehouse.adopted import AdoptedTable, read_adopted
from lakewright.platform.warehouse.kept_tables import KeptTables
from lakewright.storage.errors import StorageError

# Of tables that are not read in this time, the assets have no columns.
_LISTING_SECONDS = 20.0
# What this process has read, by warehouse.
_LISTED: dict[str, tuple[AdoptedTable, ...]] = {}
_log = logging.getLogger(__name__)


def build_definitions(
    paths: Sequence[str | Path],
    *,
    warehouse: WarehouseResource | None = None,
    spark: SparkResource | None = None,
    resources: ResourceKeys | None = None,
    policies: Sequence[str | Path] = (),
    adopted: Sequence[str] = (),
    adopted_tables: Sequence[AdoptedTable] = (),
    group: str = "",
    hooks: AssetHooks | None = None,
    refresh: Refresh | None = None,
) -> dg.Definitions:
    """Definitions of all tables declared in files and folders, and of the upkeep of all tables.

    `policies` are policy files and folders. `adopted` are patterns of names: the tables of the
    warehouse that match are kept too; those of `adopted_tables` are assets. `group` tells the names
    of jobs apart from those of another workspace in the same code location. `hooks` may change the
    spec of each asset, and run each write. `refresh` lists the adopted tables for the next time
    that the definitions are loaded; without it, they stay those that are given.

    Raises:
        DeclarationError: something is wrong with the declarations; all of it is listed.
    """
    keys, hooks = resources or ResourceKeys(), hooks or PlainHooks()
    workspace = replace(
        read_workspace(paths, check=check_for_dagster), policy_paths=tuple(map(Path, policies))
    )
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = []
    checks: list[dg.AssetChecksDefinition] = []
    jobs: list[Any] = []
    sensors: list[dg.SensorDefinition] = []
    tables = KeptTables(
        files=PolicyFiles(policies, workspace=workspace),
        declarations={each.table: each for each in workspace.declarations},
        adopted=tuple(adopted),
    )
    declared, undeclared, names = _shown(
        workspace, adopted_tables, tables, UpkeepNames(group), hooks
    )
    verbs = [kind.name for kind in KEEPING_JOBS]
    keeping, evolving = (
        [build_upkeep_job(kind, tables, names=names, resources=keys) for kind in kinds]
        for kinds in (KEEPING_JOBS, (evolve_job(workspace, names.keys),))
    )
    checking, schedules = build_scheduled_checks(workspace.declarations, names)
    jobs += [
        *evolving,
        build_requests_job(REQUESTED_JOBS, tables, names=names, resources=keys),
        *checking,
        build_undo_job(names=names, resources=keys),
        build_statements_job(names=names, resources=keys),
        build_replay_job(workspace, names=names, resources=keys),
    ]
    shown = None if refresh is None else adopted_tables
    if refresh is not None:
        keeping.append(build_refresh_job(refresh, names=names))
    reports, renewing = _reporting(tables, names, keys) if policies or adopted else ([], [])
    assets += reports
    schedules += renewing
    sensors.append(
        build_upkeep_sensor(
            tables,
            keeping,
            names=names,
            resources=keys,
            shown=shown,
            is_run=_is_run(),
            page=reports[0].key.to_user_string() if reports else "",
        )
    )
    # Only a policy file says where alerts go.
    if policies and workspace.declarations:
        sensors.append(
            build_rejection_sensor(tables, warehouse or WarehouseResource(), names=names)
        )
    jobs += keeping
    if any(can_be_backfilled(each) for each in workspace.declarations):
        jobs.append(
            build_backfill_job(workspace.declarations, names=names, resources=keys, hooks=hooks)
        )
    with_columns = [each for each in workspace.declarations if each.columns]
    if with_columns:
        sensors.append(build_schema_sensor(workspace, with_columns, names=names, resources=keys))
    for declaration in workspace.declarations:
        own = names.of(declaration.table)
        assets.append(
            build_asset(
                declaration,
                declared[declaration.table],
                own,
                file=workspace.file_of(declaration.table),
                resources=keys,
                hooks=hooks,
            )
        )
        checks += [
            build_stored_rows_check(declaration, own, resources=keys),
            build_health_check(
                own.op(HEALTHY),
                tables,
                [declaration.table],
                verbs=verbs,
                names=names,
                resources=keys,
            ),
        ]
        if declaration.is_written_here:
            ingest = build_ingest_job(declaration, own)
            jobs.append(ingest)
            if declaration.schedule is not None:
                schedules.append(build_ingest_schedule(declaration, declaration.schedule, ingest))
        deadlines = deadlines_of(declaration)
        if deadlines is not None:
            checks.append(build_newest_partition_check(declaration, own, deadlines, resources=keys))
        if declaration.columns:
            checks.append(build_schema_check(workspace, declaration, own, resources=keys))
    sensors += build_automation_sensors(workspace.declarations, names=names)
    if undeclared:
        assets += undeclared.values()
        # One step for all: a step for each would make a workspace of many tables slow to load.
        checks.append(
            build_health_check(
                names.job(HEALTHY),
                tables,
                [*undeclared],
                verbs=verbs,
                names=names,
                resources=keys,
            )
        )
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


def _is_run() -> bool:
    """Whether this process loads the definitions that another one has, to carry out a run."""
    return DefinitionsLoadContext.get().load_type is DefinitionsLoadType.RECONSTRUCTION


def _reporting(
    tables: KeptTables, names: UpkeepNames, keys: ResourceKeys
) -> tuple[list[dg.AssetsDefinition], list[dg.ScheduleDefinition]]:
    """The page of the warehouse and its schedule, where the extra that draws it is installed."""
    if not can_be_reported():
        return [], []
    report, schedule = build_warehouse_report(tables, names=names, resources=keys)
    return [report], [schedule]


def _shown(
    workspace: Workspace,
    adopted_tables: Sequence[AdoptedTable],
    tables: KeptTables,
    names: UpkeepNames,
    hooks: AssetHooks,
) -> tuple[dict[str, dg.AssetSpec], dict[str, dg.AssetSpec], UpkeepNames]:
    """By name, the assets of declared tables, and those of adopted ones that are not declared.

    The names have the keys of both, and know those of tables that the warehouse gets later.
    """
    policies = tables.files.shown(is_run=_is_run())
    location = DefinitionsLoadContext.get().code_location_name

    def adopted(table: AdoptedTable) -> dg.AssetSpec:
        spec = adopted_spec(table, policies.of(table.table), names, location=location)
        return spec_by_hooks(hooks, ShownTable(spec=spec, adopted=table))

    def key_of_new(table: str) -> dg.AssetKey:
        # What is not kept is no asset of ours, such as the upstream that another project writes.
        is_kept = any(fnmatchcase(table, each) for each in tables.adopted)
        return adopted(AdoptedTable(table=table)).key if is_kept else usual_key(table)

    undeclared = {
        each.table: adopted(each)
        for each in adopted_tables
        if each.table not in tables.declarations
    }
    declared = {
        each.table: spec_by_hooks(
            hooks,
            ShownTable(
                spec=derived_spec(each, workspace, names, undeclared, location=location),
                declaration=each,
            ),
        )
        for each in workspace.declarations
    }
    keys = keys_by_hooks(hooks, {**undeclared, **declared}, key_of_new)
    return declared, undeclared, replace(names, keys=keys)


@dg.definitions
def defs() -> dg.Definitions:
    """The workspace that `lakewright up` serves."""
    paths, policies = _named(TABLES_VARIABLE), _named(POLICY_VARIABLE)
    # The jobs bring their executor along; this one is for assets materialized without a job.
    in_process = dg.Definitions(executor=dg.in_process_executor)
    # With policies, all tables of the warehouse are kept.
    adopted = ["*"] if policies else []
    built = build_definitions(
        paths,
        policies=policies,
        adopted=adopted,
        adopted_tables=_listed(adopted) if adopted else (),
        # They are listed whenever the definitions are loaded.
        refresh=(lambda _: None) if adopted else None,
    )
    return dg.Definitions.merge(built, in_process)


def _listed(patterns: Sequence[str]) -> tuple[AdoptedTable, ...]:
    """The tables of the warehouse, listed now.

    Dagster loads the definitions of a code server twice. The first time, the tables are read; the
    second time, they are known. The process of a run, which loads them once, needs only names.
    """
    where = WarehouseResource().location
    is_first = DefinitionsLoadContext.get().load_type is DefinitionsLoadType.INITIALIZATION
    if not is_first and where in _LISTED:
        return _LISTED[where]
    try:
        catalog = WarehouseResource().catalog()
        found = read_adopted(catalog, patterns, most_seconds=_LISTING_SECONDS if is_first else 0)
    except StorageError as error:
        # Declared tables are kept all the same.
        _log.warning("the tables of the warehouse are no assets until it can be listed: %s", error)
        return ()
    if is_first:
        _LISTED[where] = found
    return found


def _named(variable: str) -> list[Path]:
    """The paths in an environment variable, parted as in PATH."""
    return [Path(each) for each in os.environ.get(variable, "").split(os.pathsep) if each]
