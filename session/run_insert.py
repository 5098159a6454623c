"""INSERT INTO and INSERT OVERWRITE: `Table.write` with the rows of a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.connectors.external_tables import ExternalTables
from lakewright.session.insert_columns import filled_columns
from lakewright.session.results import StatementResult, counted, done
from lakewright.session.run_external import planned_insert
from lakewright.session.run_partitions import clause_values
from lakewright.session.run_query import FullName, names_of, on_duckdb, spark_frame
from lakewright.session.settings import SPARK, Settings
from lakewright.storage.catalog import Catalog
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.conform import numbers_of_query
from lakewright.storage.errors import InvalidRequestError, InvalidRows, InvalidStatement
from lakewright.storage.operations.commit.pending import commit_or_abort
from lakewright.storage.operations.format_tables.format_spec import TABLE_TYPES, TYPE_OPTION
from lakewright.storage.rows import Rows, arrow_tables, is_dataframe
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.literals import fitted, plain
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.sql.grammar.spark_query import spark_query
from lakewright.storage.sql.grammar.statements import Insert
from lakewright.storage.table import Table

if TYPE_CHECKING:
    from lakewright.storage.spark import DataFrame


def run_insert(
    catalog: Catalog,
    insert: Insert,
    settings: Settings,
    full_name: FullName,
    commit: tuple[str, int] | None = None,
) -> StatementResult:
    """Write the rows of the query; `full_name` adds the database of the session to a name.

    `commit` is the user and the identifier by which a repeated statement finds its commit.

    Raises:
        InvalidStatement: the columns of the query do not fit the table and the clause.
        InvalidRows: a row does not fit; nothing is written.
        StalePlan: the query reads the table that it replaces, and another commit changed its rows.
    """
    name, externals = full_name(insert.table), ExternalTables(catalog, settings.values)
    if externals.has(name):
        return _into_connector(externals, name, insert, settings, full_name)
    table = catalog.table(name)
    static = clause_values(table, insert.static)
    table.table_files.partitions.stored(
        {name: value for name, value in static.items() if name in table.schema.partition_keys}
    )
    target = _Target(table.name, table.schema, table.table_files.snapshots.latest())
    with _rows(catalog, insert, settings, full_name, target) as rows:
        if table.schema.options.get(TYPE_OPTION) in TABLE_TYPES:
            return _into_folders(catalog, table.name, insert, static, rows, settings, commit)
        return _into_table(table, insert, static, rows, settings, commit)


def _into_table(
    table: Table,
    insert: Insert,
    static: Mapping[str, object],
    rows: _Counted,
    settings: Settings,
    commit: tuple[str, int] | None,
) -> StatementResult:
    covers_all = set(static) == set(table.schema.partition_keys)
    once = replace(table, table_files=table.table_files.reading_once())
    staged = once.stage(
        rows.given,
        mode="overwrite" if insert.overwrite else "append",
        partition=static or None,
        dynamic=None if covers_all or not insert.overwrite else settings.dynamic_overwrite,
        commit_user=None if commit is None else commit[0],
        commit_identifier=None if commit is None else commit[1],
    )
    sources = {each.partition("$")[0] for each in rows.tables}
    replaces_itself = insert.overwrite and table.name.partition("$")[0] in sources
    if replaces_itself:
        base = rows.base
        # The rows were read at this snapshot or a later one.
        staged = replace(
            staged,
            base_snapshot_id=None if base is None else base.id,
            base_commit=None if base is None else base.delta_manifest_list,
        )
    result = commit_or_abort(once.table_files, staged, reads_base=replaces_itself)
    snapshot = None if result.snapshot is None else result.snapshot.id
    ended = ": nothing changed" if snapshot is None else f", snapshot {snapshot}"
    if result.already_committed:
        ended += ", by an earlier try"
    return done(
        f"{rows.said} into {table.name}{ended}",
        table=table.name,
        rows=rows.count,
        snapshot=snapshot,
    )


@dataclass(frozen=True, slots=True)
class _Target:
    """What rows are written into; `base` is the snapshot before that, None of external tables."""

    name: str
    schema: TableSchema
    base: Snapshot | None = None


class _Counted:
    """Rows on their way to a table, counted as they pass; Spark counts none.

    `tables` are those that the query reads, `base` the snapshot of the written table before that.
    """

    def __init__(self, given: Rows, base: Snapshot | None, tables: Sequence[str] = ()) -> None:
        self.count: int | None = None
        self.given = given
        self.base = base
        self.tables = tables

    def over(self, pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
        self.count = 0
        for piece in pieces:
            self.count += piece.num_rows
            yield piece

    @property
    def said(self) -> str:
        if self.count is None:
            return "rows written"
        return f"{counted(self.count, 'row')} written"


@contextmanager
def _rows(
    catalog: Catalog, insert: Insert, settings: Settings, full_name: FullName, table: _Target
) -> Iterator[_Counted]:
    """The rows of the query under the names of the columns that they fill."""
    schema, query, base = table.schema, insert.query, table.base
    if query.rows is not None:
        yield _of_literals(query.rows, insert, table)
        return
    if settings.engine == SPARK:
        parsed = spark_query(query)
        names = names_of(parsed, full_name)
        frame: DataFrame = spark_frame(catalog, parsed, names)
        filled = filled_columns(insert, schema, table.name, len(frame.columns), frame.columns)
        yield _Counted(frame.toDF(*filled), base, tuple(names.values()))
        return
    with on_duckdb(catalog, query, settings, full_name) as running, running.told():
        reader = running.reader()
        said = None if query.is_values else tuple(reader.schema.names)
        filled = filled_columns(insert, schema, table.name, len(reader.schema), said)
        rows = _Counted([], base, running.tables)
        rows.given = rows.over(_pieces(reader, schema.fields_of(filled), table.name))
        yield rows


def _of_literals(given: Sequence[Sequence[object]], insert: Insert, table: _Target) -> _Counted:
    width = len(given[0])
    for at, row in enumerate(given):
        if len(row) != width:
            raise InvalidStatement(
                f"row {at + 1} of VALUES has {len(row)} values, and row 1 has {width}; give each "
                "row the same number, null for none"
            )
    filled = filled_columns(insert, table.schema, table.name, width, None)
    into = table.schema.fields_of(filled)
    rows = _Counted(_all_fitted(given, into), table.base)
    rows.count = len(given)
    return rows


def _all_fitted(
    given: Sequence[Sequence[object]], into: Sequence[DataField]
) -> list[dict[str, object]]:
    return [
        {field.name: _fitted(value, field, at) for field, value in zip(into, row, strict=True)}
        for at, row in enumerate(given, start=1)
    ]


def _fitted(value: object, field: DataField, row: int) -> object:
    """A literal as the Python value that a column takes.

    Raises:
        InvalidRows: it does not fit the column.
    """
    try:
        return fitted(value, field.type)
    except InvalidRequestError as error:
        raise InvalidRows(
            f"row {row}: column {field.name} is {field.type}, and {plain(value)!r} is not: "
            f"{error.__cause__ or error.message}",
            column=field.name,
        ) from error


def _pieces(
    reader: pa.RecordBatchReader, into: Sequence[DataField], table: str
) -> Iterator[pa.Table]:
    """Rows of DuckDB under the names of the columns that they fill."""
    names = [field.name for field in into]
    # A statement without a row is one, too: it may replace a partition by nothing.
    yield to_arrow_schema(into).empty_table()
    for batch in reader:
        columns = [
            numbers_of_query(pa.chunked_array([column]), field, table)
            for column, field in zip(batch.columns, into, strict=True)
        ]
        yield pa.table(columns, names=names)


def _into_connector(
    externals: ExternalTables,
    name: str,
    insert: Insert,
    settings: Settings,
    full_name: FullName,
) -> StatementResult:
    """Rows into an external table, committed by its connector."""
    schema = externals.resolved(name).schema
    static = {each: plain(value) for each, value in insert.static}
    planned = planned_insert(externals, name, overwrite=insert.overwrite, partition=static)
    with _rows(externals.catalog, insert, settings, full_name, _Target(name, schema)) as rows:
        given = rows.given.toArrow() if is_dataframe(rows.given) else rows.given
        count = planned.write(arrow_tables(given, planned.fields))
    return done(f"{counted(count, 'row')} written into {name}", table=name, rows=count)


def _into_folders(
    catalog: Catalog,
    name: str,
    insert: Insert,
    static: Mapping[str, object],
    rows: _Counted,
    settings: Settings,
    commit: tuple[str, int] | None,
) -> StatementResult:
    written = catalog.format_table(name).write(
        rows.given.toArrow() if is_dataframe(rows.given) else rows.given,
        mode="overwrite" if insert.overwrite else "append",
        partition=static or None,
        dynamic=settings.dynamic_overwrite is not False,
        commit_user=None if commit is None else commit[0],
        commit_identifier=None if commit is None else commit[1],
    )
    if written.already_written:
        return done("done by an earlier try", by_earlier_try=True)
    return done(
        f"{counted(written.rows, 'row')} written into {name}, "
        f"{counted(len(written.files), 'file')}",
        table=name,
        rows=written.rows,
        files=len(written.files),
    )
