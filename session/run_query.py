"""Queries: on DuckDB in this process, or on Spark if the session says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.session.results import StatementResult
from lakewright.session.settings import SPARK, Settings
from lakewright.storage.catalog import Catalog
from lakewright.storage.codec.arrow_types import columns_from_arrow
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.sql.grammar.query import Query
from lakewright.storage.sql.grammar.spark_query import SparkQuery, spark_query

if TYPE_CHECKING:
    from lakewright.session.duckdb_query import RunningQuery
    from lakewright.storage.spark import DataFrame

# Adds the database of the session to the name of a table.
FullName = Callable[[str], str]


def check_query(query: Query, settings: Settings) -> None:
    """Refuse a query that its engine cannot parse.

    Raises:
        InvalidStatement: it cannot be parsed.
    """
    if query.rows is not None:
        return
    if settings.engine == SPARK:
        spark_query(query)
        return
    # Loaded by a query alone: the library is large.
    from lakewright.session.duckdb_query import duck_query  # noqa: PLC0415

    duck_query(query)


def select(
    catalog: Catalog, query: Query, settings: Settings, full_name: FullName
) -> StatementResult:
    """The rows of a query in memory."""
    if settings.engine == SPARK:
        parsed = spark_query(query)
        return _spark_answer(spark_frame(catalog, parsed, names_of(parsed, full_name)))
    from lakewright.session.duckdb_query import shown_rows  # noqa: PLC0415

    with on_duckdb(catalog, query, settings, full_name) as running:
        reader = running.reader()
        with running.told():
            fields, rows = shown_rows(reader.read_all())
    return StatementResult(fields=fields, rows=rows)


@contextmanager
def queried(
    catalog: Catalog, query: Query, settings: Settings, full_name: FullName
) -> Iterator[tuple[tuple[DataField, ...], Iterator[pa.Table]]]:
    """The columns of a query, and its rows piece by piece; Spark's are collected."""
    if settings.engine == SPARK:
        result = select(catalog, query, settings, full_name)
        assert result.rows is not None
        yield result.fields, iter([result.rows])
        return
    from lakewright.session.duckdb_query import shown_rows  # noqa: PLC0415

    with on_duckdb(catalog, query, settings, full_name) as running:
        reader = running.reader()
        with running.told():
            fields, _ = shown_rows(reader.schema.empty_table())
            yield fields, (shown_rows(pa.Table.from_batches([each]))[1] for each in reader)


@contextmanager
def on_duckdb(
    catalog: Catalog, query: Query, settings: Settings, full_name: FullName
) -> Iterator[RunningQuery]:
    """A query bound to its tables on DuckDB."""
    from lakewright.session.duckdb_query import duck_query, running  # noqa: PLC0415

    with running(catalog, duck_query(query), settings.database, full_name) as found:
        yield found


# --- on Spark -----------------------------------------------------------------------------------


def names_of(query: SparkQuery, full_name: FullName) -> dict[str, str]:
    """The full name of each table that a query names."""
    return {table: full_name(table) for table in query.tables}


def spark_frame(catalog: Catalog, query: SparkQuery, names: Mapping[str, str]) -> DataFrame:
    """The query on Spark; `names` has the full name of each table that it names.

    Its views are named by the tables, so that the errors of Spark name them too.
    """
    from lakewright.storage.spark import build_session
    from lakewright.storage.spark.statements import query_dataframe

    spark = build_session("lakewright-sql")
    views = {said: view_name(name) for said, name in names.items()}
    frames, externals = {}, ExternalTables(catalog)
    for said, name in names.items():
        table, _, system = name.rpartition("$")
        if table and not name.startswith("$branch_", len(table)):
            frames[views[said]] = catalog.table(table).inspect.to_spark(spark, system)
        elif externals.has(name):
            from lakewright.connectors.on_spark import read_frame  # noqa: PLC0415

            planned = plan_scan(externals.context(name), ScanRequest())
            frames[views[said]] = read_frame(spark, planned)
        else:
            frames[views[said]] = catalog.table(name).to_spark(spark)
    return query_dataframe(spark, query.over(views), frames)


def view_name(table: str) -> str:
    """The name of a table's view: Spark takes no dots in it."""
    kept = "".join(char if char.isalnum() else f"_{ord(char):x}_" for char in table)
    return f"lakewright_{kept}"


def _spark_answer(frame: DataFrame) -> StatementResult:
    """The rows of a DataFrame in memory."""
    rows = frame.toArrow()
    fields = tuple(
        DataField(at, each.name, each.type)
        for at, each in enumerate(columns_from_arrow(rows.schema))
    )
    return StatementResult(fields=fields, rows=rows)
