"""Compiled plans: an INSERT or a SELECT with what was pushed into its external tables, as JSON.

A plan holds the statement, the settings, and for each external table its definition and the
abilities that planning applied. Before it is carried out, the definitions must be the same, and the
connectors of that day must still have the abilities; else the statement is to be compiled again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.planning.abilities import AbilitySpec, ability_of
from lakewright.connectors.planning.plan_sink import sink_of
from lakewright.connectors.planning.plan_source import source_of
from lakewright.session.duckdb_query import duck_query, running
from lakewright.session.run_external import planned_insert
from lakewright.session.run_query import FullName
from lakewright.session.settings import Settings
from lakewright.storage.errors import CorruptionError, InvalidStatement, StalePlan
from lakewright.storage.spec.literals import plain
from lakewright.storage.spec.predicate import conjunction
from lakewright.storage.sql import duckdb_filters
from lakewright.storage.sql.grammar.query import Query
from lakewright.storage.sql.grammar.statements import Insert, Select, Statement

_VERSION = 1


@dataclass(frozen=True, slots=True)
class CompiledTable:
    """An external table of a plan; `role` is source or sink."""

    name: str
    role: str
    definition: Mapping[str, Any]
    abilities: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """A statement that was planned."""

    statement: str
    settings: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[CompiledTable, ...] = ()

    def to_json(self) -> str:
        tables = [
            {
                "name": table.name,
                "role": table.role,
                "definition": table.definition,
                "abilities": list(table.abilities),
            }
            for table in self.tables
        ]
        found = {
            "version": _VERSION,
            "statement": self.statement,
            "settings": dict(self.settings),
            "tables": tables,
        }
        return json.dumps(found, indent=2, ensure_ascii=False, default=str)

    @classmethod
    def from_json(cls, text: str) -> CompiledPlan:
        """The plan that `to_json` wrote.

        Raises:
            CorruptionError: the text is none.
        """
        try:
            data = json.loads(text)
            if data["version"] != _VERSION:
                raise ValueError(f"version {data['version']}")
            tables = tuple(
                CompiledTable(
                    str(each["name"]),
                    str(each["role"]),
                    dict(each["definition"]),
                    tuple(dict(ability) for ability in each["abilities"]),
                )
                for each in data["tables"]
            )
            settings = {name: str(value) for name, value in dict(data["settings"]).items()}
            return cls(str(data["statement"]), settings, tables)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(
                f"the compiled plan cannot be read: {error}; compile the statement again"
            ) from error


def compiled(
    externals: ExternalTables,
    statement: Statement,
    text: str,
    settings: Settings,
    full_name: FullName,
) -> CompiledPlan:
    """Plan a statement, without reading or writing a row.

    Raises:
        InvalidStatement: it is no SELECT and no INSERT.
    """
    if not isinstance(statement, (Insert, Select)):
        raise InvalidStatement("SELECT and INSERT can be compiled; run other statements at once")
    tables = [
        *_sources(externals, statement.query, settings, full_name),
        *(_sink(externals, statement, full_name) if isinstance(statement, Insert) else ()),
    ]
    return CompiledPlan(text, settings.values, tuple(tables))


def check_compiled(externals: ExternalTables, plan: CompiledPlan) -> None:
    """Check a plan against the tables and the connectors of now.

    Raises:
        CorruptionError: an ability is of another table.
        StalePlan: a table has another definition.
        UnsupportedError: a connector has an ability no more.
        NotFoundError: a table or a connector is gone.
    """
    for table in plan.tables:
        now = externals.definition(table.name).to_json()
        if json.dumps(now, default=str) != json.dumps(table.definition, default=str):
            raise StalePlan(
                f"{table.name} was changed since the plan was compiled; compile the statement again"
            )
        context = externals.context(table.name)
        found = (source_of if table.role == "source" else sink_of)(context)
        for ability in table.abilities:
            try:
                ability_of(ability, table.name).apply(found, context.table)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise CorruptionError(
                    f"the plan has an ability of {table.name} that is not of this table: "
                    f"{dict(ability)!r:.200}; compile the statement again"
                ) from error


def _sources(
    externals: ExternalTables, query: Query, settings: Settings, full_name: FullName
) -> Iterator[CompiledTable]:
    if query.rows is not None:
        return
    with running(externals.catalog, duck_query(query), settings.database, full_name) as bound:
        for scan in bound.plan.scans():
            scanned = bound.scanned_by(scan)
            if scanned is None or scanned.source.planned is None:
                continue
            where = conjunction(
                tuple(
                    part
                    for text in (*scan.filters, *scan.above)
                    for part in duckdb_filters(text, scanned.fields)
                )
            )
            columns = tuple(
                scanned.columns[column] for column in scan.columns if column in scanned.columns
            )
            name = scanned.source.name
            planned = scanned.source.planned(where, columns)
            yield _table(externals, name, "source", planned.abilities)


def _sink(
    externals: ExternalTables, insert: Insert, full_name: FullName
) -> Iterator[CompiledTable]:
    name = full_name(insert.table)
    if not externals.has(name):
        return
    static = {each: plain(value) for each, value in insert.static}
    planned = planned_insert(externals, name, overwrite=insert.overwrite, partition=static)
    yield _table(externals, name, "sink", planned.abilities)


def _table(
    externals: ExternalTables, name: str, role: str, abilities: tuple[AbilitySpec, ...]
) -> CompiledTable:
    shown = tuple(json.loads(json.dumps(ability.to_json(), default=str)) for ability in abilities)
    return CompiledTable(name, role, externals.definition(name).to_json(), shown)
