"""Continuous streams from real servers: a topic and captured tables, followed in Dagster."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
import pytest

from lakewright.platform.orchestration.names import TableNames
from tests.pipelines.lake import Lake, opened
from tests.stores.test_kafka import new_topic, send
from tests.support.stores.servers import SECRET, kafka_server, mariadb_server, postgres_server
from tests.support.tables.builders import new_table, rows

pytestmark = pytest.mark.servers
NAMES = TableNames("shop.orders")
ORDERS = """
    table: shop.orders
    columns: [{name: id, type: BIGINT NOT NULL}, {name: name, type: STRING}]
    primary_key: [id]
    options: {bucket: 1}
    automation: {continuous: 1m}
    source: {stream: {connector: %s, options: %s}}
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    yield from opened(tmp_path)


def drained(lake: Lake) -> dict[str, Any]:
    """The materialization of the run that the sensor asks for."""
    tick = lake.tick_of(NAMES.stream_sensor)
    (request,) = tick.run_requests
    assert request.tags["lakewright/verb"] == "ingest"
    outcome = lake.materialize("shop.orders")
    assert "has all rows" in lake.tick_of(NAMES.stream_sensor).skip_message
    return outcome.materializations.get(None, {})


def observed(lake: Lake) -> dict[str, Any]:
    """What the sensor last told of the source."""
    (key,) = lake.definitions.resolve_asset_graph().get(NAMES.asset_key).parent_keys
    found = lake.instance.fetch_observations(key, limit=1).records[0].asset_observation
    assert found is not None
    told = {name: each.value for name, each in found.metadata.items()}
    return {"key": key, "version": found.tags["dagster/data_version"], **told}


def test_a_topic_is_followed_by_its_offsets(lake: Lake, tmp_path: Path) -> None:
    def sent(*ids: int) -> None:
        send(broker, topic, [(None, json.dumps({"id": each}).encode()) for each in ids])

    folder = tmp_path / "kafka"
    folder.mkdir()
    with kafka_server(folder) as broker:
        topic = new_topic(broker, 2)
        options = {"properties.bootstrap.servers": broker, "topic": topic, "format": "json"}
        text = ORDERS.replace("primary_key: [id]", "comment: orders").replace("bucket: 1", "")
        lake.declare(text % ("kafka", json.dumps(options)))
        sent(*range(100))
        told = drained(lake)
        seen = observed(lake)
        assert seen["key"] == dg.AssetKey(["sources", "kafka", topic])
        assert json.loads(seen["version"]) == told["lakewright/position"]
        assert sum(told["lakewright/position"][topic].values()) == 100
        assert told["lakewright/lag_rows"] == 0

        sent(*range(100, 130))
        drained(lake)
        assert [sum(each) for each in _rows_behind(lake)] == [30, 100]
        assert len(lake.rows("shop.orders")) == 130


def test_a_topic_comes_again_after_a_rollback_although_its_group_has_read_it(
    lake: Lake, tmp_path: Path
) -> None:
    folder = tmp_path / "kafka"
    folder.mkdir()
    with kafka_server(folder) as broker:
        topic = new_topic(broker, 2)
        options = {
            "properties.bootstrap.servers": broker,
            "properties.group.id": "lake",
            "properties.auto.offset.reset": "earliest",
            "topic": topic,
            "format": "json",
        }
        columns = {"id": "BIGINT NOT NULL", "name": "STRING"}
        orders = new_table(lake.catalog, columns, name="shop.orders")
        orders.write(rows(orders, [{"id": 0, "name": "before"}]))
        text = ORDERS.replace("primary_key: [id]", "comment: orders").replace("bucket: 1", "")
        lake.declare(text % ("kafka", json.dumps(options)))
        send(broker, topic, [(None, b'{"id": 1}'), (None, b'{"id": 2}')])
        drained(lake)
        orders.history.rollback(snapshot=1, grace_ms=0)
        send(broker, topic, [(None, b'{"id": 3}')])
        drained(lake)
        assert sorted(row["id"] for row in lake.rows("shop.orders")) == [0, 1, 2, 3]


