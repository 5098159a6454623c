"""One Spark session for all, and tables on disk that executors reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakewright.storage import Catalog
from lakewright.storage.spark import build_session
from tests.oracles.fixtures import java_latest
from tests.support.tables.fixtures import check_all_tables

__all__ = ["any_spark", "catalog", "java_latest", "spark"]

# What somebody else's session may be set to; no answer may depend on it.
HOSTILE = {
    "spark.sql.session.timeZone": "America/Los_Angeles",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """Shared with every other test of the process, so it is never stopped here."""
    conf = {
        "spark.python.daemon.module": "tests.support.processes.spark_daemon",
        # Each is a task, and of streams a store of state too.
        "spark.sql.shuffle.partitions": "2",
    }
    return build_session("lakewright-tests", master="local[2]", conf=conf)


@pytest.fixture(params=["usual", "hostile"])
def any_spark(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """The session as we set it, and as somebody else might have."""
    before = {key: spark.conf.get(key, None) for key in HOSTILE}
    if request.param == "hostile":
        for key, value in HOSTILE.items():
            spark.conf.set(key, value)
    yield spark
    for key, old in before.items():
        if old:
            spark.conf.set(key, old)
        else:
            spark.conf.unset(key)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A warehouse whose path holds what Spark might take for a pattern or an escape."""
    # Ids must differ between processes, so the machine's own are taken.
    opened = Catalog.open(str(tmp_path / "a b%20{x,y}*[z]?=#1"))
    yield opened
    check_all_tables(opened)
