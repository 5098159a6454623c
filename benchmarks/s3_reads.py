"""Reads of compacted tables on S3 in Spark: `python -m benchmarks.s3_reads JARS [FILES…]`.

A table has so many files: one of 100 MB, up to a hundred of 1 MB, or more of 4 KB. A MinIO server
on this machine holds it, and `local[2]` aggregates a column. `own` is Spark's reader, which is
handed the files by way of `s3a`; `tasks` are our Python tasks. Lines of JSON for each count and
reader: seconds, and CPU seconds with those of the server, as medians of five reads after a first
one, in turns. JARS is a folder with hadoop-aws and what it needs (`tests/stores/install.py FOLDER
hadoop-aws minio`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks.measure import measured
from lakewright.storage import Catalog, Table
from lakewright.storage.files.clients import client
from lakewright.storage.operations.running.concurrency import map_ahead
from lakewright.storage.spark import build_session, read
from tests.support.stores.servers import KEY, SECRET, minio_server

_S3A = "spark.hadoop.fs.s3a."
# Files up to which a table has so many rows a file.
_SIZES = ((1, 9_000_000), (100, 90_000), (10**6, 300))
_TIMES = 5
_COPIES_AT_ONCE = 16


def make_table(files: int, warehouse: str) -> Table:
    """A table of one file under many names: each is an object of its own."""
    rows = next(rows for most, rows in _SIZES if files <= most)
    random = np.random.default_rng(7)
    table = Catalog.open(warehouse).create_table(
        f"bench.of_{files}", {"id": "BIGINT", "value": "DOUBLE"}
    )
    staged = table.stage(pa.table({"id": np.arange(rows), "value": random.random(rows)}))
    (message,) = staged.messages
    (file,) = message.new_files
    folder, fs = table.table_files.bucket_dir(message.place), table.table_files.fs
    names = [f"data-{number}-{file.file_name}" for number in range(1, files)]

    def copy(name: str) -> int:
        return fs.copy(f"{folder}/{file.file_name}", f"{folder}/{name}")

    list(map_ahead(table.table_files.env, copy, names, at_once=_COPIES_AT_ONCE))
    many = (file, *(replace(file, file_name=name) for name in names))
    table.commit(replace(staged, messages=(replace(message, new_files=many),)))
    return table


def readers(spark: SparkSession, table: Table) -> dict[str, Callable[[], float]]:
    """The sum of a column, by each reader."""
    own, small = read.handed_base, read.SMALL_FILE_BYTES

    def reading(base: Callable[..., str | None], small: int) -> Callable[[], float]:
        def total() -> float:
            read.handed_base, read.SMALL_FILE_BYTES = base, small
            found = table.to_spark(spark).agg(f.sum("value")).collect()[0][0]
            return float(found)

        return total

    return {"own": reading(own, 0), "tasks": reading(lambda *_: None, small)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jars", type=Path)
    parser.add_argument("files", type=int, nargs="*", default=[1, 100, 10_000])
    arguments = parser.parse_args()
    with minio_server() as address:
        os.environ |= {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": address,
        }
        client("s3", use_listings_cache=False).call_s3("create_bucket", Bucket="bench")
        settings = {
            "spark.jars": ",".join(map(str, sorted(arguments.jars.glob("*.jar")))),
            f"{_S3A}endpoint": address,
            f"{_S3A}endpoint.region": "us-east-1",
            f"{_S3A}path.style.access": "true",
            f"{_S3A}access.key": KEY,
            f"{_S3A}secret.key": SECRET,
        }
        spark = build_session("s3", master="local[2]", conf=settings)
        for files in arguments.files:
            both = readers(spark, make_table(files, "s3://bench/warehouse"))
            totals = {name: total() for name, total in both.items()}
            assert len({round(total, 3) for total in totals.values()}) == 1, totals
            taken: dict[str, list[dict[str, float]]] = {name: [] for name in both}
            for _ in range(_TIMES):
                for name, total in both.items():
                    taken[name].append(measured(total)[1])
            for name, times in taken.items():
                line: dict[str, object] = {"files": files, "reader": name}
                for figure in ("seconds", "cpu_seconds"):
                    line[figure] = round(statistics.median(each[figure] for each in times), 2)
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
