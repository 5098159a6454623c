"""Tables created, altered, kept and dropped, as calls of the verbs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.managed_life import altered, before_drop, created
from lakewright.session.results import StatementResult, counted, done
from lakewright.session.run_partitions import clause_values
from lakewright.session.settings import Settings
from lakewright.storage.catalog import Catalog
from lakewright.storage.catalog_arguments import split_name, with_defaults
from lakewright.storage.errors import (
    DatabaseNotFound,
    InvalidRequestError,
    InvalidStatement,
    UnsupportedError,
)
from lakewright.storage.operations.format_tables.format_spec import (
    FORMAT_OPTION,
    PATH_OPTION,
    TABLE_TYPES,
    TYPE_OPTION,
    is_format_table,
)
from lakewright.storage.operations.running.verb_options import GRACE_MS
from lakewright.storage.spec.bucketing import BUCKET_OPTIONS, distribution_of
from lakewright.storage.spec.data_types import DataField, quote_name, quote_parts
from lakewright.storage.spec.flink_columns import without_unstored
from lakewright.storage.spec.literals import check_default
from lakewright.storage.spec.log_options import KEPT_LOG, has_log
from lakewright.storage.spec.schema import Column, SchemaSpec
from lakewright.storage.spec.schema_change_text import shown
from lakewright.storage.sql.grammar.statements import (
    AddPrimaryKey,
    AlterDistribution,
    AlterTable,
    Compact,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    Rescale,
    Respec,
)


def create_database(catalog: Catalog, asked: CreateDatabase) -> StatementResult:
    """A database, and the warehouse if it is not there."""
    is_new = not catalog.fs.exists(catalog.root) and not catalog.list_databases()
    catalog.create_database(asked.name, if_not_exists=asked.if_not_exists)
    told = f"database {asked.name} is there"
    if is_new:
        told = f"warehouse {catalog.uri} was not there: it is made, with database {asked.name}"
    return done(told, database=asked.name, warehouse_created=is_new)


def create_table_as(
    catalog: Catalog,
    name: str,
    asked: CreateTable,
    fields: Sequence[DataField],
    pieces: Iterator[pa.Table],
    settings: Settings,
) -> StatementResult:
    """A table with the columns and rows of a query; one that fails leaves no table."""
    keys = {*asked.primary_keys, *_key_option(asked)}
    columns = tuple(
        Column(field.name, field.type if field.name in keys else replace(field.type, nullable=True))
        for field in fields
    )
    # A table that another process makes meanwhile is not filled a second time.
    made_here = replace(asked, columns=columns, if_not_exists=False)
    create_table(catalog, name, made_here, None, settings)
    count = 0

    def passing() -> Iterator[pa.Table]:
        nonlocal count
        for piece in pieces:
            count += piece.num_rows
            yield piece

    table = catalog.table(name)
    try:
        if is_format_table(table.schema):
            catalog.format_table(name).write(passing())
        else:
            table.write(passing())
    except BaseException:
        before_drop(ExternalTables(catalog), name)
        catalog.drop_table(name, grace_ms=0)
        raise
    return done(
        f"{name} is created, with {counted(count, 'row')}", table=name, created=True, rows=count
    )


def _key_option(asked: CreateTable) -> list[str]:
    return dict(asked.options).get("primary-key", "").split(",")


def create_table(
    catalog: Catalog, name: str, asked: CreateTable, like: str | None, settings: Settings
) -> StatementResult:
    """A table, of plain files if its option `type` says so."""
    database = name.partition(".")[0]
    if database not in catalog.list_databases():
        have = ", ".join(catalog.list_databases()) or "none"
        raise DatabaseNotFound(
            f"no database {database}, there are {have}; write CREATE DATABASE {database} before"
        )
    if asked.if_not_exists and catalog.table_exists(name):
        return done(f"{name} exists already", table=name, created=False)
    spec = SchemaSpec(
        columns=asked.columns,
        partition_keys=asked.partition_keys,
        primary_keys=asked.primary_keys,
        options=dict(asked.options),
        comment=asked.comment,
        distribution=asked.distribution,
    )
    if like is not None:
        spec = _like(catalog, like, spec, asked.excluding)
    if spec.options.get(TYPE_OPTION) in TABLE_TYPES:
        return _create_format_table(catalog, name, spec)
    spec = with_defaults(spec, settings.table_options)
    externals = ExternalTables(catalog, settings.values)
    with created(externals, name, spec, temporary=asked.temporary) as spec:
        table = catalog.create_table(
            name, spec, if_not_exists=asked.if_not_exists, temporary=asked.temporary
        )
    return done(f"{name} is created at {table.location}", table=name, created=True)


def _create_format_table(catalog: Catalog, name: str, spec: SchemaSpec) -> StatementResult:
    options = dict(spec.options)
    options.pop(TYPE_OPTION)
    if spec.primary_keys:
        raise InvalidStatement(
            f"{name} is a format table, whose rows have no primary key; leave the key out"
        )
    file_format, location = options.pop(FORMAT_OPTION, "parquet"), options.pop(PATH_OPTION, None)
    created = catalog.create_format_table(
        name, replace(spec, options=options), file_format=file_format, location=location
    )
    return done(f"{name} reads {created.location}", table=name, created=True)


def _like(catalog: Catalog, name: str, own: SchemaSpec, excluding: frozenset[str]) -> SchemaSpec:
    """The columns, keys and options of a table, with those of the statement; its options prevail.

    Raises:
        InvalidStatement: both have keys, partitions or a distribution.
    """
    schema = catalog.table(name).schema
    if schema.options.get(TYPE_OPTION) in TABLE_TYPES:
        raise InvalidStatement(
            f"{name} is a format table, whose files would be those of both; write its columns"
        )
    primary_keys = () if "CONSTRAINTS" in excluding else schema.primary_keys
    partition_keys = () if "PARTITIONS" in excluding else schema.partition_keys
    plain = without_unstored(schema.options).keys()
    # A log is of one table.
    going = {each for each in plain if each.startswith(KEPT_LOG)}
    if "OPTIONS" in excluding:
        going |= plain - BUCKET_OPTIONS
    if "WATERMARKS" in excluding:
        going |= schema.options.keys() - plain
    if "DISTRIBUTION" in excluding or own.distribution or primary_keys != schema.primary_keys:
        going |= BUCKET_OPTIONS
    options = {option: text for option, text in schema.options.items() if option not in going}
    present = None if "DISTRIBUTION" in excluding else distribution_of(schema)
    for part, mine, its in (
        ("CONSTRAINTS", own.primary_keys, primary_keys),
        ("PARTITIONS", own.partition_keys, partition_keys),
        ("DISTRIBUTION", own.distribution, present),
    ):
        if mine and its:
            raise InvalidStatement(
                f"{name} has {part} of its own: leave them out of the statement, or write LIKE "
                f"{name} (EXCLUDING {part})"
            )
    return SchemaSpec(
        columns=(
            *(
                Column(field.name, field.type, field.description, field.default_value)
                for field in schema.fields
            ),
            *own.columns,
        ),
        partition_keys=partition_keys or own.partition_keys,
        primary_keys=primary_keys or own.primary_keys,
        options={**options, **own.options},
        comment=own.comment or schema.comment,
        distribution=own.distribution,
    )


def drop_database(catalog: Catalog, asked: DropDatabase) -> StatementResult:
    """A database, and with CASCADE its tables, one after the other.

    Raises:
        InvalidRequestError: it has tables, and CASCADE is not said; or something else lies in it.
    """
    name = asked.name
    if asked.if_exists and name not in catalog.list_databases():
        return done(f"there is no database {name}", database=name, dropped=False)
    tables = catalog.list_tables(name)
    if tables and not asked.cascade:
        raise InvalidRequestError(
            f"database {name} has {counted(len(tables), 'table')}: {', '.join(tables)}; drop them "
            f"before, or write DROP DATABASE {quote_name(name)} CASCADE, which drops them with "
            "their rows"
        )
    dropped = [each.table for each in catalog.dropped_tables(name)]
    if dropped and not asked.cascade:
        raise InvalidRequestError(
            f"{', '.join(dropped)} can still come back (UNDROP TABLE); write DROP DATABASE "
            f"{quote_name(name)} CASCADE to delete all permanently"
        )
    folders = {each.partition(".")[2] for each in dropped}
    others = sorted({*catalog.list_table_folders(name)} - {*tables} - folders)
    if others:
        raise InvalidRequestError(
            f"in database {name} lie {', '.join(others)}, which are no tables; nothing was "
            "dropped: look at them, and move them elsewhere before"
        )
    stays: list[str] = []
    for table in tables:
        before_drop(ExternalTables(catalog), f"{name}.{table}")
        stays += catalog.drop_table(f"{name}.{table}", grace_ms=0).stays
    catalog.collect_dropped_tables(name, early=True)
    catalog.drop_database(name)
    told = f"database {name} is dropped"
    if gone := [*tables, *sorted(folders)]:
        told += f" permanently, with {', '.join(gone)}"
    if stays:
        told += f"; the files in {', '.join(stays)} stay"
    return done(told, database=name, dropped=True, tables=list(tables), stays=stays)


def drop_table(catalog: Catalog, name: str, asked: DropTable) -> StatementResult:
    """The table with all its own files; those that it took over stay where they lie."""
    is_there = catalog.table_exists(name)
    if not asked.purge and is_there and has_log(catalog.table(name).schema.options):
        raise UnsupportedError(
            f"{name} has a log, and its topic goes with it and cannot come back; write DROP TABLE "
            f"{quote_parts(name)} PURGE, which deletes both permanently"
        )
    before_drop(ExternalTables(catalog), name)
    grace_ms = 0 if asked.purge else GRACE_MS
    dropped = catalog.drop_table(name, if_exists=asked.if_exists, grace_ms=grace_ms)
    if not dropped.existed:
        return done(f"there is no {name}", table=name, dropped=False)
    own = "with its own files" if dropped.stays else "with its files"
    told = f"{name} is dropped permanently, {own}"
    if dropped.grace_ms:
        told = (
            f"{name} is dropped; UNDROP TABLE {quote_parts(name)} brings it back for an hour, with "
            "its rows and history"
        )
    if dropped.stays:
        told += f"; files in {', '.join(dropped.stays)} stay"
    return done(told, table=name, dropped=True, stays=list(dropped.stays))


def undrop_table(catalog: Catalog, name: str) -> StatementResult:
    """The dropped table, the latest of its name, as it was."""
    table = catalog.undrop_table(name)
    told = f"{name} is back, with the columns {', '.join(table.schema.field_names)}"
    others = [each for each in catalog.dropped_tables(split_name(name)[0]) if each.table == name]
    if others:
        told += (
            f"; another one of this name was dropped before: rename this one, then UNDROP TABLE "
            f"{quote_parts(name)} again"
        )
    return done(told, table=name)


def rename_table(catalog: Catalog, name: str, to: str) -> StatementResult:
    """Another name; a metastore moves the files of a managed table."""
    catalog.rename_table(name, to)
    return done(f"{name} is {to} now", table=name, to=to)


def alter_table(catalog: Catalog, name: str, asked: AlterTable) -> StatementResult:
    """All changes by one schema file."""
    table = catalog.table(name)
    for column, value in asked.defaults:
        if column in table.schema.field_names:
            _check_default(table.schema.field(column), value)
    with altered(ExternalTables(catalog), name, asked.changes) as kept:
        schema = table.alter(*kept).schema
    changes = [shown(change) for change in asked.changes]
    return done(
        f"{name}: {'; '.join(changes)}; schema {schema.id}",
        table=name,
        changes=changes,
        schema=schema.id,
    )


def _check_default(field: DataField, value: object) -> None:
    try:
        check_default(value, field.type)
    except InvalidRequestError as error:
        raise InvalidStatement(
            f"the default of {field.name} {field.type} cannot be {value!r}: "
            f"{error.__cause__ or error.message}"
        ) from error


def compact(catalog: Catalog, name: str, asked: Compact) -> StatementResult:
    """Merge the small files of the table, or of the partitions with the values of the spec."""
    table = catalog.table(name)
    partitions = [clause_values(table, asked.spec)] if asked.spec else None
    result = table.upkeep.compact(partitions, full=asked.full)
    before, after = len(result.file_sizes_before), len(result.file_sizes_after)
    if result.snapshot is None:
        return done(f"{name}: nothing to compact", table=name, snapshot=None)
    return done(
        f"{name}: {counted(before, 'file')} became {after}, snapshot {result.snapshot.id}",
        table=name,
        files_before=before,
        files_after=after,
        snapshot=result.snapshot.id,
    )


def rescale(catalog: Catalog, name: str, asked: Rescale) -> StatementResult:
    """Another number of buckets for the table, or for some partitions."""
    table = catalog.table(name)
    partitions = [clause_values(table, asked.spec)] if asked.spec else None
    result = table.upkeep.rescale(asked.buckets, partitions)
    return done(
        f"{name}: {asked.buckets} buckets, {counted(result.partitions, 'partition')} moved",
        table=name,
        buckets=asked.buckets,
        partitions=result.partitions,
    )


def alter_distribution(catalog: Catalog, name: str, asked: AlterDistribution) -> StatementResult:
    """Another distribution, with the rows that are there.

    Raises:
        InvalidStatement: the table has one, and it is added; or has none, and it is changed.
    """
    table = catalog.table(name)
    present = table.distribution
    if asked.verb == "ADD" and present not in (None, asked.distribution):
        raise InvalidStatement(
            f"{name} is distributed {present}; write MODIFY DISTRIBUTION {asked.distribution}"
        )
    if asked.verb != "ADD" and present is None:
        told = "there is none to drop"
        if asked.distribution is not None:
            told = f"write ADD DISTRIBUTION {asked.distribution}"
        raise InvalidStatement(f"{name} is not distributed; {told}")
    altered = table.distribute(asked.distribution)
    told = "by the store's default" if altered.distribution is None else str(altered.distribution)
    return done(f"{name} is distributed {told}", table=name, distribution=told)


def respec(catalog: Catalog, name: str, asked: Respec) -> StatementResult:
    """Other partition keys."""
    catalog.table(name).upkeep.respec(asked.keys)
    keys = catalog.table(name).schema.partition_keys
    return done(f"{name} is partitioned by {', '.join(keys)}", table=name, partition_keys=keys)


def add_primary_key(catalog: Catalog, name: str, asked: AddPrimaryKey) -> StatementResult:
    """A primary key, after all rows were rewritten into buckets."""
    result = catalog.table(name).upkeep.add_primary_key(asked.keys)
    keys = result.schema.primary_keys
    return done(
        f"{name} has the primary key {', '.join(keys)}, with {counted(result.rows, 'row')}",
        table=name,
        primary_key=list(keys),
        rows=result.rows,
    )


def analyze(catalog: Catalog, name: str) -> StatementResult:
    """Statistics of the rows, published with the table."""
    catalog.table(name).upkeep.analyze()
    return done(f"statistics of {name} are computed", table=name)
