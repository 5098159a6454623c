"""Topics of the real Debezium, read as `debezium-json`, equal our own capture of the tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from lakewright.storage.errors import InvalidRows
from tests.stores.capturing import Capture
from tests.support.stores.servers import (
    SECRET,
    debezium_server,
    kafka_server,
    mariadb_server,
    postgres_server,
)

pytestmark = pytest.mark.servers

_PATIENCE_SECONDS = 180
# Columns whose values JSON has without a schema, and those that stand for something.
_PLAIN = "id BIGINT, flag BOOLEAN, f DOUBLE, name STRING"
_TYPED = (
    "price DECIMAL(20, 5), day DATE, moment TIMESTAMP(6), zoned TIMESTAMP_LTZ(6), t TIME(3), "
    "data BYTES"
)
# Further types of each server, what they are declared, and a value.
_OF_POSTGRES = (
    ("SMALLINT", "SMALLINT", "-5"),
    ("REAL", "FLOAT", "0.1"),
    ("UUID", "STRING", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
    ("JSONB", "STRING", "'{\"a\": [1, null]}'"),
    ("NUMERIC", "DECIMAL(38, 3)", "-1234567890123456789012345.125"),
    ("CHAR(4)", "STRING", "'ab'"),
    ("TIMESTAMP(3)", "TIMESTAMP(3)", "'1700-01-01 00:00:00.125'"),
)
_OF_MARIADB = (
    ("BIGINT UNSIGNED", "DECIMAL(20, 0)", "18446744073709551615"),
    ("MEDIUMINT UNSIGNED", "INT", "16777215"),
    ("YEAR", "INT", "2024"),
    ("FLOAT", "FLOAT", "0.1"),
    ("ENUM('a','ü')", "STRING", "'ü'"),
    ("SET('x','y','z')", "STRING", "'z,x'"),
    ("BIT(20)", "BYTES", "b'10000000000000000011'"),
    ("BIT(1)", "BOOLEAN", "b'1'"),
    ("CHAR(4) CHARACTER SET latin1", "STRING", "'é€'"),
    ("BINARY(4)", "BYTES", "x'ff00'"),
    ("DATETIME(3)", "TIMESTAMP(3)", "'1000-01-01 00:00:00.125'"),
)
_NAMES = "id, flag, f, name, price, day, moment, zoned, t, data"
_VALUES = (
    "true, {id} / 3e0, 'a\"ü {id}', -12345678901234.00012 + {id}, '1582-10-04', "
    "'2024-01-31 12:00:00.000005', '2024-07-01 12:00:00.5{zone}', '23:59:59.123', {data}"
)
_CHANGES = (
    "UPDATE items SET name = NULL, day = NULL, price = NULL WHERE id < 3",
    "UPDATE items SET id = id + 100 WHERE id = 4",
    "DELETE FROM items WHERE id = 5",
)
# Rows, updates, a change of a key, and a deletion; an empty message follows each deletion.
_MESSAGES = 7 + 2 + 3 + 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_server(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.mark.parametrize("has_schemas", [True, False], ids=["schemas", "bare"])
def test_debezium_and_we_capture_the_same_rows_of_postgresql(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_schemas: bool
) -> None:
    psycopg = import_module("psycopg")
    with postgres_server("wal_level=logical", "timezone=UTC") as url:
        port = str(urlsplit(url).port)
        for _ in range(100):
            try:
                client = psycopg.connect(url, password=SECRET, autocommit=True)
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        with closing(client):
            client.execute(
                "CREATE TABLE items (id BIGINT PRIMARY KEY, flag BOOLEAN, f FLOAT8, name TEXT, "
                "price NUMERIC(20, 5), day DATE, moment TIMESTAMP, zoned TIMESTAMPTZ, t TIME(3), "
                f"data BYTEA, {_columns(_OF_POSTGRES, 0)})"
            )
            client.execute("ALTER TABLE items REPLICA IDENTITY FULL")
            server = {
                "connector": "postgres-cdc",
                "port": port,
                "database-name": "postgres",
                "schema-name": "public",
                "slot.name": "ours",
            }
            connector = {
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "plugin.name": "pgoutput",
                "database.port": port,
                "database.dbname": "postgres",
                "table.include.list": "public.items",
                "topic.prefix": f"postgres-{has_schemas}",
            }
            monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
            capture = _Both(tmp_path, broker, server, f"postgres-{has_schemas}.public.items")
            capture.values = {"zone": "+00", "data": r"'\x00ff'"}
            capture.more = _OF_POSTGRES
            capture.compare(client.execute, connector, has_schemas=has_schemas)


# Columns that PostgreSQL keeps apart, how they are declared, and values that are large.
_LARGE = {
    "body": ("TEXT", "STRING", "repeat('x', 9000)"),
    "data": ("BYTEA", "BYTES", "convert_to(repeat('x', 9000), 'UTF8')"),
    "texts": ("TEXT[]", "ARRAY<STRING>", "ARRAY[repeat('x', 9000)]"),
    "blobs": ("BYTEA[]", "ARRAY<BYTES>", "ARRAY[convert_to(repeat('x', 9000), 'UTF8')]"),
    "ints": ("INT[]", "ARRAY<INT>", "array_fill(7, ARRAY[3000])"),
    "longs": ("BIGINT[]", "ARRAY<BIGINT>", "array_fill(7::bigint, ARRAY[3000])"),
    "uuids": ("UUID[]", "ARRAY<STRING>", "array_fill(gen_random_uuid(), ARRAY[600])"),
    "doc": ("JSONB", "STRING", "to_jsonb(repeat('x', 9000))"),
    "pairs": ("HSTORE", "STRING", "hstore('k', repeat('x', 9000))"),
}


@pytest.mark.parametrize("has_schemas", [True, False], ids=["schemas", "bare"])
def test_a_large_value_that_postgresql_does_not_log_is_refused(
    broker: str, tmp_path: Path, has_schemas: bool
) -> None:
    psycopg = import_module("psycopg")
    with postgres_server("wal_level=logical", "timezone=UTC") as url:
        for _ in range(100):
            try:
                client = psycopg.connect(url, password=SECRET, autocommit=True)
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        prefix = f"large-{has_schemas}"
        connector = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.port": str(urlsplit(url).port),
            "database.dbname": "postgres",
            "table.include.list": "public.big",
            "topic.prefix": prefix,
            "hstore.handling.mode": "json",
        }
        capture = _Both(tmp_path, broker, {}, f"{prefix}.public.big")
        names, kinds = ", ".join(_LARGE), ", ".join(f"{k} {v[0]}" for k, v in _LARGE.items())
        with closing(client):
            client.execute("CREATE EXTENSION IF NOT EXISTS hstore")
            client.execute(f"CREATE TABLE big (id BIGINT PRIMARY KEY, n INT, {kinds})")
            for name in _LARGE:
                client.execute(f"ALTER TABLE big ALTER COLUMN {name} SET STORAGE EXTERNAL")
            values = ", ".join(value for _, _, value in _LARGE.values())
            client.execute(f"INSERT INTO big (id, n, {names}) VALUES (1, 1, {values})")
            with debezium_server(tmp_path, broker, connector, has_schemas=has_schemas):
                capture.wait_for(1)
                client.execute("UPDATE big SET n = 2")
                capture.wait_for(2)
    options = f"""'connector' = 'kafka', 'topic' = '{capture.topic}', 'format' = 'debezium-json',
      'properties.bootstrap.servers' = '{broker}', 'scan.startup.mode' = 'earliest-offset',
      'scan.bounded.mode' = 'latest-offset', 'debezium-json.updates' = 'upsert',
      'debezium-json.schema-include' = '{str(has_schemas).lower()}'"""
    key = "PRIMARY KEY (id) NOT ENFORCED"
    capture.session.sql(f"""
        CREATE TABLE plain (id BIGINT, n INT, {key}) WITH ({options});
        CREATE TABLE kept (id BIGINT, n INT, {key}) WITH ('bucket' = '1');
        INSERT INTO kept SELECT * FROM plain
    """)
    assert capture.rows("kept") == [(1, 2)]
    for name, (_, declared, _) in _LARGE.items():
        columns = f"id BIGINT, {name} {declared}, {key}"
        capture.session.sql(f"""
            CREATE TABLE from_{name} ({columns}) WITH ({options});
            CREATE TABLE to_{name} ({columns}) WITH ('bucket' = '1')
        """)
        with pytest.raises(InvalidRows, match=f"column {name} has the placeholder of Debezium"):
            capture.session.sql(f"INSERT INTO to_{name} SELECT * FROM from_{name}")
        assert capture.rows(f"to_{name}") == []


@pytest.mark.parametrize("has_schemas", [True, False], ids=["schemas", "bare"])
def test_debezium_and_we_capture_the_same_rows_of_mariadb(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_schemas: bool
) -> None:
    pymysql = import_module("pymysql")
    with mariadb_server("--default-time-zone=+00:00") as port:
        client = pymysql.connect(
            host="127.0.0.1",
            port=port,
            user="keeper",
            password=SECRET,
            database="shop",
            charset="utf8mb4",
            autocommit=True,
        )
        with closing(client), closing(client.cursor()) as cursor:
            cursor.execute(
                "CREATE TABLE items (id BIGINT PRIMARY KEY, flag BOOLEAN, f DOUBLE, name TEXT, "
                "price DECIMAL(20, 5), day DATE, moment DATETIME(6), zoned TIMESTAMP(6) NULL, "
                f"t TIME(3), data VARBINARY(9), {_columns(_OF_MARIADB, 0)})"
            )
            prefix = f"mariadb-{has_schemas}"
            server = {"connector": "mysql-cdc", "port": str(port), "database-name": "shop"}
            connector = {
                "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
                "database.port": str(port),
                "database.server.id": "4711",
                "database.include.list": "shop",
                "table.include.list": "shop.items",
                "topic.prefix": prefix,
                # Else they are signed numbers.
                "bigint.unsigned.handling.mode": "precise",
                "schema.history.internal.kafka.bootstrap.servers": broker,
                "schema.history.internal.kafka.topic": f"history-{prefix}",
            }
            if not has_schemas:
                # Without a schema, a number is no truth value.
                package = "io.debezium.connector.binlog.converters"
                connector["converters"] = "truth"
                connector["truth.type"] = f"{package}.TinyIntOneToBooleanConverter"
            monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
            capture = _Both(tmp_path, broker, server, f"{prefix}.shop.items")
            capture.values = {"zone": "", "data": "x'00ff'"}
            capture.more = _OF_MARIADB
            capture.compare(cursor.execute, connector, has_schemas=has_schemas)


class _Both(Capture):
    """The table `items` that we capture, and its topic."""

    values: Mapping[str, str]
    more: Sequence[tuple[str, str, str]]

    def __init__(self, folder: Path, broker: str, server: dict[str, str], topic: str) -> None:
        super().__init__(folder)
        self.name, self.broker, self.topic = "items", broker, topic
        self.options = {
            "hostname": "127.0.0.1",
            "username": "keeper",
            "password": "${env:CAPTURE_PASSWORD}",
            **server,
        }

    def compare(self, run: Any, connector: dict[str, str], *, has_schemas: bool) -> None:
        columns = f"{_PLAIN}, {_TYPED}, {_columns(self.more, 1)}" if has_schemas else _PLAIN
        for number in (1, 2, 3):
            run(self.insertion(number))
        self.define(columns, "id")
        self.session.sql(f"""
            CREATE TABLE told ({columns}) WITH ('connector' = 'kafka', 'topic' = '{self.topic}',
              'properties.bootstrap.servers' = '{self.broker}', 'format' = 'debezium-json',
              'scan.startup.mode' = 'earliest-offset',
              'debezium-json.schema-include' = '{str(has_schemas).lower()}');
            CREATE TABLE theirs ({columns}, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')
        """)
        self.batches()
        with debezium_server(self.folder, self.broker, connector, has_schemas=has_schemas):
            self.wait_for(3)
            for number in (4, 5, 6, 7):
                run(self.insertion(number))
            for each in _CHANGES:
                run(each)
            self.wait_for(_MESSAGES)
        self.batches()
        self.batches(source="db.told", sink="db.theirs")
        ours = self.rows()
        assert [row[0] for row in ours] == [1, 2, 3, 6, 7, 104]
        assert self.rows("theirs") == ours
        assert None not in ours[-1]

    def wait_for(self, count: int) -> None:
        """Wait until the topic has so many messages."""
        kafka = import_module("confluent_kafka")
        client = kafka.Consumer({"bootstrap.servers": self.broker, "group.id": "tests"})
        until = time.monotonic() + _PATIENCE_SECONDS
        end = 0
        with closing(client):
            while end < count:
                assert time.monotonic() < until, f"{self.topic} has {end} of {count} messages"
                if self.topic in client.list_topics(timeout=10).topics:
                    end = client.get_watermark_offsets(kafka.TopicPartition(self.topic, 0))[1]
                time.sleep(0.2)

    def insertion(self, number: int) -> str:
        more = [(f"m{at}", value) for at, (_, _, value) in enumerate(self.more)]
        names = ", ".join((_NAMES, *(name for name, _ in more)))
        values = ", ".join(
            (_VALUES.format(id=number, **self.values), *(value for _, value in more))
        )
        return f"INSERT INTO items ({names}) VALUES ({number}, {values})"


def _columns(more: Sequence[tuple[str, str, str]], which: int) -> str:
    return ", ".join(f"m{at} {each[which]}" for at, each in enumerate(more))
