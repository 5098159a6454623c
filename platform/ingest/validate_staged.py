"""Evaluates the expectations of a table on staged rows: few in pandas, many in Spark.

Queries run on DuckDB for any number of rows, unless the declaration names Spark as engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa

from lakewright.platform.ingest.expectations import (
    ValidationReport,
    columns_needed,
    validate_arrow,
    validate_dataframe,
    validate_queries,
)
from lakewright.platform.ingest.query_expectations import validate_queries_here
from lakewright.platform.tables.declarations import ExpectationDeclaration
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.storage import StagedWrite, Table
from lakewright.storage.env import Env

# More rows than this are validated in Spark.
PANDAS_ROW_LIMIT = 2_000_000
Session = Callable[[], Any]


def validate_staged(
    table: Table,
    staged: Sequence[StagedWrite],
    expectations: Sequence[ExpectationDeclaration],
    *,
    session: Session,
    find_table: Callable[[str], Table],
    env: Env,
    engine: EngineChoice = EngineChoice.AUTO,
) -> ValidationReport:
    """The results for the rows of some writes together; `engine` is that of the declaration.

    `session` is called only for Spark; `find_table` finds the tables that queries name.
    """
    started = env.now_ms()
    queries = [expectation for expectation in expectations if expectation.sql is not None]
    others = [expectation for expectation in expectations if expectation.sql is None]
    row_count = sum(each.row_count for each in staged)
    report = ValidationReport(outcomes=(), row_count=row_count, engine="none", duration_ms=0)
    if others:
        report = _validate_rows(table, staged, others, session, env)
    if not queries:
        return report
    in_spark = engine is EngineChoice.SPARK
    if in_spark:
        outcomes = validate_queries(
            _frame(table, staged, None, session),
            queries,
            find_table=find_table,
            partition_keys=table.schema.partition_keys,
        )
    else:
        outcomes = validate_queries_here(table, staged, queries, find_table=find_table, env=env)
    name = "spark" if in_spark else "duckdb"
    found = {each.check_name: each for each in (*report.outcomes, *outcomes)}
    return ValidationReport(
        outcomes=tuple(found[expectation.check_name] for expectation in expectations),
        row_count=row_count,
        engine=name if report.engine in ("none", name) else f"{report.engine} and {name}",
        duration_ms=env.now_ms() - started,
    )


def _validate_rows(
    table: Table,
    staged: Sequence[StagedWrite],
    expectations: Sequence[ExpectationDeclaration],
    session: Session,
    env: Env,
) -> ValidationReport:
    row_count = sum(each.row_count for each in staged)
    needed = columns_needed(expectations)
    keys = table.schema.partition_keys
    columns = None if needed is None else list(dict.fromkeys([*keys, *needed]))
    if columns is not None and not columns:
        # A count needs at least one column.
        columns = [table.schema.field_names[0]]
    if row_count <= PANDAS_ROW_LIMIT:
        parts = [table.read_staged(each, columns=columns) for each in staged]
        # An expectation can also fail on zero rows, for example on their number.
        nothing = table.arrow_schema.empty_table()
        rows = pa.concat_tables(parts) if parts else nothing.select(columns or nothing.schema.names)
        return validate_arrow(rows, expectations, partition_keys=keys, env=env)
    frame = _frame(table, staged, columns, session)
    return validate_dataframe(frame, expectations, row_count=row_count, env=env)


def _frame(
    table: Table, staged: Sequence[StagedWrite], columns: Sequence[str] | None, session: Session
) -> Any:
    """The rows of some writes as a DataFrame of Spark."""
    spark = session()
    if not staged:
        from lakewright.storage.spark import dataframe_of

        return dataframe_of(spark, table.arrow_schema.empty_table())
    frames = [table.scan_staged(each, columns=columns).to_spark(spark) for each in staged]
    return reduce(lambda left, right: left.unionByName(right), frames)
