"""The definitions of a workspace: every declared table with its asset, jobs, sensor and schedule.

`LAKEWRIGHT_TABLES` names the files and folders of declarations, parted as in PATH, and
`LAKEWRIGHT_POLICY` those of policies, under which all tables of the warehouse are kept.

What serves tables leaves out what is wrong, and says so: a wrong declaration stops its own table,
and wrong policies the upkeep. `lakewright check` refuses both, and so does loading with
`LAKEWRIGHT_STRICT`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
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
from lakewright.assets.health_check import HealthChecks
from lakewright.assets.hooks import (
    AssetHooks,
    PlainHooks,
    ShownTable,
    keys_by_hooks,
    spec_by_hooks,
)
from lakewright.assets.newest_partition_check import newest_partition_check
from lakewright.assets.rejects import rejects_spec
from lakewright.assets.schema_check import schema_check
from lakewright.assets.stored_rows_check import stored_rows_check
from lakewright.assets.table_checks import build_table_checks
from lakewright.assets.tables import build_asset, derived_spec
from lakewright.assets.warehouse_report import REPORT, build_warehouse_report, can_be_reported
from lakewright.assets.wrong_tables import (
    build_declarations_sensor,
    build_wrong_tables,
    wrong_spec,
)
from lakewright.jobs.automation_sensor import build_automation_sensors
from lakewright.jobs.evolve_schema import all_verbs
from lakewright.jobs.ingest import build_ingest_schedule
from lakewright.jobs.refresh_assets import Refresh, build_refresh_job
from lakewright.jobs.rejection_sensor import build_rejection_sensor
from lakewright.jobs.relay import build_relay
from lakewright.jobs.replay_rejects import build_replay_rejects_job
from lakewright.jobs.scheduled_checks import build_scheduled_checks
from lakewright.jobs.schema_sensor import build_schema_sensor
from lakewright.jobs.statements import build_statements_job
from lakewright.jobs.undo import build_undo_job
from lakewright.jobs.upkeep import build_upkeep_job
from lakewright.jobs.upkeep_sensor import build_upkeep_sensor
from lakewright.jobs.verbs import KEEPING_VERBS
from lakewright.platform.decide.adopted import AdoptedTable, read_adopted
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.documents.variables import (
    POLICY_VARIABLE,
    STRICT_VARIABLE,
    TABLES_VARIABLE,
)
from lakewright.platform.documents.yaml_files import WrittenText
from lakewright.platform.ingest.inferred_columns import with_columns_of_source
from lakewright.platform.orchestration.check_events import HEALTHY
from lakewright.platform.orchestration.dagster_checks import check_for_dagster
from lakewright.platform.orchestration.names import UpkeepNames, usual_key
from lakewright.platform.orchestration.newest_partition_reports import deadlines_of
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import (
    SparkResource,
    WarehouseResource,
    check_no_secret_shown,
)
from lakewright.platform.orchestration.stream_reports import source_spec
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.platform.tables.declaration_files import WrongDeclaration
from lakewright.platform.tables.declaration_watch import DeclarationWatch
from lakewright.platform.tables.declarations import TableDeclaration, rejects_name
from lakewright.platform.tables.workspace import Workspace, read_right, read_workspace
from lakewright.storage.errors import StorageError
from lakewright.storage.spec.log_options import LOG_SYSTEM

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
    others: Sequence[WrittenText] = (),
    upkeep: bool | None = None,
) -> dg.Definitions:
    """Definitions of all tables declared in files and folders, and of the upkeep of all tables.

    `policies` are policy files and folders. `adopted` are patterns of names: the tables of the
    warehouse that match are kept too; those of `adopted_tables` are assets. `group` tells the names
    of jobs apart from those of another workspace in the same code location. `hooks` may change the
    spec of each asset, and run each write. `refresh` lists the adopted tables for the next time
    that the definitions are loaded; without it, they stay those that are given. `others` are
    declarations that stand elsewhere. `upkeep` says whether the upkeep sensor begins running; where
    nothing says so, it does if policies are named, or a declaration has `maintenance`.

    Raises:
        DeclarationError: something is wrong, and LAKEWRIGHT_STRICT asks for it; all is listed.
        InvalidOption: the config of a resource holds a secret.
    """
    keys, hooks = resources or ResourceKeys(), hooks or PlainHooks()
    strict = bool(os.environ.get(STRICT_VARIABLE))
    read = read_workspace if strict else read_right
    watch = DeclarationWatch(
        paths,
        lambda: read(paths, check=check_for_dagster, others=others, infer=with_columns_of_source),
    )
    workspace = replace(watch.loaded, policy_paths=tuple(map(Path, policies)))
    tables = KeptTables(
        files=PolicyFiles(policies, workspace=workspace),
        declarations={each.table: each for each in workspace.declarations},
        adopted=tuple(adopted),
        wrong=workspace.wrong,
    )
    if strict:
        tables.files.current()
    wrong = _wrong_tables(workspace)
    declared, undeclared, names = _shown(
        workspace, wrong, adopted_tables, tables, UpkeepNames(group), hooks
    )
    health = HealthChecks(
        tables=tables, verbs=[kind.name for kind in KEEPING_VERBS], names=names, resources=keys
    )
    found, session = warehouse or WarehouseResource(), spark or SparkResource()
    check_no_secret_shown(found, session)
    bound = {keys.warehouse: found, keys.spark: session}
    is_reported = bool(policies or adopted) and can_be_reported()
    shown = None if refresh is None else adopted_tables
    return dg.Definitions.merge(
        dg.Definitions(resources=bound),
        *(
            _declared_table(each, declared[each.table], workspace, health, hooks)
            for each in workspace.declarations
        ),
        build_wrong_tables(wrong, declared, names),
        _undeclared_tables(undeclared, health),
        _declarations(watch, tables, names, keys) if paths or others else dg.Definitions(),
        _writing(workspace.declarations, names, keys, hooks),
        _schemas(workspace, names, keys),
        build_warehouse_report(tables, names=names, resources=keys)
        if is_reported
        else dg.Definitions(),
        _upkeep(
            workspace,
            tables,
            names,
            keys,
            bound,
            refresh,
            shown,
            page=REPORT if is_reported else "",
            begins=_asks_for_upkeep(tables, policies) if upkeep is None else upkeep,
        ),
        # Only a policy file says where alerts go.
        _logs(workspace.declarations, names, keys),
        _alerts(tables, found, names) if policies else dg.Definitions(),
        _on_request(workspace, tables, names, keys),
    )


def _wrong_tables(workspace: Workspace) -> dict[str, WrongDeclaration]:
    """All that is wrong with a table's declarations, by its name, as far as that is known."""
    found: dict[str, WrongDeclaration] = {}
    for each in workspace.wrong:
        if each.table is not None:
            before = found.get(each.table, each)
            problems = tuple(dict.fromkeys((*before.problems, *each.problems)))
            found[each.table] = replace(before, problems=problems)
    return found


