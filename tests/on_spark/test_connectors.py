"""Connectors in Spark's tasks: the suites, streams, and SELECT with Spark's dialect."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lakewright.connectors import on_spark
from lakewright.connectors.datagen import Datagen
from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.filesystem.connector import Filesystem
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.testing import SparkSinkSuite, SparkSourceSuite
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.spark import SparkSession

pytestmark = pytest.mark.spark

_ROWS = [{"id": at, "name": f"n{at}"} for at in range(1, 4)]


@pytest.fixture(autouse=True)
def _on(spark: SparkSession) -> None:
    """The one session of the tests."""


class TestDatagenOnSpark(SparkSourceSuite):
    factory = Datagen()
    columns: ClassVar = {"id": "BIGINT"}
    options: ClassVar = {
        "fields.id.kind": "sequence",
        "fields.id.start": "1",
        "fields.id.end": "300",
    }
    rows: ClassVar = [{"id": at} for at in range(1, 301)]

    def test_filters_take_the_rows_that_they_are_true_for(self) -> None:
        """Tried with fewer rows elsewhere."""
        assert len(self._read(ScanRequest(limit=5))) == 5


class TestFilesOnSpark(SparkSinkSuite):
    factory = Filesystem()
    columns: ClassVar = {"id": "BIGINT", "name": "STRING"}
    rows: ClassVar = _ROWS
    folder: Path

    @pytest.fixture(autouse=True)
    def _opened(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "files"

    def given_options(self) -> Mapping[str, str]:
        return {"path": str(self.folder), "format": "parquet"}

    def written(self) -> Sequence[Mapping[str, Any]]:
        planned = plan_scan(self.context(), ScanRequest())
        return [row for piece in planned.rows() for row in piece.to_pylist()]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    files = tmp_path / "files"
    session.sql(f"""
        CREATE DATABASE db; USE db;
        CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000',
          'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000');
        CREATE TABLE endless (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '500',
          'fields.id.min' = '1', 'fields.id.max' = '9');
        CREATE TABLE files (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{files}',
          'format' = 'json')
    """)
    return session


@pytest.mark.mission("CN14")
def test_a_stream_of_a_connector_goes_into_another_with_admission_control(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    externals = ExternalTables(session.catalog)
    rows = on_spark.read_stream_frame(
        spark, plan_scan(externals.context("db.numbers"), ScanRequest()), max_rows=300
    )
    query = on_spark.write_stream_frame(
        rows,
        plan_write(externals.context("db.files"), WriteRequest()),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
    )
    query.awaitTermination(120)
    assert session.sql("SELECT count(*), count(DISTINCT id) FROM files").rows.to_pylist() == [
        {"count_star()": 1000, "count(DISTINCT id)": 1000}
    ]
    batches = {int(each.name.split("batch")[1][0]) for each in (tmp_path / "files").glob("part-*")}
    assert batches == {0, 1, 2, 3}


# The suite of datagen tries one that is stopped after any batch.
@pytest.mark.deep
def test_a_stream_without_an_end_is_stopped_and_goes_on(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    externals = ExternalTables(session.catalog)

    def run_until(count: int) -> int:
        rows = on_spark.read_stream_frame(
            spark, plan_scan(externals.context("db.endless"), ScanRequest())
        )
        query = on_spark.write_stream_frame(
            rows,
            plan_write(externals.context("db.files"), WriteRequest()),
            checkpoint=str(tmp_path / "checkpoint"),
            interval="0 seconds",
        )
        deadline = time.monotonic() + 60
        found = 0
        while found < count and time.monotonic() < deadline:
            time.sleep(0.5)
            found = session.sql("SELECT count(*) AS n FROM files").rows.to_pylist()[0]["n"]
        query.stop()
        return found

    first = run_until(100)
    assert first >= 100
    assert run_until(first + 100) >= first + 100


def test_sparks_dialect_reads_external_tables(session: Session) -> None:
    session.sql("SET 'query.engine' = 'spark'")
    found = session.sql("SELECT id % 10 AS d, count(*) AS n FROM numbers GROUP BY 1 ORDER BY 1")
    assert [row["n"] for row in found.rows.to_pylist()] == [100] * 10


def test_batches_of_spark_are_in_a_managed_table_once(
    session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    session.sql("CREATE TABLE kept (id BIGINT)")
    externals = ExternalTables(session.catalog)

    def drain() -> None:
        rows = on_spark.read_stream_frame(
            spark, plan_scan(externals.context("db.numbers"), ScanRequest()), max_rows=400
        )
        on_spark.write_stream_frame(
            rows,
            plan_write(externals.managed_context("db.kept"), WriteRequest()),
            checkpoint=str(tmp_path / "checkpoint"),
            available_now=True,
        ).awaitTermination(120)

    drain()
    # Spark forgets that the last batch was committed, and repeats it.
    for name in ("2", ".2.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    drain()
    found = session.sql("SELECT count(*), count(DISTINCT id) FROM kept").rows.to_pylist()
    assert found == [{"count_star()": 1000, "count(DISTINCT id)": 1000}]
    assert len(session.catalog.table("db.kept").history.snapshots()) == 3


# One batch put back is tried in test_streaming.py, one repeated above.
@pytest.mark.deep
@pytest.mark.parametrize("sink", ["files", "managed"])
def test_a_checkpoint_of_spark_that_was_put_back_loses_no_row(
    session: Session, spark: SparkSession, tmp_path: Path, sink: str
) -> None:
    externals, kept = ExternalTables(session.catalog), tmp_path / "checkpoint"
    (tmp_path / "in").mkdir()
    session.sql(f"""
        CREATE TABLE managed (id BIGINT);
        CREATE TABLE arriving (id BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json',
          'path' = '{tmp_path / "in"}', 'source.monitor-interval' = '1 s')
    """)

    known = externals.managed_context if sink == "managed" else externals.context

    def drain(number: int) -> list[int]:
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"id": {number}}}')
        on_spark.write_stream_frame(
            on_spark.read_stream_frame(
                spark, plan_scan(externals.context("db.arriving"), ScanRequest())
            ),
            plan_write(known(f"db.{sink}"), WriteRequest()),
            checkpoint=str(kept),
            available_now=True,
        ).awaitTermination(120)
        return sorted(session.sql(f"SELECT id FROM {sink}").rows.column("id").to_pylist())

    assert drain(1) == [1]
    assert drain(2) == [1, 2]
    shutil.copytree(kept, tmp_path / "older")
    # Spark forgets that the last batch was committed, and repeats it.
    for name in ("1", ".1.crc"):
        (kept / "commits" / name).unlink()
    assert drain(3) == [1, 2, 3]
    newest = shutil.move(kept, tmp_path / "newest")
    shutil.copytree(tmp_path / "older", kept)
    # Batch 2 reads more files than the one that is there.
    older = r"batches 0 to 2 .* is an older one" if sink == "files" else "is back at batch 2"
    with pytest.raises(Exception, match=older):
        drain(4)
    shutil.rmtree(kept)
    with pytest.raises(Exception, match=r"checkpoint .*was deleted"):
        drain(5)
    shutil.rmtree(kept)
    shutil.move(newest, kept)
    assert drain(6) == [1, 2, 3, 4, 5, 6]
