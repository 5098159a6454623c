"""Statements on external tables: their definitions, and the rows that connectors give or take.

CREATE, ALTER and DROP change definitions alone. What an external system holds is first looked at by
a query or an INSERT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.model.catalog_table import CONNECTOR, CatalogTable
from lakewright.session.results import StatementResult, counted, done
from lakewright.session.run_look import show_create_table
from lakewright.storage.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    InvalidStatement,
    TableNotFound,
    UnsupportedError,
)
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.flink_columns import unstored_columns, watermark, without_unstored
from lakewright.storage.spec.schema import Column
from lakewright.storage.spec.schema_change import ResetOption, SetOption
from lakewright.storage.sql.grammar.statements import AlterTable, CreateTable, DropDatabase

if TYPE_CHECKING:
    from lakewright.connectors.planning.plan_sink import PlannedSink

_CONNECTORS = (CONNECTOR, "connector.type")


def is_external(asked: CreateTable, externals: ExternalTables, like: str | None) -> bool:
    """Whether a new table has a connector, by its own options or by those that it takes over."""
    if any(name in _CONNECTORS for name, _ in asked.options):
        return True
    return like is not None and "OPTIONS" not in asked.excluding and externals.has(like)


def create(
    externals: ExternalTables, name: str, asked: CreateTable, like: str | None
) -> StatementResult:
    """A definition; nothing of it is looked at."""
    table = _definition(asked)
    if like is not None:
        table = _like(externals, like, table, asked.excluding)
    created = externals.create(
        name, table, if_not_exists=asked.if_not_exists, temporary=asked.temporary
    )
    told = f"{name} is defined, by connector {table.connector}"
    return done(told if created else f"{name} exists already", table=name, created=created)


def create_as(
    externals: ExternalTables,
    name: str,
    asked: CreateTable,
    fields: Sequence[DataField],
    pieces: Iterator[pa.Table],
) -> StatementResult:
    """A definition with the columns of a query, and its rows; one that fails leaves none."""
    columns = tuple(Column(field.name, replace(field.type, nullable=True)) for field in fields)
    create(externals, name, replace(asked, columns=columns), None)
    # A statement that writes nothing plans nothing.
    from lakewright.connectors.planning.plan_sink import (  # noqa: PLC0415
        WriteRequest,
        plan_write,
    )

    try:
        planned = plan_write(externals.context(name), WriteRequest(creates=True))
        count = planned.write(pieces)
    except BaseException:
        externals.drop(name)
        raise
    return done(
        f"{name} is defined, with {counted(count, 'row')}", table=name, created=True, rows=count
    )


def drop(externals: ExternalTables, name: str) -> StatementResult:
    """A definition is forgotten."""
    externals.drop(name)
    return done(f"{name} is dropped; what it describes stays", table=name, dropped=True)


def alter(externals: ExternalTables, name: str, asked: AlterTable) -> StatementResult:
    """Other options.

    Raises:
        UnsupportedError: the statement changes columns.
    """
    options = dict(externals.definition(name).options)
    for change in asked.changes:
        match change:
            case SetOption(name=option, value=value):
                options[option] = value
            case ResetOption(name=option):
                options.pop(option, None)
            case _:
                raise UnsupportedError(
                    f"{name} is an external table, whose options alone can be altered; for other "
                    "columns, DROP it, which leaves its rows, and CREATE it"
                )
    externals.alter(name, options)
    return done(f"{name}: options are changed", table=name)


def rename(externals: ExternalTables, name: str, to: str) -> StatementResult:
    """Another name of a definition."""
    externals.rename(name, to)
    return done(f"{name} is {to} now", table=name, to=to)


def shown(externals: ExternalTables, name: str) -> StatementResult:
    """The statement that makes such a table."""
    found = externals.resolved(name)
    distributed = "" if found.distribution is None else str(found.distribution)
    return show_create_table(name, found.schema, distributed)


def truncate(externals: ExternalTables, name: str) -> StatementResult:
    """Remove all rows, if the connector can.

    Raises:
        UnsupportedError: it cannot.
    """
    from lakewright.connectors.planning.plan_sink import sink_of  # noqa: PLC0415
    from lakewright.connectors.sinks import SupportsTruncate  # noqa: PLC0415

    sink = sink_of(externals.context(name))
    if not isinstance(sink, SupportsTruncate):
        raise UnsupportedError(
            f"{name} ({sink.summary}) cannot be truncated; remove its rows in the external system"
        )
    sink.truncate()
    return done(f"all rows of {name} removed", table=name)


def planned_insert(
    externals: ExternalTables, name: str, *, overwrite: bool, partition: dict[str, object]
) -> PlannedSink:
    """What takes the rows of an INSERT."""
    from lakewright.connectors.planning.plan_sink import (  # noqa: PLC0415
        WriteRequest,
        plan_write,
    )

    request = WriteRequest(overwrite=overwrite, partition=partition)
    return plan_write(externals.context(name), request)


def check_free(externals: ExternalTables, name: str) -> None:
    """Refuse the name of an external table for a managed one.

    Raises:
        AlreadyExistsError: there is an external table of this name.
    """
    if externals.has(name):
        raise AlreadyExistsError(f"{name} is an external table; DROP it before")


def check_no_definitions(externals: ExternalTables, database: str, asked: DropDatabase) -> None:
    """Refuse to drop a database with external tables, if CASCADE is not said.

    Raises:
        InvalidRequestError: there are some.
    """
    names = externals.names(database)
    if names and not asked.cascade:
        raise InvalidRequestError(
            f"database {database} has external tables: {', '.join(names)}; drop them before, or "
            f"write DROP DATABASE {database} CASCADE, which drops their definitions"
        )


def drop_definitions(externals: ExternalTables, database: str) -> None:
    """Forget the external tables of a database that is gone."""
    for name in externals.names(database):
        externals.drop(f"{database}.{name}")


def check_managed(externals: ExternalTables, name: str, what: str) -> None:
    """Refuse a statement that needs files of a table.

    Raises:
        UnsupportedError: the table is external.
    """
    if externals.has(name):
        raise UnsupportedError(
            f"{name} is an external table, which takes SELECT, INSERT, TRUNCATE, ALTER … SET, "
            f"RENAME and DROP; {what} is of managed tables"
        )


def _definition(asked: CreateTable) -> CatalogTable:
    options = dict(asked.options)
    return CatalogTable(
        columns=asked.columns,
        unstored=unstored_columns(options),
        watermark=watermark(options),
        partition_keys=asked.partition_keys,
        primary_keys=asked.primary_keys,
        options=without_unstored(options),
        comment=asked.comment,
        distribution=asked.distribution,
    )


def _like(
    externals: ExternalTables, like: str, own: CatalogTable, excluding: frozenset[str]
) -> CatalogTable:
    """The columns, keys and options of a table, with those of the statement, which prevail."""
    is_external = externals.has(like)
    definition = externals.definition(like) if is_external else _of_managed(externals, like)
    options = {} if "OPTIONS" in excluding else dict(definition.options)
    return replace(
        definition,
        primary_keys=own.primary_keys
        or (() if "CONSTRAINTS" in excluding else definition.primary_keys),
        partition_keys=own.partition_keys
        or (() if "PARTITIONS" in excluding else definition.partition_keys),
        distribution=own.distribution
        or (None if "DISTRIBUTION" in excluding else definition.distribution),
        options={**options, **own.options},
        comment=own.comment or definition.comment,
        columns=(*definition.columns, *own.columns),
    )


def _of_managed(externals: ExternalTables, name: str) -> CatalogTable:
    if not externals.catalog.table_exists(name):
        raise TableNotFound(f"no table {name}")
    schema = externals.catalog.table(name).schema
    if unstored_columns(schema.options):
        raise InvalidStatement(f"{name} has computed columns; write the columns of the table")
    columns = (
        Column(field.name, field.type, field.description, field.default_value)
        for field in schema.fields
    )
    # Options of managed tables mean nothing to a connector.
    return CatalogTable(
        columns=tuple(columns),
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
        comment=schema.comment,
    )