def _declarations(
    watch: DeclarationWatch, tables: KeptTables, names: UpkeepNames, keys: ResourceKeys
) -> dg.Definitions:
    """What says that declarations are wrong."""
    return dg.Definitions(sensors=[build_declarations_sensor(watch, tables, names, keys)])


def _declared_table(
    declaration: TableDeclaration,
    spec: dg.AssetSpec,
    workspace: Workspace,
    health: HealthChecks,
    hooks: AssetHooks,
) -> dg.Definitions:
    """The asset of a declared table, the checks of its stored rows, and its schedule."""
    keys, names = health.resources, health.names.of(declaration.table)
    file = workspace.file_of(declaration.table)
    checks = [stored_rows_check(declaration, names, resources=keys), health.of(declaration.table)]
    deadlines = deadlines_of(declaration)
    if deadlines is not None:
        checks.append(newest_partition_check(declaration, deadlines, resources=keys))
    if declaration.columns:
        checks.append(schema_check(workspace, declaration, names, resources=keys))
    schedule = declaration.schedule if declaration.is_written_here else None
    return dg.Definitions(
        assets=[build_asset(declaration, spec, names, file=file, resources=keys, hooks=hooks)],
        asset_checks=[build_table_checks(names, checks, resources=keys)],
        schedules=[build_ingest_schedule(declaration, schedule, names)] if schedule else (),
    )


def _undeclared_tables(specs: Mapping[str, dg.AssetSpec], health: HealthChecks) -> dg.Definitions:
    """The assets of adopted tables that no declaration names, and one step that checks them all.

    A step for each would make a workspace of many tables slow to load.
    """
    if not specs:
        return dg.Definitions()
    return dg.Definitions(
        assets=[*specs.values()],
        asset_checks=[health.step(health.names.job(HEALTHY), [*specs])],
    )


def _writing(
    declarations: Sequence[TableDeclaration],
    names: UpkeepNames,
    keys: ResourceKeys,
    hooks: AssetHooks,
) -> dg.Definitions:
    """What writes tables beside their schedules: backfills, automation, and streams."""
    jobs = []
    if any(map(can_be_backfilled, declarations)):
        jobs.append(build_backfill_job(declarations, names=names, resources=keys, hooks=hooks))
    sensors = build_automation_sensors(declarations, names=names, resources=keys)
    return dg.Definitions(assets=_sources(declarations, names), jobs=jobs, sensors=sensors)


def _sources(declarations: Sequence[TableDeclaration], names: UpkeepNames) -> list[dg.AssetSpec]:
    """What streams read by connectors; several tables may read one topic."""
    specs = (source_spec(each, names.of(each.table)) for each in declarations)
    return [*{each.key: each for each in specs if each is not None}.values()]


