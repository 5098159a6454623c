"""Dagster's runs on a cluster and over Spark Connect: launched as in production, by configuration.

A `dagster dev` of its own with the settings of the project: its web server takes the backfill, its
queue and launcher begin the run, and its sensor asks for the compaction.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakewright.demo.dagster_server import DagsterServer
from lakewright.storage import Catalog
from lakewright.storage.env import SystemEnv
from tests.engines.telling_source import ROWS_A_DAY
from tests.engines.test_engines import engine
from tests.support.processes.spark_servers import ROOT
from tests.support.tables.builders import rows as rows_of
from tests.support.tables.invariants import assert_sound

pytestmark = pytest.mark.deep

DECLARED = """\
table: shop.events
columns:
  - {name: dt, type: STRING NOT NULL}
  - {name: id, type: BIGINT NOT NULL}
  - {name: session, type: STRING}
  - {name: place, type: STRING}
partition_keys: [dt]
partitions: {daily: {column: dt, start: 2024-01-01, end: 2024-02-01}}
source: {python: "tests.engines.telling_source:rows"}
write: {engine: spark}
expectations:
  - {expect: expect_column_values_to_be_between, column: id, min_value: 0}
  - {name: places, sql: "SELECT id FROM batch WHERE place IS NULL"}
maintenance:
  compaction: {engine: spark, min_bytes: 0 b, small_files: 3, interval: 5s, enabled: true}
  snapshots: {enabled: false}
  manifests: {enabled: false}
  orphans: {enabled: false}
"""
DAYS = ("2024-01-01", "2024-01-02")
COMMITS = 4
PATIENCE_MS = 600_000


@pytest.mark.parametrize("kind", ["cluster", "connect"])
def test_a_declared_table_is_ingested_and_compacted_there_by_runs_of_dagster(
    kind: str, tmp_path: Path
) -> None:
    for name in ("home", "tables", "spark"):
        (tmp_path / name).mkdir()
    (tmp_path / "tables" / "events.yaml").write_text(DECLARED)
    settings = (ROOT / "dagster_home" / "dagster.yaml").read_text()
    (tmp_path / "home" / "dagster.yaml").write_text(settings)
    with engine(kind, tmp_path / "spark") as chosen:
        environment = {
            "LAKEWRIGHT_TABLES": str(tmp_path / "tables"),
            "LAKEWRIGHT_WAREHOUSE": str(tmp_path / "warehouse"),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            **chosen,
        }
        if kind == "connect":
            # A session of this machine could not begin without Java.
            environment["JAVA_HOME"] = str(tmp_path / "no-java")
        with DagsterServer(None, tmp_path / "home", environment) as server:
            ingested = server.launch_assets(["shop.events"], partitions=DAYS)
            until_done(server, ingested)
            table = Catalog.open(str(tmp_path / "warehouse")).table("shop.events")
            rows = table.read().to_pylist()
            assert sorted(each["id"] for each in rows) == list(range(ROWS_A_DAY * len(DAYS)))
            before = applications(tmp_path / "spark")
            if kind == "cluster":
                assert {each["session"] for each in rows} == {"pyspark.sql.session"}
                assert {Path(each["place"]).parts[-3] for each in rows} == {"worker-0", "worker-1"}
            else:
                assert {each["session"] for each in rows} == {"pyspark.sql.connect.session"}
            for number in range(COMMITS):
                table.write(rows_of(table, [{"dt": DAYS[0], "id": 1000 + number}]))
            compacted = asked_for(server, "compact")
            until_done(server, compacted)
            assert server.observed(compacted)["lakewright/engine"] == "spark"
            if kind == "cluster":
                # The compaction was an application of its own on the workers.
                assert applications(tmp_path / "spark") - before
    assert len(table.at().files(where=f"dt = '{DAYS[0]}'")) == 1
    assert table.read().num_rows == ROWS_A_DAY * len(DAYS) + COMMITS
    assert_sound(table)


def applications(folder: Path) -> set[str]:
    """The applications for which workers have worked."""
    return {each.name for each in folder.glob("worker-*/app-*")}


def asked_for(server: DagsterServer, job: str) -> str:
    """The first run of a job that somebody asks for."""
    env = SystemEnv()
    ends_ms = env.now_ms() + PATIENCE_MS
    while env.now_ms() < ends_ms:
        for each in server.runs():
            if each.job == job:
                return each.id
        env.sleep_ms(500)
    raise AssertionError(f"no run of {job}: {server.last_tick('upkeep_sensor')}")


def until_done(server: DagsterServer, run: str) -> None:
    """Wait for a run to end well."""
    env = SystemEnv()
    ends_ms = env.now_ms() + PATIENCE_MS
    while env.now_ms() < ends_ms:
        (status,) = [each.status for each in server.runs() if each.id == run]
        if status in ("SUCCESS", "FAILURE", "CANCELED"):
            assert status == "SUCCESS", server.failure_of(run)
            return
        env.sleep_ms(500)
    raise AssertionError(f"run {run} has not ended: {server.log.read_text()[-4000:]}")
