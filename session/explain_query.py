"""EXPLAIN: what DuckDB asks of each table, what planning left out of it, and DuckDB's plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakewright.session.duckdb_query import RunningQuery, named
from lakewright.session.query_source import ScannedTable
from lakewright.session.results import StatementResult, table_of
from lakewright.storage.spec.predicate import conjunction
from lakewright.storage.sql import duckdb_filters


def explained(running: RunningQuery) -> StatementResult:
    """What a query would open, from metadata alone, and how DuckDB would run it."""
    rows: list[tuple[str, str | None]] = []
    for scan in running.plan.scans():
        scanned = running.scanned_by(scan)
        if scanned is not None:
            rows += _of_table(scanned, scan.columns, [*scan.filters, *scan.above])
    rows += [("plan", named(line, running.scanned)) for line in running.plan.lines()]
    return table_of({"what": "STRING", "value": "STRING"}, rows)


def _of_table(
    scanned: ScannedTable, columns: Sequence[str], filters: Sequence[str]
) -> Iterator[tuple[str, str | None]]:
    source = scanned.source
    yield "table", source.name
    yield "columns", ", ".join(scanned.columns.get(column, column) for column in columns)
    yield "filter", " AND ".join(named(each, [scanned]) for each in filters) or None
    where = conjunction(
        tuple(part for each in filters for part in duckdb_filters(each, scanned.fields))
    )
    if source.planned is not None:
        asked = [scanned.columns[column] for column in columns if column in scanned.columns]
        for line in source.planned(where, asked).explained():
            yield "connector", line
    if source.at is None:
        return
    plan = source.at.scan(where).plan
    files = [file for split in plan.splits for file in split.files]
    facts: dict[str, object] = {
        "snapshot": None if plan.snapshot is None else plan.snapshot.id,
        "partitions read": len({each.partition for each in plan.splits}),
        "partitions of the table": len(source.at.partitions()),
        "manifests read": plan.manifests_read,
        "manifests of the table": plan.manifests_total,
        "files read": len(files),
        "files of the table": len(source.at.files()),
        "bytes read": sum(each.file_size for each in files),
        "rows in these files": sum(each.row_count for each in files),
    }
    for name, value in facts.items():
        yield name, None if value is None else str(value)
