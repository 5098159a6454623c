"""Engines by configuration: the same work on this machine, on a cluster, and over Spark Connect.

Each is real: a master and two workers, or a Connect server, in processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog
from tests.engines.on_data_source import ROWS as SAVED
from tests.engines.on_two_tables import TABLES
from tests.support.processes.spark_servers import ROOT, connect_server, standalone_cluster
from tests.support.tables.invariants import assert_only_reachable_files, assert_sound

pytestmark = pytest.mark.deep

COLUMNS = {"dt": "STRING NOT NULL", "id": "BIGINT NOT NULL", "amount": "DECIMAL(10, 2)"}
ROWS = 40
COMMITS = 4


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """An append table and a keyed one, of small files over two days."""
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    plain, keyed = TABLES
    tables = [
        catalog.create_table(plain, COLUMNS, partition_keys=["dt"]),
        catalog.create_table(
            keyed,
            COLUMNS,
            partition_keys=["dt"],
            primary_keys=["dt", "id"],
            options={"bucket": "2"},
        ),
    ]
    for table in tables:
        for commit in range(COMMITS):
            ids = range(commit * 10, commit * 10 + 10)
            rows = {"dt": [f"d{each % 2}" for each in ids], "id": list(ids)}
            amounts = pa.array([f"{each}.50" for each in ids]).cast(pa.decimal128(10, 2))
            table.write(pa.table({**rows, "amount": amounts}))
    return catalog.uri


@contextmanager
def engine(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    """The variables that choose an engine, while it runs."""
    if kind == "local":
        yield {}
    elif kind == "cluster":
        with standalone_cluster(folder) as master:
            yield {"LAKEWRIGHT_SPARK_MASTER": master, "SPARK_LOCAL_IP": "127.0.0.1"}
    else:
        with connect_server(folder) as remote:
            yield {"LAKEWRIGHT_SPARK_REMOTE": remote}


@pytest.mark.parametrize("kind", ["local", "cluster", "connect"])
def test_one_session_reads_and_compacts_two_tables(
    kind: str, warehouse: str, tmp_path: Path
) -> None:
    with engine(kind, tmp_path) as settings:
        seen = done(warehouse, settings)
    expected = [[f"d{each % 2}", each] for each in range(10, ROWS)]
    for rows in seen["reads"]:
        assert sorted((row[:2] for row in rows), key=lambda row: int(row[1])) == expected
    if kind == "cluster":
        # The work was done by both workers, in their folders.
        assert {Path(each).parts[-3] for each in seen["places"]} == {"worker-0", "worker-1"}
    catalog = Catalog.open(warehouse)
    for name in TABLES:
        table = catalog.table(name)
        buckets = {(each.partition, each.bucket) for each in table.at().files()}
        assert len(table.at().files()) == len(buckets)
        assert table.read().num_rows == ROWS
        assert_sound(table)
    sys.stdout.write(f"{kind}: {seen['seconds']}, {seen['processes']} processes\n")


@pytest.mark.parametrize("kind", ["local", "cluster", "connect"])
def test_pyspark_loads_saves_and_streams_by_options_alone(kind: str, tmp_path: Path) -> None:
    with engine(kind, tmp_path) as settings:
        seen = printed("tests.engines.on_data_source", str(tmp_path), settings)
    evens = [["d0", each] for each in range(0, SAVED, 2)]
    odds = [["d1", each] for each in range(1, SAVED, 2)]
    loaded = seen["loaded"]
    assert loaded["db.plain"] == [*evens, *odds[:5]]
    assert loaded["db.keyed"] == [*evens, *odds]
    # The stream begins with what the table holds.
    assert loaded["db.streamed"] == loaded["db.plain"]
    assert seen["filtered"] == 5
    assert seen["told"] == "TableNotFound"
    if kind == "connect":
        assert seen["tags"] == [["lakewright compact db.t"], []]
    assert seen["retried"] is (kind == "cluster")
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    for name, snapshots in (("db.plain", 2), ("db.keyed", 2), ("db.streamed", 1)):
        table = catalog.table(name)
        assert len(table.history.snapshots()) == snapshots
        # Also of the attempt that failed no file is left.
        assert_only_reachable_files(table)
        assert_sound(table)


def test_tasks_over_spark_connect_are_told_while_others_still_work(tmp_path: Path) -> None:
    with engine("connect", tmp_path) as settings:
        told = printed("tests.support.processes.told_tasks", str(tmp_path), settings)
    assert told == {"results": [0, 10, 20, 30], "totals": [4], "done": [4]}


def done(warehouse: str, settings: dict[str, str]) -> Any:
    """What a process of the platform does with an engine."""
    return printed("tests.engines.on_two_tables", warehouse, settings)


def printed(module: str, argument: str, settings: dict[str, str]) -> Any:
    """What a module prints that runs in a process of its own."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    ended = subprocess.run(
        [sys.executable, "-m", module, argument],
        env={**os.environ, "PYTHONPATH": path, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads(ended.stdout.splitlines()[-1])
