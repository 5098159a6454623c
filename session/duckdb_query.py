"""Queries on DuckDB: its SQL over tables of the warehouse, and over nothing else.

1. DuckDB's parser says which tables the text names; moments behind tables are taken out before.
2. Each table becomes a view over a scan, under the name that the query gives it.
3. DuckDB binds, optimises and runs the query; its scans read tables with the columns and filters
   that it pushes down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NoReturn

import pyarrow as pa

from lakewright.connectors.external_tables import ExternalTables
from lakewright.session.external_source import external_source
from lakewright.session.pushed_down import aggregated, is_of_one_table, is_of_rows, limited
from lakewright.session.query_source import (
    ScannedTable,
    Source,
    check_names,
    source_of,
)
from lakewright.storage.catalog import Catalog
from lakewright.storage.codec.arrow_types import columns_from_arrow
from lakewright.storage.errors import (
    InvalidSchema,
    InvalidStatement,
    UnsupportedError,
)
from lakewright.storage.extras import needed_for
from lakewright.storage.operations.row_changes.expressions import (
    LOCKED,
    cut_digits,
    parsed_sql,
    sql_of,
    tree_nodes,
)
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.flink_columns import unstored_columns
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.sql import duckdb_filters
from lakewright.storage.sql.grammar.moments import Moment, TimedText, with_moments
from lakewright.storage.sql.grammar.query import Query
from lakewright.storage.sql.grammar.unstored_columns import duckdb_expression

with needed_for("SQL on DuckDB"):
    import duckdb

    from lakewright.session.duckdb_plan import DuckPlan, PlannedScan, plan_of

_SHARE_OF_MEMORY = "60%"
_TO_SPARK = "or let Spark run it: SET 'query.engine' = 'spark'"


# A column of a scan in a text of DuckDB.
COLUMN = re.compile(r'"?\b(c(\d+)_\d+)\b"?')


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as a query names it: `database` is empty if it says none."""

    database: str
    table: str

    @property
    def said(self) -> str:
        return f"{self.database}.{self.table}" if self.database else self.table


@dataclass(frozen=True, slots=True)
class DuckQuery:
    """A query whose text DuckDB can parse, and the tables that it names.

    `tables` are in the order of the text. `maybe` are names of the query's own parts, under which
    it may name tables, too.
    """

    query: Query
    timed: TimedText
    tables: tuple[TableName, ...]
    maybe: frozenset[str]
    # The statement as DuckDB parses it.
    node: Mapping[str, Any]

    def without_moment(self, name: TableName) -> tuple[TableName, Moment | None]:
        """A table without the moment behind it, and the moment; None if it is now."""
        database, moment = self.timed.databases.get(name.database, (name.database, None))
        of_now = moment is None or bool(moment.of_row)
        return TableName(database, name.table), None if of_now else moment

    def refuse(self, error: str, offset: int | None) -> NoReturn:
        """Refuse the query at a place of the text that DuckDB reads.

        Raises:
            InvalidStatement: always.
        """
        self.query.refuse(self.timed.offset_before(offset or 0), error)


def with_column(asked: DuckQuery, column: str) -> DuckQuery:
    """A SELECT with a column of its tables behind its own."""
    tree = parsed_sql(asked.timed.text)
    node = tree["statements"][0]["node"]
    named = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "query_location": 0}
    node["select_list"].append({**named, "column_names": [column]})
    return replace(asked, timed=replace(asked.timed, text=sql_of(tree), edits=()), node=node)


@lru_cache(maxsize=32)
def duck_query(query: Query) -> DuckQuery:
    """The query as DuckDB reads it.

    Raises:
        InvalidStatement: it cannot be parsed, or names what is no table here.
    """
    try:
        query.text.encode()
    except UnicodeEncodeError as error:
        query.refuse(error.start, "half of a surrogate pair is no text")
    timed = with_moments(query)
    tree = parsed_sql(timed.text)
    if tree["error"]:
        offset = _characters(timed.text, int(tree.get("position") or 0))
        query.refuse(
            timed.offset_before(offset), f"the query cannot be parsed: {tree['error_message']}"
        )
    if len(tree["statements"]) != 1:
        query.refuse(0, "expected one query: SELECT … or VALUES (…), (…)")
    if cut := cut_digits(tree_nodes(tree)):
        why, place = cut
        query.refuse(timed.offset_before(_characters(timed.text, place)), why)
    tables: dict[int, TableName] = {}
    own: set[str] = set()
    for node in tree_nodes(tree):
        if node.get("type") == "BASE_TABLE":
            _check_parts(node, query, timed)
            place = int(node["query_location"])
            tables[place] = TableName(node["schema_name"], node["table_name"])
        own |= {each["key"].lower() for each in node.get("cte_map", {}).get("map", ())}
    named_tables = tuple(dict.fromkeys(table for _, table in sorted(tables.items())))
    return DuckQuery(query, timed, named_tables, frozenset(own), tree["statements"][0]["node"])


