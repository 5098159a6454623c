"""A run of a declared stream that dies once it committed a batch of some number."""

from __future__ import annotations

import os
import signal
import sys

from lakewright.platform.ingest.drain_stream import StreamDrain
from lakewright.platform.orchestration.dagster_checks import check_for_dagster
from lakewright.platform.tables.open_declared import open_declared
from lakewright.platform.tables.workspace import read_workspace
from lakewright.storage import Catalog
from lakewright.storage.spark import build_session
from lakewright.storage.spec.stream import CommittedBatch


def main(declarations: str, warehouse: str, number: str) -> None:
    catalog = Catalog.open(warehouse)
    (declaration,) = read_workspace([declarations], check=check_for_dagster).declarations
    table, _ = open_declared(catalog, declaration)
    spark = build_session("lakewright-stream-kills", master="local[2]")

    def tell(batch: CommittedBatch) -> None:
        # Spark does not know yet that the batch has ended.
        if batch.number == int(number):
            os.kill(os.getpid(), signal.SIGKILL)

    StreamDrain(
        declaration=declaration,
        table=table,
        session=lambda: spark,
        find_table=catalog.table,
        catalog=catalog,
        tell=tell,
    ).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
