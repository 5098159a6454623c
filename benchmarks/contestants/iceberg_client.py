"""pyiceberg in its own environment, with a catalog in SQLite."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue

from benchmarks.contestants.serving import Outcome, Request, Work, serve, where


def open_catalog(warehouse: str) -> Any:
    """The catalog of a folder."""
    uri = f"sqlite:///{warehouse}/catalog.db"
    return SqlCatalog("bench", uri=uri, warehouse=f"file://{warehouse}")


def plan(request: Request) -> Work:
    """Open the table, and plan a read of what is asked for."""

    def work() -> Callable[[], Outcome]:
        table = open_catalog(request["warehouse"]).load_table(request["table"])
        tasks = list(table.scan(row_filter=where(request) or AlwaysTrue()).plan_files())
        return lambda: (len(tasks), None)

    return work


if __name__ == "__main__":
    serve({"plan": plan})