def _check_parts(node: dict[str, Any], query: Query, timed: TimedText) -> None:
    offset = timed.offset_before(_characters(timed.text, int(node["query_location"])))
    if node["catalog_name"]:
        query.refuse(
            offset,
            f"{node['catalog_name']}.{node['schema_name']}.{node['table_name']} has more than two "
            "parts; the warehouse is the catalog: write database.table",
        )
    if node.get("at_clause"):
        query.refuse(offset, "write VERSION AS OF 3 or TIMESTAMP AS OF '…' behind the table")
    if not node["schema_name"] and set("./") & set(node["table_name"]):
        query.refuse(offset, "a query reads tables of the warehouse, and no files: write db.table")


def _characters(text: str, position: int) -> int:
    """A place in a text, from its place in UTF-8."""
    return len(text.encode()[:position].decode(errors="ignore"))


@dataclass
class RunningQuery:
    """A query bound to its tables: its columns, and its rows, read once."""

    asked: DuckQuery
    connection: duckdb.DuckDBPyConnection
    scanned: list[ScannedTable] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    @property
    def tables(self) -> tuple[str, ...]:
        """The full names of the tables that are read."""
        return tuple(each.source.name for each in self.scanned)

    @cached_property
    def plan(self) -> DuckPlan:
        """How DuckDB runs it.

        Raises:
            InvalidStatement: a name or a type in the query is wrong.
        """
        with self.told():
            return plan_of(self.connection, self.asked.timed.text)

    def scanned_by(self, scan: PlannedScan) -> ScannedTable | None:
        """The table of a scan, None for one without a column."""
        found = COLUMN.search(" ".join(scan.columns))
        return None if found is None else self.scanned[int(found[2])]

    def reader(self) -> pa.RecordBatchReader:
        """The rows as DuckDB gives them.

        Raises:
            InvalidStatement: a name or a type in the query is wrong.
        """
        scans = [(self.scanned_by(scan), scan) for scan in self.plan.scans()]
        for table, scan in scans:
            # Of a table that is scanned twice, each scan has a filter of its own above it.
            if table is not None and [each for each, _ in scans].count(table) == 1:
                table.also = tuple(
                    part for text in scan.above for part in duckdb_filters(text, table.fields)
                )
        with self.told():
            return self.connection.sql(self.asked.timed.text).to_arrow_reader(1 << 16)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raise errors of reading as they were, and those of DuckDB as errors of the statement.

        Raises:
            InvalidStatement, UnsupportedError: DuckDB refuses the query.
        """
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
            if self.failures:
                raise self.failures[0] from None
            self._refuse(error)

    def _refuse(self, error: BaseException) -> NoReturn:
        said, _, where = str(error).partition("\n\nLINE ")
        said = " ".join(said.partition("\n\tCandidate functions")[0].split())
        said = named(said, self.scanned)
        if isinstance(error, duckdb.OutOfMemoryException):
            raise UnsupportedError(
                f"the query needs more memory than this process gives it: {said}; filter more, "
                f"{_TO_SPARK}"
            ) from error
        if isinstance(error, duckdb.PermissionException):
            raise InvalidStatement(
                "a query reads tables of the warehouse, and neither files nor the network nor "
                f"extensions: {said}"
            ) from error
        offset = _shown_place(self.asked.timed.text, where)
        message = said.partition(" Error: ")[2] or said
        if offset is None:
            raise InvalidStatement(f"the query fails: {message}") from error
        self.asked.refuse(message, offset)


def named(text: str, scanned: Sequence[ScannedTable]) -> str:
    """A text of DuckDB with the names of columns as their tables have them."""
    names = {own: said for each in scanned for own, said in each.columns.items()}
    return COLUMN.sub(lambda found: names.get(found[1], found[0]), text)


def _shown_place(text: str, where: str) -> int | None:
    """The place in a text at which DuckDB points: a number, the line or a part of it, and a ^."""
    number, _, rest = where.partition(": ")
    line, _, mark = rest.partition("\n")
    if not number.isdecimal() or "^" not in mark:
        return None
    start = 0
    for _ in range(int(number) - 1):
        start = text.find("\n", start) + 1
    column = mark.index("^") - len(f"LINE {number}: ")
    shown = line.removeprefix("...")
    cut = len(line) - len(shown)
    begin = text.find(shown.removesuffix("..."), start)
    return None if begin < 0 else begin + max(0, column - cut)


@contextmanager
def running(
    catalog: Catalog,
    asked: DuckQuery,
    database: str | None,
    full_name: Callable[[str], str],
    given: Mapping[str, Source] | None = None,
) -> Iterator[RunningQuery]:
    """The query over its tables, as they are now; `full_name` adds the database of the session.

    `given` are tables that are read otherwise, by their full names.

    Raises:
        NotFoundError: a table does not exist.
        InvalidStatement: a table is in no database.
    """
    settings = {"threads": str(catalog.env.cores()), "memory_limit": _SHARE_OF_MEMORY}
    with duckdb.connect(":memory:", config={**LOCKED, **settings}) as connection:
        bound = RunningQuery(asked, connection)
        if database is not None:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(database)}")
            connection.execute(f"SET schema = {_text(database)}")
        connection.execute("SET TimeZone = 'UTC'")
        externals = ExternalTables(catalog)
        views: dict[str, str] = {}
        held: set[tuple[str, str]] = set()
        for name in asked.tables:
            plain, moment = asked.without_moment(name)
            is_part = not name.database and name.table.lower() in asked.maybe
            if is_part and (database is None or not _exists(externals, full_name(name.table))):
                continue
            full = full_name(plain.said)
            other = views.setdefault(name.said.lower(), name.said)
            if other != name.said:
                raise InvalidStatement(f"SQL does not tell {other} and {name.said} apart")
            # `t` and `db.t` are one view in the database of the session.
            view = ((name.database or database or "").lower(), name.table)
            if view in held:
                continue
            held.add(view)
            source = None if moment is not None else (given or {}).get(full)
            if source is None and externals.has(full):
                source = external_source(externals, full, moment)
            elif source is None:
                source = source_of(catalog, full, moment)
            check_names(source)
            _bind(bound, name, ScannedTable(source, len(bound.scanned), bound.failures))
        _check_moments_of_rows(bound, full_name)
        connection.execute("SET lock_configuration = true")
        if not given:
            _push_down(bound, externals)
        yield bound


@contextmanager
def over_sources(
    asked: DuckQuery, find: Callable[[str], Source], *, cores: int
) -> Iterator[RunningQuery]:
    """The query over sources, of which each is found by the name that the query gives it.

    Raises:
        InvalidStatement: a table has columns that SQL does not tell apart.
    """
    settings = {"threads": str(cores), "memory_limit": _SHARE_OF_MEMORY}
    with duckdb.connect(":memory:", config={**LOCKED, **settings}) as connection:
        bound = RunningQuery(asked, connection)
        connection.execute("SET TimeZone = 'UTC'")
        held: set[str] = set()
        for name in asked.tables:
            is_part = not name.database and name.table.lower() in asked.maybe
            if is_part or name.said.lower() in held:
                continue
            held.add(name.said.lower())
            source = find(name.said)
            check_names(source)
            _bind(bound, name, ScannedTable(source, len(bound.scanned), bound.failures))
        connection.execute("SET lock_configuration = true")
        yield bound


def _push_down(bound: RunningQuery, externals: ExternalTables) -> None:
    """Let the source of a query's one external table do what it can of the query."""
    node, text = bound.asked.node, bound.asked.timed.text
    if len(bound.scanned) != 1 or not is_of_one_table(node):
        return
    (scanned,) = bound.scanned
    if scanned.source.planned is None:
        return
    try:
        asked = bound.connection.sql(text)
    except duckdb.Error:
        # It is said where the query is run.
        return
    pushed = aggregated(externals, scanned.source, text, asked.columns)
    if pushed is None:
        source = limited(externals, scanned.source, node, [*bound.plan.operators()])
        scanned.source = source or scanned.source
        return
    groups = ScannedTable(pushed.source, len(bound.scanned), bound.failures)
    _bind(bound, TableName("", pushed.view), groups, pushed.casts)
    try:
        made = bound.connection.sql(pushed.text)
        same = (made.columns, made.types) == (asked.columns, asked.types)
        same &= is_of_rows([*plan_of(bound.connection, pushed.text).operators()])
    except duckdb.Error:
        same = False
    if same:
        timed = replace(bound.asked.timed, text=pushed.text, edits=())
        bound.asked = replace(bound.asked, timed=timed)
    else:
        bound.scanned.remove(groups)


