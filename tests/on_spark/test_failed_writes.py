"""Writes of DataFrames that fail while some of their tasks are still at work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from lakewright.storage import Catalog
from lakewright.storage.env import SystemEnv
from lakewright.storage.spark.running_tasks import ended_if_it_fails
from tests.support.tables.builders import new_table
from tests.support.tables.invariants import assert_only_reachable_files

_LONGEST_WAIT_SECONDS = 120


@pytest.mark.deep
def test_no_task_of_a_failed_job_runs_after_the_failure(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One task fails as soon as another one is at work; that one acts a second later."""
    at_work, acted = tmp_path / "at_work", tmp_path / "acted"

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column(0)[0].as_py() == 0:
                at_work.touch()
                time.sleep(1)
                acted.touch()
                yield batch
                continue
            until = time.monotonic() + _LONGEST_WAIT_SECONDS
            while not at_work.exists() and time.monotonic() < until:
                time.sleep(0.01)
            raise ValueError("this source is broken")

    frame = spark.range(0, 2, 1, 2).mapInArrow(run, "id long")
    failed = pytest.raises(PythonException, match="this source is broken")
    with failed, ended_if_it_fails(spark, "a failing job", SystemEnv()):
        frame.collect()
    has_acted = acted.exists()
    time.sleep(3)
    assert acted.exists() is has_acted


def test_a_write_whose_source_fails_leaves_nothing(catalog: Catalog, spark: SparkSession) -> None:
    table = new_table(catalog, {"id": "BIGINT"})

    def rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if batch.column(0)[0].as_py() == 1:
                raise ValueError("this source is broken")

    with pytest.raises(PythonException, match="this source is broken"):
        table.write(spark.range(0, 2, 1, 2).mapInArrow(rows_of, "id long"))
    assert_only_reachable_files(table)
    assert table.history.latest_snapshot() is None


def test_the_tags_of_jobs_are_those_of_the_caller_after_a_write(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, {"id": "BIGINT"})
    spark.sparkContext.addJobTag("of the caller")
    try:
        table.write(spark.range(3))
        assert list(spark.sparkContext.getJobTags()) == ["of the caller"]
    finally:
        spark.sparkContext.removeJobTag("of the caller")
