"""A streaming query of its own, which a test kills: warehouse, folder of files, checkpoint."""

from __future__ import annotations

import sys

from lakewright.storage import Catalog
from lakewright.storage.spark import build_session


def main(warehouse: str, feed: str, checkpoint: str) -> None:
    table = Catalog.open(warehouse).table("db.t")
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    spark = build_session("lakewright-stream-kills", master="local[2]", conf=conf)
    rows = spark.readStream.schema("id long, day string").option("maxFilesPerTrigger", 1)
    query = table.write_stream(rows.json(feed), checkpoint=checkpoint, trigger="available-now")
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
