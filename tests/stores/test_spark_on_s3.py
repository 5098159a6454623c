"""Spark reads compacted tables on S3 itself where its session can, and by our tasks elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from tests.support.processes.spark_servers import ROOT
from tests.support.stores.servers import INSTALLED, KEY, SECRET
from tests.support.tables.builders import compact, new_table

ROWS = 5_000
S3A = "spark.hadoop.fs.s3a."


def s3a(secret: str = SECRET) -> dict[str, str]:
    """The settings that a session needs for the test's server."""
    return {
        f"{S3A}endpoint": os.environ["AWS_ENDPOINT_URL"],
        f"{S3A}endpoint.region": "us-east-1",
        f"{S3A}path.style.access": "true",
        f"{S3A}access.key": KEY,
        f"{S3A}secret.key": secret,
        f"{S3A}attempts.maximum": "1",
        f"{S3A}retry.limit": "1",
    }


class Session:
    """A Spark session in a process of its own, with Hadoop's client of S3 on its class path."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self, table: Table, where: str | None = None) -> Any:
        warehouse = table.location.rpartition("/db.db/")[0]
        request = {"warehouse": warehouse, "table": table.name, "where": where}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def session(**settings: str) -> Iterator[Session]:
    jars = INSTALLED / "hadoop-aws"
    if not jars.is_dir():
        pytest.skip(f"hadoop-aws is not in {jars}; run make test-stores where mvn is installed")
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with subprocess.Popen(
        [sys.executable, "-m", "tests.stores.spark_on_s3", str(jars)],
        env={**os.environ, "PYTHONPATH": path, "SPARK_SETTINGS": json.dumps(settings)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Session(process)
        assert process.stdin is not None
        process.stdin.close()


def filled(warehouse: str, name: str, **how: Any) -> Table:
    table = new_table(
        Catalog.open(warehouse), {"id": "BIGINT NOT NULL", "day": "STRING"}, name=name, **how
    )
    for part in range(2):
        ids = range(part * ROWS // 2, (part + 1) * ROWS // 2)
        table.write(pa.table({"id": ids, "day": [f"d {number % 3}/%" for number in ids]}))
    return table


@pytest.mark.mission("FS19")
def test_compacted_files_are_spark_s_and_files_to_merge_are_ours(s3: str) -> None:
    plain = filled(s3, "db.plain", partitions=["day"])
    keyed = filled(s3, "db.keyed", keys=["id"], options={"bucket": "2"})
    due = {"count": ROWS, "sum": sum(range(ROWS)), "logged": []}
    with session(**s3a()) as spark:
        found = spark.read(plain)
        assert {name: found[name] for name in due} == due
        assert len(found["files"]) == len(plain.at().files()) == 6
        assert all(file.startswith("s3a://") for file in found["files"])
        some = spark.read(plain, "day = 'd 1/%' AND id < 100")
        assert some["count"] == len([number for number in range(100) if number % 3 == 1])
        merged = spark.read(keyed)
        assert {**merged, "files": []} == {**due, "files": []}
        compact(keyed, full=True)
        found = spark.read(keyed)
        assert {name: found[name] for name in due} == due
        assert len(found["files"]) == 2


@pytest.mark.mission("FS19")
def test_a_file_that_is_gone_is_told_before_spark_begins(s3: str) -> None:
    table = filled(s3, "db.plain", partitions=["day"])
    entry = table.at().files()[-1]
    path = table.table_files.data_file_path(entry.place, entry.file)
    with session(**s3a()) as spark:
        assert spark.read(table)["count"] == ROWS
        table.table_files.fs.delete(path)
        found = spark.read(table)
        assert found["error"] == "FileMissing"
        assert path in found["message"]
        # A file of the length that no Parquet file has would be left out in silence.
        table.table_files.fs.write_bytes(path, b"PAR1")
        assert spark.read(table)["error"] == "CorruptionError"


@pytest.mark.mission("FS19")
@pytest.mark.parametrize(
    ("settings", "reason"),
    [({}, "no setting spark.hadoop.fs.s3a"), ({"secret": "wrong"}, "cannot read s3a://")],
    ids=["without settings", "with a wrong secret"],
)
def test_a_session_that_does_not_reach_the_store_reads_by_our_tasks_and_says_so_once(
    minio: str, settings: dict[str, str], reason: str
) -> None:
    table = filled(minio, "db.plain", partitions=["day"])
    with session(**(s3a(**settings) if settings else {})) as spark:
        found = spark.read(table)
        assert (found["count"], found["sum"], found["files"]) == (ROWS, sum(range(ROWS)), [])
        (line,) = found["logged"]
        assert reason in line
        assert SECRET not in line
        assert spark.read(table)["logged"] == []
