"""Queries as expectations on DuckDB: they run in this process, over the staged rows.

A query is DuckDB's SQL; one that DuckDB cannot parse is read as Spark's, and translated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewright.platform.ingest.expectations import ExpectationOutcome
from lakewright.platform.tables.declarations import ExpectationDeclaration
from lakewright.storage import StagedWrite, Table
from lakewright.storage.env import Env
from lakewright.storage.errors import InvalidStatement, StorageError
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.sql import BATCH, in_duckdb, parse_row_query

if TYPE_CHECKING:
    from lakewright.session.duckdb_query import DuckQuery

# Of more rows than these, the partitions are not known.
_MOST_ROWS = 200


def validate_queries_here(
    table: Table,
    staged: Sequence[StagedWrite],
    expectations: Sequence[ExpectationDeclaration],
    *,
    find_table: Callable[[str], Table],
    env: Env,
) -> tuple[ExpectationOutcome, ...]:
    """Run the queries of expectations on DuckDB, over staged rows and other tables."""
    found = []
    for expectation in expectations:
        try:
            count, rows = _answer(table, staged, expectation, find_table, env)
        except StorageError as error:
            found.append(_outcome(expectation, error=error.message))
            continue
        keys = table.schema.partition_keys
        by_partition: Counter[str] = Counter()
        if keys and len(rows) == count and all(set(keys) <= set(row) for row in rows):
            by_partition.update(
                describe_partition({name: row[name] for name in keys}) for row in rows
            )
        found.append(
            _outcome(
                expectation, count, dict(sorted(by_partition.items())), rows[: expectation.show]
            )
        )
    return tuple(found)


def _outcome(
    expectation: ExpectationDeclaration,
    count: int | None = None,
    by_partition: Mapping[str, int] | None = None,
    sample: Sequence[Mapping[str, object]] = (),
    *,
    error: str | None = None,
) -> ExpectationOutcome:
    return ExpectationOutcome(
        check_name=expectation.check_name,
        expectation=expectation.text,
        severity=expectation.severity,
        met=count == 0,
        unexpected_count=count,
        unexpected_by_partition=by_partition or {},
        sample=tuple(sample),
        error=error,
    )


def _answer(
    table: Table,
    staged: Sequence[StagedWrite],
    expectation: ExpectationDeclaration,
    find_table: Callable[[str], Table],
    env: Env,
) -> tuple[int, list[dict[str, Any]]]:
    """How many rows a query returns, or counts, and some of those that it returns."""
    # Loaded by a query alone: the library is large.
    from lakewright.session.duckdb_query import over_sources, shown_rows  # noqa: PLC0415
    from lakewright.session.query_source import Source, source_at  # noqa: PLC0415

    def batch(_: object, columns: Sequence[str]) -> Any:
        for each in staged:
            yield from table.scan_staged(each, columns=columns).batches()

    def find(name: str) -> Source:
        if name.lower() == BATCH:
            return Source(BATCH, table.schema, batch)
        return source_at(name, find_table(name).at())

    assert expectation.sql is not None
    is_count = parse_row_query(expectation.sql).is_count
    with over_sources(_duck_query(expectation.sql), find, cores=env.cores()) as running:
        reader, count = running.reader(), 0
        rows: list[dict[str, Any]] = []
        with running.told():
            for part in reader:
                count += part.num_rows
                if len(rows) < _MOST_ROWS:
                    _, shown = shown_rows(
                        pa.Table.from_batches([part.slice(0, _MOST_ROWS - len(rows))])
                    )
                    rows += shown.to_pylist()
    if not is_count:
        return count, rows
    (value,) = rows[0].values()
    return int(value), []


def _duck_query(text: str) -> DuckQuery:
    from lakewright.session.duckdb_query import duck_query  # noqa: PLC0415
    from lakewright.storage.sql.grammar.query import Query  # noqa: PLC0415

    text = text.strip().rstrip("; \t\r\n")
    try:
        return duck_query(Query(text=text, around=text, start=0))
    except InvalidStatement as error:
        translated = in_duckdb(text)
        if translated is None:
            raise
        try:
            return duck_query(Query(text=translated, around=translated, start=0))
        except InvalidStatement:
            raise error from None
