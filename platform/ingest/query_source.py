"""A query as a source: it runs over the warehouse, for the partitions that are asked for.

The filter on the partition columns of the result is put around the query; the engine takes it
through the query to the tables, as far as that keeps the result.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.storage import Catalog
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.errors import InvalidRequestError, InvalidRows, InvalidStatement
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.values import from_python, to_python

if TYPE_CHECKING:
    from lakewright.storage.sql.grammar.query import Query


def query_rows(
    declaration: TableDeclaration,
    catalog: Catalog,
    partitions: Sequence[Mapping[str, object]] | None,
    spark: Any,
) -> Any:
    """The rows of the query of a declaration: on DuckDB as a stream, on Spark as a DataFrame.

    `spark` starts a session, if the declaration says that engine.
    """
    assert declaration.source is not None
    assert declaration.source.sql is not None
    text = _query(declaration.source.sql).text
    in_spark = declaration.write.engine is EngineChoice.SPARK
    if partitions is not None:
        quote = "`" if in_spark else '"'
        asked = _filter(declaration, partitions, quote)
        # The query may end in a comment.
        text = f"SELECT * FROM (\n{text}\n) AS result WHERE {asked}"  # noqa: S608 - the author's
    return _on_spark(text, catalog, spark()) if in_spark else _on_duckdb(text, catalog, declaration)


def _query(text: str) -> Query:
    from lakewright.storage.sql.grammar.parse import parse_statements  # noqa: PLC0415
    from lakewright.storage.sql.grammar.statements import Select  # noqa: PLC0415

    found = [statement.statement for statement in parse_statements(text)]
    if len(found) != 1 or not isinstance(found[0], Select):
        raise InvalidStatement("the source is not one query; write one that begins with SELECT")
    return found[0].query


def _on_duckdb(text: str, catalog: Catalog, declaration: TableDeclaration) -> Iterator[pa.Table]:
    # Loaded by a query alone: the library is large.
    from lakewright.session.duckdb_query import shown_rows  # noqa: PLC0415
    from lakewright.session.run_query import on_duckdb  # noqa: PLC0415
    from lakewright.session.settings import Settings  # noqa: PLC0415

    with on_duckdb(catalog, _query(text), Settings(), lambda name: name) as running:
        reader = running.reader()
        # Without rows, the columns of the result are checked all the same.
        yield _as_numbers(shown_rows(reader.schema.empty_table())[1], declaration)
        while True:
            with running.told():
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield _as_numbers(shown_rows(pa.Table.from_batches([batch]))[1], declaration)


def _as_numbers(rows: pa.Table, declaration: TableDeclaration) -> pa.Table:
    """Decimals as the numbers that are declared: sums of whole numbers are decimals in DuckDB.

    Raises:
        InvalidRows: a number does not fit.
    """
    for column in declaration.columns:
        at = rows.schema.get_field_index(column.name)
        target = to_arrow_type(parse_data_type(column.type))
        is_number = pa.types.is_integer(target) or pa.types.is_floating(target)
        if at >= 0 and is_number and pa.types.is_decimal(rows.schema.field(at).type):
            try:
                rows = rows.set_column(at, column.name, rows.column(at).cast(target))
            except pa.ArrowInvalid as error:
                raise InvalidRows(
                    f"the query of {declaration.table}: column {column.name} is {column.type}, "
                    f"and a number does not fit: {error}; nothing was written",
                    column=column.name,
                ) from error
    return rows


def _on_spark(text: str, catalog: Catalog, spark: Any) -> Any:
    from lakewright.storage.spark.statements import query_dataframe
    from lakewright.storage.sql.grammar.spark_query import spark_query  # noqa: PLC0415

    query = spark_query(_query(text))
    views = {name: f"lakewright_source_{at}" for at, name in enumerate(query.tables)}
    frames = {view: catalog.table(name).to_spark(spark) for name, view in views.items()}
    return query_dataframe(spark, query.over(views), frames)


def _filter(
    declaration: TableDeclaration, partitions: Sequence[Mapping[str, object]], quote: str
) -> str:
    """The rows of some partitions, by the columns of the result."""
    types = {
        partition_column.name: partition_column.type
        for partition_column in declaration.partition_columns
    }

    def one(name: str, values: Sequence[object]) -> str:
        held = [to_python(from_python(each, types[name]), types[name]) for each in values]
        texts = [_literal(each, quote) for each in held if each is not None]
        shown = f"{quote}{name.replace(quote, 2 * quote)}{quote}"
        parts = [f"{shown} IN ({', '.join(texts)})"] if texts else []
        parts += [f"{shown} IS NULL"] if len(texts) < len(held) else []
        return f"({' OR '.join(parts) or 'FALSE'})"

    if len(types) == 1:
        # A list of values goes down to the files of a table.
        (name,) = types
        return one(name, [spec[name] for spec in partitions])
    every = (" AND ".join(one(name, [each]) for name, each in spec.items()) for spec in partitions)
    return " OR ".join(f"({each})" for each in every) or "FALSE"


def _literal(value: object, quote: str) -> str:
    """A value as both engines write it; `quote` is that of names, by which they differ."""
    match value:
        case bool():
            return str(value).upper()
        case int() | float() | Decimal():
            return str(value)
        case dt.datetime():
            kind = "TIMESTAMP" if value.tzinfo else "TIMESTAMP_NTZ" if quote == "`" else "TIMESTAMP"
            kind = "TIMESTAMPTZ" if value.tzinfo and quote == '"' else kind
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case str():
            text = value.replace("\\", "\\\\").replace("'", "\\'") if quote == "`" else value
            return f"'{text}'" if quote == "`" else f"'{text.replace(chr(39), 2 * chr(39))}'"
        case _:
            raise InvalidRequestError(
                f"a query is not asked for partitions by {type(value).__name__}; partition the "
                "table by texts, numbers, dates or timestamps"
            )
