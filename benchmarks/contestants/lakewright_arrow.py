"""Lakewright in one process, rows as Arrow tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.contestants.serving import (
    Outcome,
    Request,
    Work,
    nothing_to_check,
    serve,
    where,
)
from lakewright.storage import Catalog, Table


def upsert(request: Request) -> Work:
    """Write rows from memory, in their input order, in one commit."""
    table = _table(request)
    rows = pq.read_table(request["input"])

    def work() -> Callable[[], Outcome]:
        table.write(rows)
        return nothing_to_check

    return work


def plan(request: Request) -> Work:
    """Open the table, and plan a read of what is asked for."""

    def work() -> Callable[[], Outcome]:
        scan = _table(request).scan(where(request), request.get("select"))
        return lambda: (sum(len(split.files) for split in scan.splits), None)

    return work


def plan_again(request: Request) -> Work:
    """Plan with a table that has planned the same before."""
    table = _table(request)
    table.scan(where(request))

    def work() -> Callable[[], Outcome]:
        scan = table.scan(where(request))
        return lambda: (sum(len(split.files) for split in scan.splits), None)

    return work


def read(request: Request) -> Work:
    """Read the table, or what is asked for of it, into memory."""

    def work() -> Callable[[], Outcome]:
        rows = _table(request).read(where(request), request.get("select"))
        return lambda: outcome(rows, request)

    return work


def read_batches(request: Request) -> Work:
    """Read the table piece by piece, and drop each piece before the next."""

    def work() -> Callable[[], Outcome]:
        count, total = 0, 0.0
        for rows in _table(request).scan().batches():
            found, part = outcome(rows, request)
            count, total = count + (found or 0), total + (part or 0.0)
        return lambda: (count, total)

    return work


def compact(request: Request, verify: str = "checksums") -> Work:
    """Compact everything to the top level, with the usual or another level of verification."""

    def work() -> Callable[[], Outcome]:
        table = _table(request)
        result = table.upkeep.run(table.upkeep.plan_compact(full=True), verify=verify)
        return lambda: (result.rows_after, None)

    return work


def outcome(rows: pa.Table, request: Request) -> Outcome:
    """Row count and checksum of the result."""
    total = pc.sum(rows.column(request["checksum"])).as_py()
    return rows.num_rows, float(total or 0.0)


def _table(request: Request) -> Table:
    return Catalog.open(request["warehouse"]).table(request["table"])


if __name__ == "__main__":
    serve(
        {
            "upsert": upsert,
            "plan": plan,
            "plan_again": plan_again,
            "read": read,
            "read_batches": read_batches,
            "compact": compact,
            "compact_counts": partial(compact, verify="counts"),
            "compact_full": partial(compact, verify="full"),
        }
    )