def _check_moments_of_rows(bound: RunningQuery, full_name: Callable[[str], str]) -> None:
    """Check that a table which is joined as of each row of another is so at the time of now.

    Raises:
        InvalidStatement: a column is none `AS PROCTIME()`.
    """
    asked = bound.asked
    schemas = {each.source.name: each.source.schema for each in bound.scanned}
    for _, moment in asked.timed.databases.values():
        if not moment.of_row:
            continue
        *alias, column = moment.of_row
        found = False
        for node in tree_nodes(asked.node):
            if node.get("type") != "BASE_TABLE":
                continue
            name = TableName(node["schema_name"], node["table_name"])
            schema = schemas.get(full_name(asked.without_moment(name)[0].said))
            is_meant = not alias or alias[-1].lower() == (node["alias"] or name.table).lower()
            found |= schema is not None and is_meant and _has_proctime(schema, column)
        if not found:
            asked.query.refuse(
                0,
                f"FOR SYSTEM_TIME AS OF {'.'.join(moment.of_row)} joins rows as they are when the "
                f"row of a stream is processed, and {column} is no column AS PROCTIME() of a table "
                "of the query; add one to it, or leave FOR SYSTEM_TIME … out",
            )


def _has_proctime(schema: TableSchema, name: str) -> bool:
    return any(
        column.name.lower() == name.lower()
        and (column.expression or "").replace(" ", "").upper() == "PROCTIME()"
        for column in unstored_columns(schema.options)
    )


