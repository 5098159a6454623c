"""SHOW and DESCRIBE, from metadata."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from lakewright.connectors.external_tables import ExternalTables
from lakewright.session.results import StatementResult, table_of
from lakewright.session.run_partitions import clause_text, clause_values, is_format_table
from lakewright.storage.catalog import Catalog
from lakewright.storage.codec.default_values import unquoted
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.operations.state.table_stats import PartitionStats
from lakewright.storage.secret_texts import shown_options
from lakewright.storage.spec.data_types import DataField, quote_name
from lakewright.storage.spec.flink_columns import (
    UnstoredColumn,
    unstored_columns,
    watermark,
    without_unstored,
)
from lakewright.storage.spec.log_options import as_written
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.sql.grammar.statements import Describe, ShowTables
from lakewright.storage.sql.grammar.unstored_columns import type_of
from lakewright.storage.table import Table

_COUNTS = {
    "partitions": "BIGINT",
    "buckets": "BIGINT",
    "files": "BIGINT",
    "small_files": "BIGINT",
    "rows_in_files": "BIGINT",
    "bytes": "BIGINT",
    "last_file": "STRING",
}


def show_databases(catalog: Catalog) -> StatementResult:
    """Names of databases."""
    return table_of({"database": "STRING"}, [(name,) for name in catalog.list_databases()])


def show_tables(
    externals: ExternalTables, databases: Sequence[str], asked: ShowTables
) -> StatementResult:
    """Tables of databases, or what each of them holds; external ones hold nothing."""
    catalog = externals.catalog
    names = [
        (database, each)
        for database in databases
        for each in catalog.list_tables(database)
        if _is_like(each, asked.pattern)
    ]
    if not asked.extended:
        names += [
            (database, name)
            for database in databases
            for name in externals.names(database)
            if _is_like(name, asked.pattern)
        ]
        names = sorted({*names})
        return table_of({"database": "STRING", "table": "STRING"}, names)
    rows = []
    for database, each in names:
        table = catalog.table(f"{database}.{each}")
        schema = table.schema
        if not dict(asked.spec).keys() <= set(schema.partition_keys):
            # The clause names partitions that such a table cannot have.
            continue
        rows.append(
            (
                each,
                table.location,
                ", ".join(schema.partition_keys),
                ", ".join(schema.primary_keys),
                *_counted(table, clause_values(table, asked.spec)),
            )
        )
    return table_of(
        {
            "table": "STRING",
            "location": "STRING",
            "partition_columns": "STRING",
            "primary_key": "STRING",
            **_COUNTS,
        },
        rows,
    )


def show_columns(schema: TableSchema) -> StatementResult:
    """Names of columns, in the order of the table."""
    return table_of({"column": "STRING"}, [(field_name,) for field_name in schema.field_names])


def _is_like(name: str, pattern: str | None) -> bool:
    """Whether a pattern matches a name: `*` is any text, `|` separates patterns."""
    if pattern is None:
        return True
    # Hive writes `*`, and SQL elsewhere `%`.
    parts = pattern.replace("%", "*").replace("[", "[[]").split("|")
    return any(fnmatchcase(name, part) for part in parts)


def _counted(table: Table, spec: dict[str, object]) -> Sequence[object]:
    """What lies in the partitions that have the values of `spec`."""
    if is_format_table(table):
        return [None] * len(_COUNTS)
    return _sums(table.at().partitions(named=[spec] if spec else None))


def _sums(found: Iterable[PartitionStats]) -> Sequence[object]:
    stats = tuple(found)
    created = [each.last_file_creation_ms for each in stats if each.last_file_creation_ms]
    return (
        len(stats),
        sum(len(each.buckets) for each in stats),
        sum(each.file_count for each in stats),
        sum(each.small_file_count for each in stats),
        sum(each.row_count for each in stats),
        sum(each.size_bytes for each in stats),
        _time(max(created)) if created else None,
    )


def _time(millis: int) -> str:
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC).isoformat(" ", "seconds")


# --- describe ---------------------------------------------------------------------------------


def describe(catalog: Catalog, name: str, asked: Describe) -> StatementResult:
    """Columns; with `extended` keys, options and contents too; contents alone with `detail`."""
    table = catalog.table(name)
    spec = clause_values(table, asked.spec or ())
    table.table_files.partitions.stored(spec)
    if asked.detail:
        return _detail(table, spec)
    schema = table.schema
    if asked.column is not None:
        return _column(table, schema.field(asked.column), extended=asked.extended)
    if not asked.extended and asked.spec is None:
        return columns_of(schema)
    rows: list[tuple[str, str, object]] = [
        ("column", field.name, field.type) for field in schema.fields
    ]
    rows += [
        ("partition column", partition_field.name, partition_field.type)
        for partition_field in schema.partition_fields
    ]
    rows += [
        ("table", "name", table.name),
        ("table", "location", table.location),
        ("table", "comment", schema.comment),
        ("table", "primary key", ", ".join(schema.primary_keys)),
        ("table", "distribution", "" if is_format_table(table) else table.distribution),
        ("table", "schema", schema.id),
    ]
    rows += [("option", *each) for each in sorted(shown_options(schema.options).items())]
    part = f"partition ({clause_text(spec)})" if spec else "contents"
    rows += [
        (part, each.replace("_", " "), value)
        for each, value in zip(_COUNTS, _counted(table, spec), strict=True)
    ]
    return _facts(rows)


def columns_of(schema: TableSchema) -> StatementResult:
    """The stored columns of a table."""
    return table_of(
        {
            "column": "STRING",
            "type": "STRING",
            "nullable": "BOOLEAN",
            "key": "STRING",
            "default": "STRING",
            "comment": "STRING",
        },
        [
            (
                field.name,
                _type_text(field),
                field.type.nullable,
                _key(field.name, schema),
                field.default_value,
                field.description,
            )
            for field in schema.fields
        ],
    )


def _facts(rows: Sequence[tuple[str, str, object]]) -> StatementResult:
    return table_of(
        {"part": "STRING", "name": "STRING", "value": "STRING"},
        [(part, name, None if value in (None, "") else str(value)) for part, name, value in rows],
    )


def _detail(table: Table, spec: dict[str, object]) -> StatementResult:
    """Partitions and buckets; with `spec`, or in a table without partitions, files too."""
    if is_format_table(table):
        raise UnsupportedError(
            f"{table.name} is a table of plain files without metadata; SHOW PARTITIONS lists its "
            "folders"
        )
    is_small = bool(spec) or not table.schema.partition_keys
    rows = table.at().detail(named=[spec] if spec else None, files=is_small, name=clause_text)
    texts = ("partition", "file", "last_file")
    kinds = {
        column_name: "STRING" if column_name in texts else "BIGINT"
        for column_name in rows.column_names
    }
    return table_of(kinds, [tuple(each.values()) for each in rows.to_pylist()])


def _column(table: Table, field: DataField, *, extended: bool) -> StatementResult:
    rows: list[tuple[str, str, object]] = [
        ("column", "name", field.name),
        ("column", "type", _type_text(field)),
        ("column", "nullable", "yes" if field.type.nullable else "no"),
        ("column", "key", _key(field.name, table.schema)),
        ("column", "default", field.default_value),
        ("column", "comment", field.description),
    ]
    known = table.at().statistics() if extended and not is_format_table(table) else None
    columns = () if known is None else known.columns
    stats = next((column for column in columns if column.field_id == field.id), None)
    if stats is not None:
        rows += [
            ("statistics", name.replace("_", " "), getattr(stats, name))
            for name in ("distinct_count", "null_count", "minimum", "maximum")
        ]
    return _facts(rows)


def _type_text(field: DataField) -> str:
    return str(field.type).removesuffix(" NOT NULL")


def _key(name: str, schema: TableSchema) -> str:
    kinds = (("primary", schema.primary_keys), ("partition", schema.partition_keys))
    return ", ".join(kind for kind, keys in kinds if name in keys)


# --- show create table --------------------------------------------------------------------------


def show_create_table(name: str, schema: TableSchema, distributed: str = "") -> StatementResult:
    """The statement that makes such a table."""
    return table_of({"statement": "STRING"}, [(create_text(name, schema, distributed),)])


def create_text(name: str, schema: TableSchema, distributed: str = "") -> str:
    """`CREATE TABLE …` with the columns, keys, comment and options of a table.

    `distributed` is what follows DISTRIBUTED, where no option says it. A secret that a table of
    before keeps in an option is not shown.
    """
    columns = [_column_text(field) for field in schema.fields]
    types = {field.name: str(field.type) for field in schema.fields}
    for unstored in unstored_columns(schema.options):
        columns.insert(unstored.index, _unstored_text(unstored, types))
    lines = [f"  {column}" for column in columns]
    if (mark := watermark(schema.options)) is not None:
        lines.append(f"  WATERMARK FOR {quote_name(mark.column)} AS {mark.expression}")
    if schema.primary_keys:
        lines.append(f"  PRIMARY KEY ({_names(schema.primary_keys)}) NOT ENFORCED")
    database, _, short = name.partition(".")
    text = (
        f"CREATE TABLE {quote_name(database)}.{quote_name(short)} (\n" + ",\n".join(lines) + "\n)"
    )
    if schema.comment:
        text += f"\nCOMMENT {_quoted(schema.comment)}"
    if distributed:
        text += f"\nDISTRIBUTED {distributed}"
    if schema.partition_keys:
        text += f"\nPARTITIONED BY ({_names(schema.partition_keys)})"
    if options := shown_options(as_written(without_unstored(schema.options))):
        pairs = [f"  {_quoted(name)} = {_quoted(value)}" for name, value in sorted(options.items())]
        text += "\nWITH (\n" + ",\n".join(pairs) + "\n)"
    return text


def _column_text(field: DataField) -> str:
    text = f"{quote_name(field.name)} {field.type}"
    if field.default_value is not None:
        text += f" DEFAULT {_quoted(unquoted(field.default_value))}"
    return text if field.description is None else f"{text} COMMENT {_quoted(field.description)}"


def _unstored_text(column: UnstoredColumn, types: dict[str, str]) -> str:
    """A column as Flink declares it, with its type where the expression alone does not tell it."""
    name = quote_name(column.name)
    if column.expression is None:
        told = f"{name} {column.type} METADATA FROM {_quoted(column.metadata or column.name)}"
        return f"{told} VIRTUAL" if column.virtual else told
    kind = "" if type_of(column.expression, types) == column.type else f"{column.type} "
    return f"{name} {kind}AS {column.expression}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quote_name, names))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
