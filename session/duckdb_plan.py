"""What DuckDB's plan of a query asks of each table: columns, and filters at and above its scan.

DuckDB hands simple filters to a scan. Others stay above it, such as a prefix or a range that it
made of a function; a plan prunes by those, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

_SCAN = "PYTHON_ARROW_SCAN"


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """One scan: its columns and filters, and the filter right above it, as texts of DuckDB."""

    columns: tuple[str, ...]
    filters: tuple[str, ...]
    above: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DuckPlan:
    """A plan as a tree of nodes."""

    tree: Any

    def scans(self) -> Iterator[PlannedScan]:
        """The scans of tables, first those that stand first in the plan."""
        yield from _scans(self.tree, ())

    def operators(self) -> Iterator[str]:
        """What the nodes are."""
        waiting = [*self.tree]
        while waiting:
            node = waiting.pop()
            yield node["name"].strip()
            waiting += node["children"]

    def lines(self) -> Iterator[str]:
        """The nodes, each below and to the right of the node that it feeds."""
        yield from _lines(self.tree, 0)


def plan_of(connection: duckdb.DuckDBPyConnection, text: str) -> DuckPlan:
    """The plan of a query."""
    found = connection.execute(f"EXPLAIN (FORMAT json) {text}").fetchall()
    return DuckPlan(json.loads(found[0][1]))


def _scans(nodes: Any, above: tuple[str, ...]) -> Iterator[PlannedScan]:
    for node in nodes:
        facts = node["extra_info"]
        if node["name"].strip() == _SCAN:
            filters = _texts(facts.get("Filters"))
            yield PlannedScan(_texts(facts.get("Projections")), filters, above)
        is_filter = node["name"].strip() == "FILTER"
        yield from _scans(node["children"], _texts(facts.get("Expression")) if is_filter else ())


def _lines(nodes: Any, depth: int) -> Iterator[str]:
    for node in nodes:
        facts = [
            f"{name} {', '.join(_texts(value))}"
            for name, value in node["extra_info"].items()
            if name != "Function"
        ]
        yield "  " * depth + f"{node['name'].strip()}: {'; '.join(facts)}"
        yield from _lines(node["children"], depth + 1)


def _texts(found: str | list[str] | None) -> tuple[str, ...]:
    return (found,) if isinstance(found, str) else tuple(found or ())
