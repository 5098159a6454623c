"""One process with one session: loads, saves and streams a table by `format("lakewright")`.

`python -m tests.engines.on_data_source FOLDER` prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from lakewright.platform.orchestration.resources import SparkResource
from lakewright.storage import Catalog
from lakewright.storage.data_source import FORMAT
from lakewright.storage.spark import error_of
from lakewright.storage.spark.running_tasks import context_of
from lakewright.storage.spark.told_actions import named

COLUMNS = {"dt": "STRING NOT NULL", "id": "BIGINT NOT NULL"}
ROWS = 200


def main(folder: str) -> dict[str, Any]:
    spark = SparkResource().session()
    warehouse = str(Path(folder) / "warehouse")
    catalog = Catalog.open(warehouse)
    options = {"bucket": "2"}
    for name in ("db.plain", "db.streamed"):
        catalog.create_table(name, COLUMNS, partition_keys=["dt"])
    catalog.create_table(
        "db.keyed", COLUMNS, partition_keys=["dt"], primary_keys=["dt", "id"], options=options
    )

    def save(frame: DataFrame, name: str, mode: str = "append") -> None:
        frame.write.format(FORMAT).mode(mode).option("warehouse", warehouse).save(name)

    def load(name: str, **given: str) -> DataFrame:
        return spark.read.format(FORMAT).options(warehouse=warehouse, **given).load(name)

    rows = spark.range(0, ROWS, 1, 4).selectExpr("concat('d', id % 2) AS dt", "id")

    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        # After its rows: the writer of the first attempt has begun files by then.
        if context is not None and context.attemptNumber() == 0 and context.partitionId() == 1:
            raise RuntimeError("the first attempt fails")

    may_retry = not (spark.conf.get("spark.master", "local") or "local").startswith("local")
    save(rows.mapInArrow(fails_once, rows.schema) if may_retry else rows, "db.plain")
    for _ in range(2):
        save(rows, "db.keyed")
    save(rows.where("dt = 'd1' AND id < 10"), "db.plain", "overwrite")

    reader = spark.readStream.format(FORMAT).option("warehouse", warehouse)
    writer = reader.load("db.plain").writeStream.format(FORMAT).option("table", "db.streamed")
    writer = writer.options(warehouse=warehouse, checkpointLocation=str(Path(folder) / "at"))
    writer.trigger(availableNow=True).start().awaitTermination()

    try:
        load("db.none")
        load("db.none").collect()
        told = None
    except PySparkException as error:
        told = error_of(error)
    tags = []
    if context_of(spark) is None:
        with named(spark, "lakewright compact db.t"):
            tags.append(sorted(spark.getTags()))
        tags.append(sorted(spark.getTags()))
    return {
        "loaded": {
            name: sorted(tuple(row) for row in load(name).collect())
            for name in ("db.plain", "db.keyed", "db.streamed")
        },
        "filtered": load("db.keyed", where="dt = 'd0'", columns="id").where("id >= 190").count(),
        "told": type(told).__name__,
        "tags": tags,
        "retried": may_retry,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1]), default=str) + "\n")