def _exists(externals: ExternalTables, name: str) -> bool:
    return externals.has(name) or externals.catalog.table_exists(name)


def _bind(
    bound: RunningQuery,
    name: TableName,
    scanned: ScannedTable,
    casts: Mapping[str, str] | None = None,
) -> None:
    """Make the table one that the query finds under its name, some columns in other types."""
    scan = f"scan of {len(bound.scanned)}"
    bound.connection.register(scan, scanned)
    types = casts or {}
    columns = ", ".join(
        f"{f'CAST({own} AS {types[said]})' if said in types else own} AS {_quoted(said)}"
        for own, said in scanned.columns.items()
    )
    view = _quoted(name.table)
    if name.database:
        bound.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(name.database)}")
        view = f"{_quoted(name.database)}.{view}"
    rows = f"SELECT {columns} FROM {_quoted(scan)}"  # noqa: S608 - quoted
    bound.connection.execute(f"CREATE VIEW {view} AS {_with_computed(scanned.source.schema, rows)}")
    bound.scanned.append(scanned)


def _with_computed(schema: TableSchema, rows: str) -> str:
    """The rows of a table with its computed columns in their places, where DuckDB computes them."""
    given = [_quoted(field_name) for field_name in schema.field_names]
    for column in unstored_columns(schema.options):
        found = duckdb_expression(column, schema.field_names)
        if found is not None:
            given.insert(column.index, f"{found} AS {_quoted(column.name)}")
    if len(given) == len(schema.field_names):
        return rows
    return f"SELECT {', '.join(given)} FROM ({rows})"  # noqa: S608 - quoted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# --- rows -----------------------------------------------------------------------------------------


def shown_rows(rows: pa.Table) -> tuple[tuple[DataField, ...], pa.Table]:
    """Rows of DuckDB in types of columns of tables, with these.

    Raises:
        InvalidStatement: a column is of a type that no table holds.
    """
    columns = []
    for each, column in zip(rows.schema, rows.columns, strict=True):
        target = _held_type(each.type)
        try:
            columns.append(column if target.equals(each.type) else column.cast(target))
        except pa.ArrowException as error:
            raise InvalidStatement(
                f"column {each.name} of the result does not fit {target}: {error}"
            ) from error
    held = pa.table(columns, names=rows.column_names)
    try:
        found = columns_from_arrow(held.schema)
    except InvalidSchema as error:
        raise InvalidStatement(
            f"a column of the result has no type of a table: {error.message}; CAST it to VARCHAR"
        ) from error
    return tuple(DataField(at, each.name, each.type) for at, each in enumerate(found)), held


def _held_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a table holds what DuckDB gives."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_time64(kind):
        return pa.time32("ms")
    return pa.decimal128(20, 0) if pa.types.is_uint64(kind) else kind
