"""Statements that follow sources without end: SELECT as a view that updates, INSERT by batches.

They run with `SET 'execution.runtime-mode' = 'streaming'`, until the source ends or the statement
is interrupted. A query follows one table: the one without an end, or the first that it names, whose
rows come before its changes. Other tables are read again for each batch.

* A SELECT keeps the rows of its source in memory, carries out changes, and answers again after each
  batch.
* An INSERT runs its query on each batch alone, so the query must work row by row. Of tables that it
  joins by keys, a batch reads the rows of its keys where their sources can look them up
  (`joined_by_key.py`). It may be started again with the setting `stream.checkpoint`, and then goes
  on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import pyarrow as pa

from lakewright.connectors.changes import net_rows
from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.factories import Context
from lakewright.connectors.planning.plan_sink import PlannedSink, WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import (
    PlannedScan,
    ScanRequest,
    plan_scan,
    source_of,
)
from lakewright.connectors.sources import ScanTableSource
from lakewright.connectors.stream import follow, run_stream
from lakewright.session.duckdb_query import (
    DuckQuery,
    RunningQuery,
    duck_query,
    running,
    shown_rows,
    with_column,
)
from lakewright.session.insert_columns import filled_columns
from lakewright.session.joined_by_key import LookedUp, key_joins
from lakewright.session.query_source import Source
from lakewright.session.results import StatementResult, counted, done
from lakewright.session.run_query import FullName
from lakewright.session.settings import Settings
from lakewright.storage.errors import InvalidStatement, UnsupportedError
from lakewright.storage.spec.data_types import STRING, DataField
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.sql.grammar.query import Query
from lakewright.storage.sql.grammar.spark_query import spark_query
from lakewright.storage.sql.grammar.statements import Insert

# Operators of DuckDB that look at more than one row.
_OF_MANY_ROWS = ("AGGREGATE", "GROUP", "ORDER", "TOP_N", "WINDOW", "LIMIT", "DISTINCT", "SAMPLE")


def followed_table(
    externals: ExternalTables, query: Query, full_name: FullName, *, in_spark: bool
) -> str | None:
    """The table that a query follows: one without an end, or else the first of the warehouse.

    None if there is neither. The text is read as Spark or as this process does.

    Raises:
        UnsupportedError: several have no end.
    """
    if query.rows is not None:
        return None
    names = dict.fromkeys(map(full_name, _named(query, in_spark=in_spark)))
    endless = [name for name in names if externals.has(name) and _has_no_end(externals, name)]
    if len(endless) > 1:
        raise UnsupportedError(
            f"{' and '.join(endless)} have no end, and a statement follows one of such tables; "
            "write the rows of the others into a table first"
        )
    if endless:
        return endless[0]
    own = (name for name in names if not externals.has(name) and "$" not in name)
    return next((name for name in own if externals.catalog.table_exists(name)), None)


def _named(query: Query, *, in_spark: bool) -> Sequence[str]:
    if in_spark:
        return spark_query(query).tables
    asked = duck_query(query)
    return [
        table.said
        for table in asked.tables
        if table.table.lower() not in asked.maybe and table.database not in asked.timed.databases
    ]


def _has_no_end(externals: ExternalTables, name: str) -> bool:
    context = externals.context(name)
    if not isinstance(source_of(context), ScanTableSource):
        # It is looked up, and not read.
        return False
    return not plan_scan(context, ScanRequest()).runtime.is_bounded


def _context(externals: ExternalTables, name: str) -> Context:
    return externals.context(name) if externals.has(name) else externals.managed_context(name)


def follow_query(
    externals: ExternalTables, query: Query, settings: Settings, full_name: FullName, endless: str
) -> Iterator[StatementResult]:
    """The answer to a query after each batch of its source."""
    planned = plan_scan(_context(externals, endless), ScanRequest())
    asked, rows = duck_query(query), planned.given.schema.empty_table()
    for batch in follow(planned, externals.catalog.env):
        rows = pa.concat_tables([rows, batch])
        if planned.given.changes:
            rows = net_rows([rows], planned.given.schema, planned.table)
        held = _of_rows(planned, rows)
        with _bound(externals, asked, settings, full_name, {endless: held}) as bound:
            reader = bound.reader()
            with bound.told():
                fields, answer = shown_rows(reader.read_all())
        yield StatementResult(fields=fields, rows=answer)


def follow_into(
    externals: ExternalTables,
    insert: Insert,
    settings: Settings,
    full_name: FullName,
    endless: str,
) -> Iterator[StatementResult]:
    """Carry the rows of a source into a table, and tell each batch.

    Raises:
        InvalidStatement: the query looks at more than one row at a time.
        UnsupportedError: the statement overwrites, or the sink does not take such rows.
    """
    if insert.overwrite:
        raise UnsupportedError(
            f"{endless} has no end, and INSERT OVERWRITE replaces rows by all rows of a query; "
            "write INSERT INTO"
        )
    target = full_name(insert.table)
    scan = plan_scan(_context(externals, endless), ScanRequest())
    sink = plan_write(
        _context(externals, target), WriteRequest(mode=scan.mode, source_name=endless)
    )
    asked, joined = _row_by_row(externals, insert.query, settings, full_name, endless, scan)
    transform = _transform(externals, asked, joined, insert, settings, full_name, scan, sink)
    batches = run_stream(
        scan, sink, externals.catalog.env, checkpoint=settings.checkpoint, transform=transform
    )
    total = 0
    for batch in batches:
        total += batch.rows
        yield done(
            f"{counted(batch.rows, 'row')} written into {target}, batch {batch.number}",
            table=target,
            rows=batch.rows,
            batch=batch.number,
        )
    yield done(f"{endless} has ended: {counted(total, 'row')} written into {target}", rows=total)


def _row_by_row(
    externals: ExternalTables,
    query: Query,
    settings: Settings,
    full_name: FullName,
    endless: str,
    scan: PlannedScan,
) -> tuple[DuckQuery, Sequence[LookedUp]]:
    """The query, which gives the kind of each row too if the source gives changes.

    With it come the tables that are joined with the source by keys.

    Raises:
        InvalidStatement: it looks at more than one row.
    """
    asked = duck_query(query)
    empty = _of_rows(scan, scan.given.schema.empty_table())
    with _bound(externals, asked, settings, full_name, {endless: empty}) as bound:
        found = next(
            (
                line.strip()
                for line in bound.plan.lines()
                if any(word in line.split()[0].upper() for word in _OF_MANY_ROWS)
            ),
            None,
        )
        joins = key_joins(bound, full_name, endless)
    if found is not None:
        raise InvalidStatement(
            f"{endless} has no end, and the query looks at several of its rows at once "
            f"({found}); INSERT its rows INTO a table, and query that one, or SELECT it"
        )
    types = {field.name: field.type for field in scan.given.fields}
    joined = [LookedUp(externals, join, types) for join in joins]
    return (_with_kinds(asked, query) if scan.given.changes else asked), joined


def _with_kinds(asked: DuckQuery, query: Query) -> DuckQuery:
    """The query with `_rowkind` behind its columns.

    Raises:
        InvalidStatement: it is more than a SELECT of columns from one table.
    """
    node = asked.node
    is_plain = node.get("type") == "SELECT_NODE"
    if not is_plain or node["from_table"]["type"] not in ("BASE_TABLE", "JOIN"):
        query.refuse(
            0,
            "rows that change are followed by SELECT … FROM a table, or joins of tables; INSERT "
            "them INTO a table with a primary key, and query that one",
        )
    if any(each.get("class") == "STAR" for each in node["select_list"]):
        return asked
    return with_column(asked, ROW_KIND_COLUMN)


def _transform(
    externals: ExternalTables,
    asked: DuckQuery,
    joined: Sequence[LookedUp],
    insert: Insert,
    settings: Settings,
    full_name: FullName,
    scan: PlannedScan,
    sink: PlannedSink,
) -> Callable[[pa.Table], pa.Table]:
    schema = sink.table.schema

    def transform(rows: pa.Table) -> pa.Table:
        read = (_of_rows(scan, rows), *(each.source(rows) for each in joined))
        given = {each.name: each for each in read if each is not None}
        with _bound(externals, asked, settings, full_name, given) as bound:
            reader = bound.reader()
            with bound.told():
                found = reader.read_all()
        kinds = None
        if scan.given.changes:
            kinds = found.column(ROW_KIND_COLUMN)
            found = found.drop_columns([ROW_KIND_COLUMN])
        names = filled_columns(
            insert, schema, sink.table.name, found.num_columns, found.column_names
        )
        found = found.rename_columns(list(names))
        for name, value in insert.static:
            found = found.append_column(name, pa.array([value] * found.num_rows))
        return found if kinds is None else found.append_column(ROW_KIND_COLUMN, kinds)

    return transform


def _bound(
    externals: ExternalTables,
    asked: DuckQuery,
    settings: Settings,
    full_name: FullName,
    given: Mapping[str, Source],
) -> AbstractContextManager[RunningQuery]:
    return running(externals.catalog, asked, settings.database, full_name, given)


def _of_rows(planned: PlannedScan, rows: pa.Table) -> Source:
    """Rows in memory as the table of a query."""
    fields = planned.given.fields
    if planned.given.changes:
        number = max((field.id for field in fields), default=0) + 1
        fields = (*fields, DataField(number, ROW_KIND_COLUMN, STRING))
    base = planned.table.schema
    schema: TableSchema = replace(base, fields=fields)

    def pieces(_: Predicate | None, columns: Sequence[str]) -> Iterator[pa.Table]:
        yield rows.select(list(columns))

    return Source(planned.table.name, schema, pieces)
