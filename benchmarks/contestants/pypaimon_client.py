"""pypaimon in its own environment; with `--native` it plans, reads, writes and commits in Rust."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pypaimon import CatalogFactory

from benchmarks.contestants.serving import Outcome, Request, Work, nothing_to_check, serve

NATIVE_OPTIONS = {
    "scan.native-plan.enabled": "true",
    "read.native.enabled": "true",
    "write.native.enabled": "true",
    "commit.native.enabled": "true",
}


class Pypaimon:
    """The operations of pypaimon."""

    def __init__(self, *, native: bool) -> None:
        self._options = NATIVE_OPTIONS if native else {}

    def upsert(self, request: Request) -> Work:
        rows = pq.read_table(request["input"])

        def work() -> Callable[[], Outcome]:
            builder = self._table(request).new_batch_write_builder()
            write, commit = builder.new_write(), builder.new_commit()
            write.write_arrow(rows)
            commit.commit(write.prepare_commit())
            write.close()
            commit.close()
            return nothing_to_check

        return work

    def read(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            builder = self._asked(request)
            rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
            total = rows.column(request["checksum"])
            return lambda: (rows.num_rows, float(pc.sum(total).as_py() or 0.0))

        return work

    def plan(self, request: Request) -> Work:
        def work() -> Callable[[], Outcome]:
            splits = self._asked(request).new_scan().plan().splits()
            return lambda: (sum(len(split.files) for split in splits), None)

        return work

    def _asked(self, request: Request) -> Any:
        builder = self._table(request).new_read_builder()
        if "day" in request:
            predicates = builder.new_predicate_builder()
            builder = builder.with_filter(predicates.equal("day", request["day"]))
        if "below" in request:
            predicates = builder.new_predicate_builder()
            builder = builder.with_filter(predicates.less_than("id", request["below"]))
        if "select" in request:
            builder = builder.with_projection(list(request["select"]))
        return builder

    def _table(self, request: Request) -> Any:
        table = CatalogFactory.create({"warehouse": request["warehouse"]}).get_table(
            request["table"]
        )
        return table.copy(self._options) if self._options else table


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--native", help="the folder that holds pypaimon_rust")
    native = parser.parse_args().native
    if native is not None:
        sys.path.append(native)
    client = Pypaimon(native=native is not None)
    serve({"upsert": client.upsert, "plan": client.plan, "read": client.read})


if __name__ == "__main__":
    main()
