"""The schema sensor: proposes on assets what an edited declaration would change in its table.

A tick compares, for each table, the id of its schema and a digest of its declaration with what was
compared before. If one of them changed, the sensor evaluates the check `schema_matches` and reports
it without a run, with an observation that carries the plan. The job `evolve_schema` carries it out.
It evaluates again if the last result of the check is about another schema or declaration: a run
that began before the change may report later.

After a change of the partition keys, here or by another process, the sensor makes the partitions of
the asset those of the table (`follow_table.py`).

The cursor is one digest of all tables; what each was compared with is kept in the process. After a
restart with another digest all tables are compared again, so many in a tick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import dagster as dg

from lakewright.platform.orchestration.check_events import last_evaluation
from lakewright.platform.orchestration.follow_table import follow_table
from lakewright.platform.orchestration.names import AssetKeys, UpkeepNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.schema_reports import (
    COMPARED,
    ask_gate,
    compared,
    evaluate_schema,
)
from lakewright.platform.tables.declaration_checks import SCHEMA_MATCHES
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.schema_drift import schema_drift
from lakewright.platform.tables.workspace import Workspace
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StorageError, TableNotFound

_INTERVAL_SECONDS = 60
_MOST_TABLES = 50

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation


def build_schema_sensor(
    workspace: Workspace,
    declarations: Sequence[TableDeclaration],
    *,
    names: UpkeepNames | None = None,
    resources: ResourceKeys | None = None,
    most_tables: int = _MOST_TABLES,
) -> dg.SensorDefinition:
    """The sensor of tables whose columns are declared; a tick reads their latest schema files."""
    keys, names = resources or ResourceKeys(), names or UpkeepNames()
    asset_keys = names.keys
    comparison = _Comparison(
        workspace, {declaration.table: declaration for declaration in declarations}, names
    )

    @dg.sensor(
        name=names.schema_sensor,
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={keys.warehouse},
        description="Shows what makes tables as declared, whenever that changes.",
    )
    def schema_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        tables = comparison.present(context, warehouse.catalog())
        now = {
            name: compared(comparison.declarations[name], tables[name].schema.id) for name in tables
        }
        digest = _digest(now)
        if not comparison.seen and digest == context.cursor:
            comparison.seen.update(now)
        last = _last_compared(context.instance, tables, asset_keys)
        changed = [
            name
            for name in tables
            if now[name] != comparison.seen.get(name) or now[name] != last[name]
        ]
        events: list[Event] = []
        for name in changed[:most_tables]:
            try:
                events += comparison.events(context, tables[name], now[name], last[name])
            except StorageError as error:
                # It is compared again at the next tick, and keeps no other table from it.
                context.log.warning("%s: %s", name, error)
                comparison.seen.pop(name, None)
        done = len(changed) <= most_tables and comparison.seen.keys() >= tables.keys()
        told = f"{counted(len(tables), 'table')} compared: nothing changed"
        if changed:
            told = f"{counted(len(changed), 'table')} of {len(tables):,} compared again"
        return dg.SensorResult(
            asset_events=events, skip_reason=told, cursor=digest if done else context.cursor
        )

    return schema_sensor


@dataclass(slots=True)
class _Comparison:
    """Declarations and their tables; `seen` is what was compared in this process, by table."""

    workspace: Workspace
    declarations: Mapping[str, TableDeclaration]
    names: UpkeepNames
    seen: dict[str, str] = field(default_factory=dict)

    def present(self, context: dg.SensorEvaluationContext, catalog: Catalog) -> dict[str, Table]:
        """The declared tables that exist and can be opened."""
        found = {}
        for name in sorted(self.declarations):
            try:
                found[name] = catalog.table(name)
            except TableNotFound:
                self.seen.pop(name, None)
            except StorageError as error:
                context.log.warning("%s: %s", name, error)
        return found

    def events(
        self, context: dg.SensorEvaluationContext, table: Table, now: str, last: str | None
    ) -> list[Event]:
        """What is reported of a table that changed, or whose last result is about another state."""
        declaration, instance = self.declarations[table.name], context.instance
        names = self.names.of(table.name)
        drift = schema_drift(declaration, table)
        answer = ask_gate(self.workspace, declaration, names, table, drift, instance)
        file = self.workspace.file_of(table.name)
        found = evaluate_schema(declaration, names, drift, answer, file=file)
        events: list[Event] = []
        if drift or now != last:
            events.append(found.event(names))
        # A result that only comes again proposes nothing new.
        if drift and now != self.seen.get(table.name):
            events.append(found.observation(names, table))
        followed = follow_table(declaration, names, table, instance)
        for told in followed.warnings:
            context.log.warning("%s: %s", table.name, told)
        self.seen[table.name] = now
        return [*events, *followed.events]


def _digest(compared_now: Mapping[str, str]) -> str:
    lines = "\n".join(f"{name} {compared_now[name]}" for name in sorted(compared_now))
    return blake2b(lines.encode(), digest_size=8).hexdigest()


def _last_compared(
    instance: dg.DagsterInstance, tables: Mapping[str, Table], keys: AssetKeys
) -> dict[str, str | None]:
    """What the last result of the check compared, by table."""
    storage = instance.event_log_storage
    by_name = {name: dg.AssetCheckKey(keys.of(name), SCHEMA_MATCHES) for name in tables}
    latest = storage.get_latest_asset_check_execution_by_key([*by_name.values()])
    found: dict[str, str | None] = {}
    for name, key in by_name.items():
        record = latest.get(key)
        evaluation = None if record is None else record.evaluation
        if record is not None and not isinstance(evaluation, dg.AssetCheckEvaluation):
            # A run that is under way or queued has planned the check: Dagster gives what it
            # planned in place of a result. The result before it still holds.
            evaluation = last_evaluation(instance, key)
        told = None if evaluation is None else evaluation.metadata.get(COMPARED)
        found[name] = told.value if isinstance(told, dg.TextMetadataValue) else None
    return found
