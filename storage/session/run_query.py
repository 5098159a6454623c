"""Queries: simple ones over Arrow in this process, all others on Spark if the session says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.catalog import Catalog
from lakewright.storage.codec.arrow_types import columns_from_arrow, to_arrow_schema
from lakewright.storage.codec.python_columns import UnfitValueError, python_column
from lakewright.storage.errors import (
    InvalidRequestError,
    InvalidRows,
    InvalidStatement,
    UnsupportedError,
)
from lakewright.storage.operations.format_tables.format_spec import TABLE_TYPES, TYPE_OPTION
from lakewright.storage.session.results import StatementResult, table_of
from lakewright.storage.session.settings import SPARK, Settings
from lakewright.storage.spec.data_types import (
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    TypeRoot,
    parse_data_type,
)
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.sql import condition_of
from lakewright.storage.sql.grammar.query import Item, Query, SimpleQuery
from lakewright.storage.sql.literals import Moment, fitted, plain

if TYPE_CHECKING:
    from lakewright.storage.spark import DataFrame

_WITHOUT_ENGINE = (
    "without one, a query is VALUES, or columns, literals or count(*) of one table, with WHERE, "
    "ORDER BY columns and LIMIT"
)


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """Rows piece by piece, read once; literals are in columns of their own types."""

    fields: tuple[DataField, ...]
    pieces: Iterator[pa.Table]

    def collected(self) -> StatementResult:
        schema = to_arrow_schema(self.fields)
        rows = pa.concat_tables(chain([schema.empty_table()], self.pieces))
        return StatementResult(fields=self.fields, rows=rows)


def simple_of(query: Query) -> SimpleQuery:
    """The simple form of a query.

    Raises:
        UnsupportedError: it has none; the message names the setting that lets Spark answer.
    """
    if query.simple is None:
        raise UnsupportedError(
            f"{query.beyond}: {query.instead}"
            if query.instead
            else f"{query.beyond} needs an engine: SET 'query.engine' = 'spark'; {_WITHOUT_ENGINE}"
        )
    return query.simple


def needs_spark(query: Query, settings: Settings) -> bool:
    """Whether Spark answers a query: the session says so, and it is not of literals alone."""
    return settings.engine == SPARK and (bool(query.tables) or query.simple is None)


def answer(
    catalog: Catalog,
    simple: SimpleQuery,
    table: str,
    into: Sequence[DataField] | None = None,
) -> QueryAnswer:
    """The rows of a simple query on a table, or of its literals.

    `into` are the columns that the rows are for: literals take their types.
    """
    if simple.rows is not None:
        return _literals(simple)
    source = _source(catalog, table)
    where = None if simple.where is None else condition_of(simple.where, source.schema)
    if simple.is_count:
        # A column must be read for its rows to be counted; the first is as good as any.
        count = sum(each.num_rows for each in source.pieces(where, source.schema.field_names[:1]))
        field = DataField(0, simple.items[0].name, parse_data_type("BIGINT NOT NULL"))
        rows = pa.table([pa.array([count], pa.int64())], to_arrow_schema([field]))
        return QueryAnswer((field,), iter([rows.slice(0, simple.limit)]))
    items = _items(simple, source.schema)
    fields = tuple(_field(at, item, source.schema, into) for at, item in enumerate(items))
    literals = {
        at: _one(item.value, fields[at] if into is None else into[at])
        for at, item in enumerate(items)
        if item.column is None
    }
    wanted = [item.column for item in items if item.column is not None]
    order = _order(simple, items, source.schema)
    # A row of literals alone still needs rows.
    columns = list(dict.fromkeys([*wanted, *order])) or list(source.schema.field_names[:1])
    source.schema.fields_of(columns)
    pieces = source.pieces(where, columns)
    if order:
        pieces = iter([_sorted(source.empty(columns), pieces, order, simple)])
    elif simple.limit is not None:
        pieces = _first(pieces, simple.limit)
    return QueryAnswer(fields, (_projected(each, items, fields, literals) for each in pieces))


def names_of(catalog: Catalog, simple: SimpleQuery, table: str) -> tuple[str, ...] | None:
    """The names of the columns of a result; VALUES gives none."""
    if simple.table is None:
        return tuple(item.name for item in simple.items) or None
    if simple.is_count:
        return (simple.items[0].name,)
    return tuple(item.name for item in _items(simple, _source(catalog, table).schema))


def explain(catalog: Catalog, simple: SimpleQuery, table: str) -> StatementResult:
    """What a query would open, from metadata alone."""
    source = _source(catalog, table)
    where = None if simple.where is None else condition_of(simple.where, source.schema)
    if source.kind is not None:
        raise UnsupportedError(f"{table} is not a table with snapshots; its files are not planned")
    found = catalog.table(table)
    plan = found.scan(where).plan
    partitions = {each.partition for each in plan.splits}
    files = [file for split in plan.splits for file in split.files]
    facts: dict[str, object] = {
        "table": table,
        "snapshot": None if plan.snapshot is None else plan.snapshot.id,
        "filter": simple.where_text or None,
        "partitions read": len(partitions),
        "partitions of the table": len(found.at().partitions()),
        "manifests read": plan.manifests_read,
        "manifests of the table": plan.manifests_total,
        "files read": len(files),
        "bytes read": sum(each.file_size for each in files),
        "rows in these files": sum(each.row_count for each in files),
    }
    return table_of(
        {"what": "STRING", "value": "STRING"}, [(name, _text(each)) for name, each in facts.items()]
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


# --- on Spark -----------------------------------------------------------------------------------


def spark_frame(catalog: Catalog, query: Query, names: Mapping[str, str]) -> DataFrame:
    """The query on Spark; `names` has the full name of each table that it names.

    Its views are named by the tables, so that the errors of Spark name them too.
    """
    from lakewright.storage.spark import build_session
    from lakewright.storage.spark.statements import query_dataframe

    spark = build_session("lakewright-sql")
    views = {said: _view_name(name) for said, name in names.items()}
    frames = {}
    for said, name in names.items():
        table, _, system = name.rpartition("$")
        if table and not name.startswith("$branch_", len(table)):
            frames[views[said]] = catalog.table(table).inspect.to_spark(spark, system)
        else:
            frames[views[said]] = catalog.table(name).to_spark(spark)
    return query_dataframe(spark, query.over(views), frames)


def _view_name(table: str) -> str:
    """The name of a table's view: Spark takes no dots in it."""
    kept = "".join(char if char.isalnum() else f"_{ord(char):x}_" for char in table)
    return f"lakewright_{kept}"


