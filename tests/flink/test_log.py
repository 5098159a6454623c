"""Flink's connector of Kafka reads the log of a table, and has the rows of the table then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewright.session import Session
from lakewright.storage import Catalog
from tests.flink.conftest import FOLDER
from tests.flink.flink_sql import FlinkSql
from tests.support.stores.servers import kafka_server


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_server(tmp_path_factory.mktemp("kafka")) as address:
        yield address


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
    flink = FlinkSql(FOLDER, str(tmp_path / "warehouse"), tmp_path)
    found = flink.rows(
        f"CREATE TEMPORARY TABLE log ({columns}{key}) WITH ({connector}, {kafka});\n"
        f"SELECT {texts} FROM log",
        mode="streaming",
    )
    rows = session.sql("SELECT id, name, price, strftime(ts, '%Y-%m-%d %H:%M:%S.%g') FROM t").rows
    assert rows is not None
    assert found == sorted(
        tuple("null" if each is None else str(each) for each in row.values())
        for row in rows.to_pylist()
    )
    # Paimon's connector reads the table itself, and passes over the options of the log.
    assert flink.rows(f"SELECT {texts} FROM d.t") == found
