"""Flink's connector of Kafka reads the log of a table, and has the rows of the table then."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewright.session import Session
from lakewright.storage import Catalog
from tests.flink.conftest import FOLDER
from tests.support.stores.servers import kafka_server

_PROGRAM = Path(__file__).parent / "FlinkRows.java"
_OPENED = ("util", "lang", "lang.invoke", "util.concurrent", "nio")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_server(tmp_path_factory.mktemp("kafka")) as address:
        yield address


def flink_rows(folder: Path, statements: str) -> list[tuple[str, ...]]:
    """What Flink's rows are after all changes, as texts."""
    file = folder / "statements.sql"
    file.write_text(statements)
    (folder / "config.yaml").write_text("rest:\n  address: 127.0.0.1\n  bind-address: 127.0.0.1\n")
    jars = [str(each) for each in FOLDER.rglob("*.jar") if "paimon" not in each.name]
    opened = [f"--add-opens=java.base/java.{each}=ALL-UNNAMED" for each in _OPENED]
    ran = subprocess.run(
        ["java", "-Xmx900m", *opened, "-cp", os.pathsep.join(jars), str(_PROGRAM), str(file)],
        env={**os.environ, "FLINK_CONF_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    rows: Counter[tuple[str, ...]] = Counter()
    for line in ran.stdout.splitlines():
        if line.startswith("row\t"):
            _, kind, *values = line.split("\t")
            rows[tuple(values)] += -1 if kind in ("-D", "-U") else 1
    assert min(rows.values(), default=0) >= 0
    return sorted(rows.elements())


@pytest.mark.mission("LG2", "LG3", "LG5")
@pytest.mark.parametrize("form", ["upsert", "changes"])
def test_flink_reads_the_log_as_the_table_is(broker: str, tmp_path: Path, form: str) -> None:
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    topic = f"log-{form}"
    log = {
        "log.system": "kafka",
        "log.bootstrap.servers": broker,
        "log.topic": topic,
        **({"bucket": "2"} if form == "upsert" else {}),
    }
    columns = "id BIGINT, name STRING, price DECIMAL(10, 2), ts TIMESTAMP(3)"
    texts = "id, name, price, CAST(ts AS STRING)"
    key = "" if form == "changes" else ", PRIMARY KEY (id) NOT ENFORCED"
    given = ", ".join(f"'{name}' = '{text}'" for name, text in log.items())
    session.sql(f"""
        CREATE DATABASE d; USE d;
        CREATE TABLE t ({columns}{key}) WITH ({given});
        INSERT INTO t VALUES (1, 'a', 1.50, TIMESTAMP '2024-01-01 10:00:00'),
          (2, 'ü', NULL, NULL), (3, NULL, -2.25, TIMESTAMP '2024-01-02 00:00:00.125');
        UPDATE t SET name = 'new' WHERE id = 1;
        DELETE FROM t WHERE id = 2;
        INSERT INTO t VALUES (4, 'd', 9.99, NULL);
        INSERT INTO t VALUES (4, 'dd', 9.99, NULL)""")
    kafka = f"""'topic' = '{topic}', 'properties.bootstrap.servers' = '{broker}',
        'properties.isolation.level' = 'read_committed', 'scan.bounded.mode' = 'latest-offset'"""
    connector = (
        "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
        if form == "upsert"
        else "'connector' = 'kafka', 'format' = 'debezium-json', "
        "'scan.startup.mode' = 'earliest-offset'"
    )
    key = ", PRIMARY KEY (id) NOT ENFORCED" if form == "upsert" else ""
    found = flink_rows(
        tmp_path,
        f"CREATE TABLE t ({columns}{key}) WITH ({connector}, {kafka}); SELECT {texts} FROM t",
    )
    rows = session.sql("SELECT id, name, price, strftime(ts, '%Y-%m-%d %H:%M:%S.%g') FROM t").rows
    assert rows is not None
    assert found == sorted(
        tuple("null" if each is None else str(each) for each in row.values())
        for row in rows.to_pylist()
    )
