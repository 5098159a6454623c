"""Streaming jobs of Flink beside our upkeep: their rows are there once, for them and for us."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from lakewright.session import Session
from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import StalePlan
from tests.flink.conftest import FOLDER
from tests.flink.flink_sql import FlinkSql
from tests.support.tables.builders import compact, expire

_ROWS = 60_000
_SECONDS = 120


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog.open(str(tmp_path / "warehouse"))
    made.create_database("db")
    return made


@pytest.fixture
def flink_sql(catalog: Catalog, tmp_path: Path) -> FlinkSql:
    return FlinkSql(FOLDER, str(tmp_path / "warehouse"), tmp_path)


def counting(table: str, *, per_second: int, rows: int = _ROWS) -> str:
    """A job that writes the numbers 1 to `rows`, each in one of three groups."""
    return f"""
        CREATE TEMPORARY TABLE numbers (id BIGINT) WITH (
          'connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
          'fields.id.end' = '{rows}', 'rows-per-second' = '{per_second}');
        INSERT INTO db.{table}
          SELECT id, CAST(id % 3 AS STRING), CAST(id % 7 AS STRING) FROM numbers;
    """


def make(catalog: Catalog, name: str, *, key: str = "", options: str = "") -> Table:
    key = f", PRIMARY KEY ({key}) NOT ENFORCED" if key else ""
    Session(catalog).sql(
        f"CREATE TABLE db.{name} (id BIGINT NOT NULL, g STRING NOT NULL, h STRING NOT NULL{key}) "
        f"PARTITIONED BY (g) WITH ({options}'bucket' = '2', 'bucket-key' = 'id')"
    )
    return catalog.table(f"db.{name}")


def beside(is_running: Callable[[], bool], *upkeep: Callable[[], object]) -> int:
    """Upkeep again and again while a job runs; how many rounds there were."""
    rounds = 0
    while is_running():
        for each in upkeep:
            each()
        rounds += 1
        time.sleep(0.5)
    return rounds


def ids(catalog: Catalog, name: str) -> list[int]:
    return sorted(catalog.table(f"db.{name}").read(columns=["id"]).column("id").to_pylist())


def change_keys(catalog: Catalog, column: str) -> None:
    """Change the partition keys, and again where the job came in between."""
    for _ in range(20):
        with suppress(StalePlan):
            catalog.table("db.kept").upkeep.respec([column])
            return
    raise AssertionError("the keys never changed")


def wait_for(condition: Callable[[], object], job: subprocess.Popen[bytes]) -> None:
    """Wait until a job that runs has come so far."""
    until = time.monotonic() + _SECONDS
    while not condition():
        assert job.poll() is None, "the job has ended"
        assert time.monotonic() < until
        time.sleep(0.5)


@pytest.mark.parametrize("key", ["", "id, g, h"], ids=["append", "keyed"])
def test_a_job_beside_upkeep_loses_nothing_and_is_not_failed(
    catalog: Catalog, flink_sql: FlinkSql, key: str
) -> None:
    table = make(catalog, "kept", key=key)

    def keep() -> None:
        compact(table)
        expire(table, keep=3)
        table.upkeep.rewrite_manifests()

    with flink_sql.job(counting("kept", per_second=6_000)) as job:
        assert beside(lambda: job.poll() is None, keep) > 2
        flink_sql.ended(job)
    assert ids(catalog, "kept") == list(range(1, _ROWS + 1))
    assert flink_sql.rows("SELECT count(*), count(DISTINCT id) FROM db.kept") == [
        (str(_ROWS), str(_ROWS))
    ]


def test_partition_keys_of_an_append_table_change_amid_a_job(
    catalog: Catalog, flink_sql: FlinkSql
) -> None:
    make(catalog, "kept")
    with flink_sql.job(counting("kept", per_second=6_000)) as job:
        wait_for(lambda: ids(catalog, "kept"), job)
        change_keys(catalog, "h")
        assert job.poll() is None, "the job was to run on"
        flink_sql.ended(job)
    # What the job committed in its own layout comes over.
    change_keys(catalog, "h")
    check_by_h(catalog, flink_sql)


def test_a_job_into_a_keyed_table_is_started_anew_when_the_partition_keys_have_changed(
    catalog: Catalog, flink_sql: FlinkSql
) -> None:
    make(catalog, "kept", key="id, g, h")
    with flink_sql.job(counting("kept", per_second=6_000)) as job:
        wait_for(lambda: ids(catalog, "kept"), job)
        change_keys(catalog, "h")
        # Flink's writer fails at partitions of other keys, and restarts with what it knew.
        time.sleep(5)
    change_keys(catalog, "h")
    found = ids(catalog, "kept")
    assert found == sorted({*found})
    with flink_sql.job(counting("kept", per_second=20_000)) as job:
        flink_sql.ended(job)
    check_by_h(catalog, flink_sql)


def check_by_h(catalog: Catalog, flink_sql: FlinkSql) -> None:
    """Every row is there once, in the partitions of `h`, for us and for Flink."""
    assert ids(catalog, "kept") == list(range(1, _ROWS + 1))
    assert catalog.table("db.kept").schema.partition_keys == ("h",)
    assert flink_sql.rows("SELECT h, count(*) FROM db.kept GROUP BY h") == [
        (str(h), str(len(range(h or 7, _ROWS + 1, 7)))) for h in range(7)
    ]


def test_a_column_is_added_amid_a_job(catalog: Catalog, flink_sql: FlinkSql) -> None:
    table = make(catalog, "kept", key="id, g")
    with flink_sql.job(counting("kept", per_second=6_000)) as job:
        wait_for(lambda: ids(catalog, "kept"), job)
        table.alter(AddColumn("note", "STRING"))
        flink_sql.ended(job)
    assert ids(catalog, "kept") == list(range(1, _ROWS + 1))
    assert flink_sql.rows("SELECT count(*), count(note) FROM db.kept") == [(str(_ROWS), "0")]


def test_a_job_that_is_killed_goes_on_from_its_checkpoint_and_doubles_nothing(
    catalog: Catalog, flink_sql: FlinkSql, tmp_path: Path
) -> None:
    table = make(catalog, "kept")
    kept = {
        "execution.checkpointing.dir": f"file://{tmp_path}/checkpoints",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }

    def checkpoints() -> list[Path]:
        found = (tmp_path / "checkpoints").glob("*/chk-*/_metadata")
        return sorted((each.parent for each in found), key=lambda path: path.stat().st_mtime)

    with flink_sql.job(counting("kept", per_second=3_000), kept) as job:
        wait_for(lambda: ids(catalog, "kept") and checkpoints(), job)
        job.kill()
    compact(table)
    expire(table, keep=3)
    again = {**kept, "execution.state-recovery.path": f"file://{checkpoints()[-1]}"}
    with flink_sql.job(counting("kept", per_second=6_000), again) as job:
        flink_sql.ended(job)
    assert ids(catalog, "kept") == list(range(1, _ROWS + 1))


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_flink_and_we_follow_the_same_changes(
    catalog: Catalog, flink_sql: FlinkSql, producer: str
) -> None:
    table = make(catalog, "kept", key="id, g", options=f"'changelog-producer' = '{producer}', ")
    for step in range(3):
        rows = [
            {"id": at, "g": "a", "h": str(step), "_rowkind": "-D" if at % 5 == step else "+I"}
            for at in range(step * 10, step * 10 + 30)
        ]
        table.write(rows)
        if producer != "none":
            compact(table, full=True)
    mine = [
        (row["_rowkind"], str(row["id"]), row["g"], row["h"])
        for each in table.follow(available_now=True, after=1)
        for row in each.rows.to_pylist()
    ]
    assert {kind for kind, *_ in mine} >= {"+I", "-D"}
    query = """
        CREATE TEMPORARY TABLE shown (id BIGINT, g STRING, h STRING) WITH ('connector' = 'print');
        INSERT INTO shown SELECT * FROM db.kept
          /*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '2') */;
    """

    def theirs() -> list[tuple[str, ...]]:
        shown = re.findall(r"^([+-][IUD])\[(.*)\]$", flink_sql.said(), re.MULTILINE)
        return [(kind, *cells.split(", ")) for kind, cells in shown]

    with flink_sql.job(query, {"parallelism.default": "1"}) as job:
        if producer == "none":
            # Flink makes the rows before changes itself, as it knows the keys.
            wait_for(lambda: final(theirs()) == final(mine), job)
        else:
            wait_for(lambda: sorted(theirs()) == sorted(mine), job)


def final(changes: Sequence[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The rows that changes lead to, by key."""
    rows: dict[str, tuple[str, ...]] = {}
    for kind, *row in changes:
        if kind in ("+I", "+U"):
            rows[row[0]] = tuple(row)
        elif kind == "-D":
            rows.pop(row[0], None)
    return rows