def _schemas(workspace: Workspace, names: UpkeepNames, keys: ResourceKeys) -> dg.Definitions:
    """What compares tables with their declarations."""
    declarations = workspace.declarations
    checking, schedules = build_scheduled_checks(declarations, names)
    with_columns = [each for each in declarations if each.columns]
    sensors = (
        [build_schema_sensor(workspace, with_columns, names=names, resources=keys)]
        if with_columns
        else []
    )
    return dg.Definitions(jobs=checking, schedules=schedules, sensors=sensors)


def _asks_for_upkeep(tables: KeptTables, policies: Sequence[str | Path]) -> bool:
    """Whether somebody wrote what upkeep is to do, so that its sensor begins running."""
    kept = tables.declarations.values()
    return bool(policies) or any(each.maintenance.model_fields_set for each in kept)


def _upkeep(
    workspace: Workspace,
    tables: KeptTables,
    names: UpkeepNames,
    keys: ResourceKeys,
    bound: Mapping[str, Any],
    refresh: Refresh | None,
    shown: Sequence[AdoptedTable] | None,
    *,
    page: str,
    begins: bool,
) -> dg.Definitions:
    """The job that keeps tables, and the sensor that asks for its runs."""
    # To bind resources itself, Dagster would copy the sensor by a parameter that it warns of.
    verbs = all_verbs(workspace, names.keys)
    jobs = [build_upkeep_job(verbs, tables, names=names, resources=keys, bound=bound)]
    if refresh is not None:
        jobs.append(build_refresh_job(refresh, names=names))
    sensor = build_upkeep_sensor(
        tables,
        jobs,
        names=names,
        resources=keys,
        shown=shown,
        page=names.job(page) if page else "",
        begins=begins,
    )
    return dg.Definitions(jobs=jobs, sensors=[sensor])


def _logs(
    declarations: Sequence[TableDeclaration], names: UpkeepNames, keys: ResourceKeys
) -> dg.Definitions:
    """What relays declared tables with a log."""
    tables = [each.table for each in declarations if LOG_SYSTEM in each.options]
    return build_relay(tables, names=names, resources=keys) if tables else dg.Definitions()


def _alerts(tables: KeptTables, warehouse: WarehouseResource, names: UpkeepNames) -> dg.Definitions:
    """The sensor that tells of rejected rows."""
    if not tables.declarations:
        return dg.Definitions()
    return dg.Definitions(sensors=[build_rejection_sensor(tables, warehouse, names=names)])


def _on_request(
    workspace: Workspace, tables: KeptTables, names: UpkeepNames, keys: ResourceKeys
) -> dg.Definitions:
    """The jobs that only a person launches."""
    return dg.Definitions(
        jobs=[
            build_undo_job(tables, names=names, resources=keys),
            build_statements_job(names=names, resources=keys),
            build_replay_rejects_job(workspace, names=names, resources=keys),
        ]
    )


def _shown(
    workspace: Workspace,
    wrong: Mapping[str, WrongDeclaration],
    adopted_tables: Sequence[AdoptedTable],
    tables: KeptTables,
    names: UpkeepNames,
    hooks: AssetHooks,
) -> tuple[dict[str, dg.AssetSpec], dict[str, dg.AssetSpec], UpkeepNames]:
    """By name, the assets of declared tables, and those of adopted ones that are not declared.

    A table whose declaration is wrong has an asset, too.

    The names have the keys of both, and know those of tables that the warehouse gets later.
    """
    policies = tables.files.shown()
    location = DefinitionsLoadContext.get().code_location_name

    def adopted(table: AdoptedTable) -> dg.AssetSpec:
        spec = adopted_spec(table, policies.of(table.table), names, location=location)
        return spec_by_hooks(hooks, ShownTable(spec=spec, adopted=table))

    def key_of_new(table: str) -> dg.AssetKey:
        # What is not kept is no asset of ours, such as the upstream that another project writes.
        is_kept = "." in table and any(fnmatchcase(table, each) for each in tables.adopted)
        return adopted(AdoptedTable(table=table)).key if is_kept else usual_key(table)

    undeclared = {
        each.table: adopted(each)
        for each in adopted_tables
        if each.table not in tables.declarations and each.table not in wrong
    }
    declared = {
        table: spec_by_hooks(
            hooks, ShownTable(spec=wrong_spec(each, table), adopted=AdoptedTable(table=table))
        )
        for table, each in wrong.items()
    }
    declared |= {
        each.table: spec_by_hooks(
            hooks,
            ShownTable(
                spec=derived_spec(each, workspace, names, undeclared, location=location),
                declaration=each,
            ),
        )
        for each in workspace.declarations
    }
    for each in workspace.declarations:
        if each.keeps_rejects:
            rejects = rejects_name(each.table)
            undeclared[rejects] = rejects_spec(
                each, declared[each.table], policies.of(rejects), names, location=location
            )
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
        upkeep=True,
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