def test_a_stream_of_what_comes_later_begins_with_its_first_run(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    folder.mkdir()
    with kafka_server(folder) as broker:
        topic = new_topic(broker, 2)
        options = {
            "properties.bootstrap.servers": broker,
            "scan.startup.mode": "latest-offset",
            "topic": topic,
            "format": "json",
        }
        text = ORDERS.replace("primary_key: [id]", "comment: orders").replace("bucket: 1", "")
        lake.declare(text % ("kafka", json.dumps(options)))
        send(broker, topic, [(None, b'{"id": 1}')])
        drained(lake)
        send(broker, topic, [(None, b'{"id": 2}')])
        drained(lake)
        assert [row["id"] for row in lake.rows("shop.orders")] == [2]


def _rows_behind(lake: Lake) -> list[list[int]]:
    """What the sensor saw behind the table, the newest first, where it saw something."""
    (key,) = lake.definitions.resolve_asset_graph().get(NAMES.asset_key).parent_keys
    found = []
    for record in lake.instance.fetch_observations(key, limit=20).records:
        assert record.asset_observation is not None
        told = record.asset_observation.metadata.get("rows behind the table")
        rows: Any = {} if told is None else told.value
        found += [[*rows.values()]] if any(rows.values()) else []
    return found


def test_a_captured_table_is_followed_by_its_log(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    with postgres_server("wal_level=logical") as url:
        for _ in range(100):
            if subprocess.run(["pg_isready", "-q", "-d", url], check=False).returncode == 0:
                break
            time.sleep(0.1)
        client = psycopg.connect(url, password=SECRET, autocommit=True)
        client.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT)")
        client.execute("INSERT INTO orders SELECT i, 'first' FROM generate_series(1, 100) i")
        options = {
            "hostname": "127.0.0.1",
            "port": str(urlsplit(url).port),
            "username": "keeper",
            "password": "${env:CAPTURE_PASSWORD}",
            "database-name": "postgres",
            "schema-name": "public",
            "table-name": "orders",
            "slot.name": "orders",
        }
        lake.declare(ORDERS % ("postgres-cdc", json.dumps(options)))
        assert drained(lake)["lakewright/rows_written"] == 100
        client.execute("UPDATE orders SET name = 'second' WHERE id <= 30")
        client.execute("DELETE FROM orders WHERE id > 90")
        drained(lake)
        assert _rows_behind(lake)[0] == [40]
        rows = [(row["id"], row["name"]) for row in lake.rows("shop.orders")]
        found = client.execute("SELECT id, name FROM orders").fetchall()
        assert sorted(rows) == sorted(found)
        client.close()


def test_a_table_of_mariadb_is_followed_by_its_log(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    pymysql = pytest.importorskip("pymysql")
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    with mariadb_server() as port:
        client = pymysql.connect(
            host="127.0.0.1",
            port=port,
            user="keeper",
            password=SECRET,
            database="shop",
            autocommit=True,
        )
        with client.cursor() as cursor:
            cursor.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(20))")
            cursor.execute("INSERT INTO orders SELECT seq, 'first' FROM seq_1_to_100")
            options = {
                "hostname": "127.0.0.1",
                "port": str(port),
                "username": "keeper",
                "password": "${env:CAPTURE_PASSWORD}",
                "database-name": "shop",
                "table-name": "orders",
            }
            lake.declare(ORDERS % ("mysql-cdc", json.dumps(options)))
            assert drained(lake)["lakewright/rows_written"] == 100
            assert observed(lake)["key"] == dg.AssetKey(["sources", "mysql-cdc", "shop", "orders"])
            cursor.execute("UPDATE orders SET name = 'second' WHERE id <= 30")
            cursor.execute("DELETE FROM orders WHERE id > 90")
            drained(lake)
            rows = [(row["id"], row["name"]) for row in lake.rows("shop.orders")]
            cursor.execute("SELECT id, name FROM orders")
            assert sorted(rows) == sorted(cursor.fetchall())
            # What stops the stream is red, whatever else was written before it.
            cursor.execute("CREATE TABLE beside (id INT)")
            cursor.execute("INSERT INTO beside VALUES (1)")
            cursor.execute("TRUNCATE orders")
            for _ in range(2):
                said = lake.tick_of(NAMES.stream_sensor).skip_message
                assert "empties the table" in str(said)
                assert "empties the table" in lake.materialize("shop.orders", fails=True).failure
        client.close()