def spark_answer(frame: DataFrame) -> StatementResult:
    """The rows of a DataFrame in memory."""
    rows = frame.toArrow()
    fields = tuple(
        DataField(at, each.name, each.type)
        for at, each in enumerate(columns_from_arrow(rows.schema))
    )
    return StatementResult(fields=fields, rows=rows)


# --- what is read ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Source:
    """A table, a system table (`kind` is its name) or a format table."""

    catalog: Catalog
    name: str
    schema: TableSchema
    kind: str | None

    def pieces(self, where: Predicate | None, columns: Sequence[str]) -> Iterator[pa.Table]:
        if self.kind is None:
            yield from self.catalog.table(self.name).scan(where, columns).batches()
        elif self.kind in TABLE_TYPES:
            yield self.catalog.format_table(self.name).read(where, columns)
        else:
            yield self.catalog.system_table(self.name, where).select(list(columns))

    def empty(self, columns: Sequence[str]) -> pa.Table:
        return to_arrow_schema(self.schema.fields_of(columns)).empty_table()


def _source(catalog: Catalog, name: str) -> _Source:
    table, _, system = name.rpartition("$")
    if table and not name.startswith("$branch_", len(table)):
        schema = catalog.table(table).inspect.table_schema(system)
        return _Source(catalog, name, schema, system)
    schema = catalog.table(name).schema
    kind = schema.options.get(TYPE_OPTION)
    return _Source(catalog, name, schema, kind if kind in TABLE_TYPES else None)


def _items(simple: SimpleQuery, schema: TableSchema) -> tuple[Item, ...]:
    """The items with the columns that `*` stands for."""
    items: list[Item] = []
    for item in simple.items:
        if item.column == "*":
            items += [Item(name, column=name) for name in schema.field_names]
        else:
            items.append(item)
    return tuple(items)


def _field(at: int, item: Item, schema: TableSchema, into: Sequence[DataField] | None) -> DataField:
    if item.column is None:
        own = _type_of(item.value, item.name) if into is None else into[at].type
        return DataField(at, item.name, own)
    return DataField(at, item.name, schema.field(item.column).type)


def _type_of(value: object, name: str) -> DataType:
    """The type of a literal that no column gives one."""
    match value:
        case bool():
            return parse_data_type("BOOLEAN")
        case int():
            return parse_data_type("BIGINT" if abs(value) > 0x7FFFFFFF else "INT")
        case str() | None:
            return parse_data_type("STRING")
        case Moment(kind=TypeRoot.TIME):
            return parse_data_type("TIME(3)")
        case Moment(kind=kind):
            return AtomicType(kind, precision=6) if kind.is_timestamp else AtomicType(kind)
        case float():
            return parse_data_type("DOUBLE")
        case bytes():
            return parse_data_type("BYTES")
        case list() | dict():
            raise UnsupportedError(f"{name} has no type of its own; insert it into a column")
        case _:
            digits = str(value).lstrip("-").replace(".", "")
            scale = len(str(value).partition(".")[2])
            return parse_data_type(f"DECIMAL({min(38, max(len(digits), scale + 1))}, {scale})")


