"""One process with one session, which comes from the configuration: reads and compacts two tables.

`python -m tests.engines.on_two_tables WAREHOUSE` prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakewright.definitions import build_definitions
from lakewright.platform.orchestration.names import UPKEEP, UpkeepNames
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.storage import Catalog

TABLES = ("db.plain", "db.keyed")


def main(warehouse: str) -> dict[str, Any]:
    began = time.perf_counter()
    spark = SparkResource().session()
    seconds = {"session": time.perf_counter() - began}

    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"place": [str(Path.cwd())], "process": [os.getpid()]})

    tasks = spark.range(0, 8, 1, 8).mapInArrow(where, "place string, process long").collect()
    catalog = Catalog.open(warehouse)
    reads = []
    for moment in ("before", "after"):
        began = time.perf_counter()
        for name in TABLES:
            frame = catalog.table(name).to_spark(spark, where="id >= 10")
            reads.append(sorted(tuple(row) for row in frame.collect()))
        seconds[f"reads {moment}"] = time.perf_counter() - began
        if moment == "before":
            began = time.perf_counter()
            _compact(warehouse)
            seconds["compaction of both"] = time.perf_counter() - began
    return {
        "places": sorted({row["place"] for row in tasks}),
        "driver": os.getpid(),
        "processes": len({row["process"] for row in tasks}),
        "reads": reads,
        "seconds": {name: round(each, 1) for name, each in seconds.items()},
    }


def _compact(warehouse: str) -> None:
    """As the upkeep sensor asks for it: one run of Dagster's job for both tables."""
    definitions = build_definitions(
        [], warehouse=WarehouseResource(uri=warehouse), adopted=["db.*"]
    )
    wanted = {"engine": "spark", "full": True}
    config = {"tables": dict.fromkeys(TABLES, wanted)}
    job = definitions.resolve_job_def(UPKEEP)
    ended = job.execute_in_process(run_config=UpkeepNames().run_config("compact", config))
    assert ended.success


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1]), default=str) + "\n")
