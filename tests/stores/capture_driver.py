"""A stream of its own, which a test kills: from db.src into db.dst, in small batches."""

from __future__ import annotations

import sys

from lakewright.connectors import ExternalTables
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.stream import run_stream
from lakewright.storage import Catalog


def main(warehouse: str, checkpoint: str, max_rows: str) -> None:
    externals = ExternalTables(Catalog.open(warehouse))
    scan = plan_scan(externals.context("db.src"), ScanRequest())
    request = WriteRequest(mode=scan.mode, source_name="db.src")
    sink = plan_write(externals.managed_context("db.dst"), request)
    sys.stdout.write("begins\n")
    sys.stdout.flush()
    env = externals.catalog.env
    for batch in run_stream(scan, sink, env, checkpoint=checkpoint, max_rows=int(max_rows)):
        sys.stdout.write(f"{batch.number} {batch.end['phase']}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
