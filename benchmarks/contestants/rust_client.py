"""pypaimon-rust by its own interface, in its own environment."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pypaimon_rust.datafusion import PaimonCatalog

from benchmarks.contestants.serving import Outcome, Request, Work, nothing_to_check, serve

_THREADS = 2


def upsert(request: Request) -> Work:
    """Write rows from memory, in their input order, in one commit."""
    batches = pq.read_table(request["input"]).to_batches()

    def work() -> Callable[[], Outcome]:
        builder = _table(request).new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        for batch in batches:
            write.write_arrow(batch)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        return nothing_to_check

    return work


def read(request: Request) -> Work:
    """Read what is asked for into memory, two splits at once."""

    def work() -> Callable[[], Outcome]:
        builder = _asked(request)
        splits = builder.new_scan().plan().splits()
        with ThreadPoolExecutor(_THREADS) as threads:
            parts = list(threads.map(lambda split: builder.new_read().read([split]), splits))
        rows = pa.Table.from_batches([batch for part in parts for batch in part])
        if "below" in request:
            # The filter only chooses what is opened.
            rows = rows.filter(pc.field("id") < request["below"])
        total = rows.column(request["checksum"])
        return lambda: (rows.num_rows, float(pc.sum(total).as_py() or 0.0))

    return work


def plan(request: Request) -> Work:
    """Open the table, and plan a read of what is asked for."""

    def work() -> Callable[[], Outcome]:
        _asked(request).new_scan().plan().splits()
        return nothing_to_check

    return work


def _asked(request: Request) -> Any:
    builder = _table(request).new_read_builder()
    if "day" in request:
        equal = {"method": "equal", "field": "day", "literals": [request["day"]]}
        builder = builder.with_filter(equal)
    if "below" in request:
        below = {"method": "lessThan", "field": "id", "literals": [request["below"]]}
        builder = builder.with_filter(below)
    return builder.with_projection(list(request["select"])) if "select" in request else builder


def _table(request: Request) -> Any:
    catalog = PaimonCatalog({"warehouse": request["warehouse"]})
    return catalog.get_table(tuple(request["table"].split(".", 1)))


if __name__ == "__main__":
    serve({"upsert": upsert, "plan": plan, "read": read})
