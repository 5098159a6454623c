"""EXPLAIN: what DuckDB asks of each table, what planning left out of it, and DuckDB's plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lakewright.storage.session.duckdb_query import COLUMN, RunningQuery, named
from lakewright.storage.session.query_source import ScannedTable
from lakewright.storage.session.results import StatementResult, table_of
from lakewright.storage.spec.predicate import Predicate, conjunction
from lakewright.storage.sql import parse_duckdb_filter


def explained(running: RunningQuery) -> StatementResult:
    """What a query would open, from metadata alone, and how DuckDB would run it."""
    text = running.asked.timed.text
    with running.told():
        found = running.connection.execute(f"EXPLAIN (FORMAT json) {text}").fetchall()
    rows: list[tuple[str, str | None]] = []
    tree = json.loads(found[0][1])
    for scan in _scans(tree):
        columns = _texts(scan.get("Projections"))
        filters = _texts(scan.get("Filters"))
        first = next(iter(COLUMN.findall(" ".join([*columns, *filters]))), None)
        if first is not None:
            scanned = running.scanned[int(first[1])]
            rows += _of_table(scanned, columns, filters)
    rows += [("plan", named(line, running.scanned)) for line in _lines(tree)]
    return table_of({"what": "STRING", "value": "STRING"}, rows)


def _scans(tree: Any) -> Iterator[dict[str, Any]]:
    for node in tree:
        if node["name"].strip() == "PYTHON_ARROW_SCAN":
            yield node["extra_info"]
        yield from _scans(node["children"])


def _lines(tree: Any, depth: int = 0) -> Iterator[str]:
    for node in tree:
        facts = [
            f"{name} {', '.join(_texts(value))}"
            for name, value in node["extra_info"].items()
            if name != "Function"
        ]
        yield "  " * depth + f"{node['name'].strip()}: {'; '.join(facts)}"
        yield from _lines(node["children"], depth + 1)


def _texts(found: str | list[str] | None) -> list[str]:
    return [found] if isinstance(found, str) else list(found or ())


def _of_table(
    scanned: ScannedTable, columns: list[str], filters: list[str]
) -> Iterator[tuple[str, str | None]]:
    source = scanned.source
    yield "table", source.name
    yield "columns", ", ".join(scanned.columns.get(each, each) for each in columns)
    yield "filter", " AND ".join(named(each, [scanned]) for each in filters) or None
    if source.at is None:
        return
    known = (parse_duckdb_filter(each, scanned.columns, source.schema) for each in filters)
    where: Predicate | None = conjunction(tuple(each for each in known if each is not None))
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