def _one(value: object, field: DataField) -> pa.Array:
    """A literal of a query as a column of one row.

    Raises:
        InvalidRows: it does not fit the column.
    """
    try:
        return python_column([fitted_literal(value, field)], field)
    except UnfitValueError as error:
        raise InvalidRows(f"column {error.path} {error.why}", column=field.name) from error


def fitted_literal(value: object, field: DataField, row: int | None = None) -> object:
    """A literal as the Python value that a column takes.

    Raises:
        InvalidRows: it does not fit the column; the message names the `row`, if there are some.
    """
    try:
        return fitted(value, field.type)
    except InvalidRequestError as error:
        at = "" if row is None else f"row {row}: "
        raise InvalidRows(
            f"{at}column {field.name} is {field.type}, and {plain(value)!r} is not: "
            f"{error.__cause__ or error.message}",
            column=field.name,
        ) from error


def _projected(
    rows: pa.Table,
    items: Sequence[Item],
    fields: Sequence[DataField],
    literals: Mapping[int, pa.Array],
) -> pa.Table:
    first = pa.array([0] * rows.num_rows, pa.int64())
    columns = [
        literals[at].take(first) if item.column is None else rows[item.column]
        for at, item in enumerate(items)
    ]
    return pa.table(columns, schema=to_arrow_schema(fields))


def _order(simple: SimpleQuery, items: Sequence[Item], schema: TableSchema) -> tuple[str, ...]:
    """The columns of the table to sort by; a name means a column of the result first, as in Spark.

    Raises:
        InvalidStatement: the result has two columns of a name.
        UnsupportedError: a column is of a type without an order here.
    """
    found = []
    for each in simple.order:
        named = {item.column for item in items if item.name == each.name and not each.of_table}
        if len(named) > 1:
            raise InvalidStatement(
                f"ORDER BY {each.name}: the result has several columns {each.name}; give them "
                "other names by AS"
            )
        found += [column for column in named or {each.name} if column is not None]
    for field in schema.fields_of(found):
        if isinstance(field.type, (MapType, MultisetType)):
            raise InvalidStatement(f"ORDER BY {field.name}: a {field.type} has no order")
        if not isinstance(field.type, AtomicType):
            raise UnsupportedError(
                f"ORDER BY {field.name}, a {field.type}, needs an engine: SET 'query.engine' = "
                f"'spark'; {_WITHOUT_ENGINE}"
            )
    return tuple(dict.fromkeys(found))


def _sorted(
    empty: pa.Table, pieces: Iterator[pa.Table], order: Sequence[str], simple: SimpleQuery
) -> pa.Table:
    """The rows in their order, in which null is the least of all values, and NaN the greatest."""
    rows = pa.concat_tables(list(pieces) or [empty])
    is_descending = simple.order[0].is_descending
    how = ("descending", "at_end") if is_descending else ("ascending", "at_start")
    columns = []
    for name in order:
        column = rows[name]
        if pa.types.is_floating(column.type):
            columns.append(pc.is_nan(column))
        columns.append(column)
    keys = pa.table(columns, [str(at) for at in range(len(columns))])
    rows = rows.take(pc.sort_indices(keys, sort_keys=[(name, *how) for name in keys.column_names]))
    return rows if simple.limit is None else rows.slice(0, simple.limit)


def _first(pieces: Iterator[pa.Table], limit: int) -> Iterator[pa.Table]:
    left = limit
    for piece in pieces:
        if left <= 0:
            return
        yield piece.slice(0, left)
        left -= piece.num_rows


def _literals(simple: SimpleQuery) -> QueryAnswer:
    """The rows of VALUES as a query of its own: each column has the type of its first literal."""
    assert simple.rows is not None
    width = checked_width(simple.rows)
    fields = []
    columns = []
    for at in range(width):
        values = [row[at] for row in simple.rows]
        name = simple.items[at].name if simple.items else f"col{at + 1}"
        first = next((each for each in values if each is not None), None)
        field = DataField(at, name, _widest(values, _type_of(first, name), name))
        try:
            columns.append(python_column([plain(each) for each in values], field))
        except UnfitValueError as error:
            raise InvalidStatement(
                f"row {error.at + 1}, column {error.path} of VALUES {error.why}"
            ) from error
        fields.append(field)
    return QueryAnswer(tuple(fields), iter([pa.table(columns, schema=to_arrow_schema(fields))]))


def _widest(values: Sequence[object], first: DataType, name: str) -> DataType:
    """A column of small and large whole numbers takes all of them."""
    types = {str(_type_of(each, name)) for each in values if each is not None}
    return parse_data_type("BIGINT") if types == {"INT", "BIGINT"} else first


def checked_width(rows: Sequence[Sequence[object]]) -> int:
    """How many columns VALUES has.

    Raises:
        InvalidStatement: its rows differ.
    """
    width = len(rows[0])
    for at, row in enumerate(rows):
        if len(row) != width:
            raise InvalidStatement(
                f"row {at + 1} of VALUES has {len(row)} values, and row 1 has {width}; give each "
                "row the same number, null for none"
            )
    return width
