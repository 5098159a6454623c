"""The connectors `kafka` and `upsert-kafka` against a real broker."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.factories import Context
from lakewright.connectors.kafka.connector import Kafka, UpsertKafka
from lakewright.connectors.kafka.positions import positions_of
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.stream import run_stream
from lakewright.connectors.testing import KeyedSinkSuite, SinkSuite, SourceSuite
from lakewright.connectors.testing.tables import context_of
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.errors import (
    FileMissing,
    InvalidOption,
    InvalidRequestError,
    InvalidRows,
    SourceChanged,
    UnavailableError,
)
from tests.support.stores.servers import ROOT, free_port, kafka_server

pytestmark = pytest.mark.servers

_NUMBERS = itertools.count(1)
_COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING", "at": "TIMESTAMP(3)"}
_ROWS: Sequence[Mapping[str, Any]] = [
    {"id": at, "name": None if at == 3 else f"name {at}", "at": dt.datetime(2024, 1, 1 + at)}
    for at in range(7)
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_server(tmp_path_factory.mktemp("kafka")) as address:
        yield address


def new_topic(broker: str, partitions: int = 2, **config: str) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"topic-{next(_NUMBERS)}"
    client = AdminClient({"bootstrap.servers": broker})
    client.create_topics([NewTopic(topic, partitions, config=config)])[topic].result()
    while topic not in client.list_topics().topics:
        time.sleep(0.05)
    return topic


def send(
    broker: str, topic: str, messages: Sequence[tuple[bytes | None, bytes | None]], **more: Any
) -> None:
    """Keys and values."""
    from confluent_kafka import Producer

    client = Producer({"bootstrap.servers": broker, "partitioner": "murmur2_random"})
    for at, (key, value) in enumerate(messages):
        if at % 50_000 == 0:
            assert client.flush(30) == 0
        client.produce(topic, value, key, **more)
    assert client.flush(30) == 0


def as_json(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, default=str).encode()


def wait_for_marks(broker: str, topic: str) -> None:
    """A commit is decided before its marks are in the topic, and readers wait for them."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    client = AdminClient({"bootstrap.servers": broker})
    asked = {
        TopicPartition(topic, each): OffsetSpec.latest()
        for each in client.list_topics().topics[topic].partitions
    }

    def ends(level: Any) -> list[int]:
        found = client.list_offsets(asked, isolation_level=level)
        return [found[each].result().offset for each in asked]

    while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED):
        time.sleep(0.05)


def messages_of(broker: str, topic: str) -> list[Any]:
    """All messages that committed; it waits for the marks of transactions."""
    from confluent_kafka import Consumer, TopicPartition

    wait_for_marks(broker, topic)

    client = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    numbers = list(client.list_topics(topic).topics[topic].partitions)
    client.assign([TopicPartition(topic, each, 0) for each in numbers])
    found, ends = [], set[int]()
    while len(ends) < len(numbers):
        for each in client.consume(1000, 0.1):
            if each.error() is None:
                found.append(each)
            else:
                ends.add(each.partition())
    client.close()
    return found


# --- suites ---------------------------------------------------------------------------------------


class _OnBroker:
    @pytest.fixture(autouse=True)
    def _place(self, broker: str) -> None:
        self.broker, self.topic = broker, new_topic(broker)
        self.prepare()

    def prepare(self) -> None:
        """Fill the topic."""

    def given_options(self) -> Mapping[str, str]:
        return {
            "topic": self.topic,
            "properties.bootstrap.servers": self.broker,
            "scan.bounded.mode": "latest-offset",
            **self.options,  # type: ignore[attr-defined]  # of the suite
        }

    def written(self) -> Sequence[Mapping[str, Any]]:
        context: Context = self.context()  # type: ignore[attr-defined]  # of the suite
        pieces = list(plan_scan(context, ScanRequest()).rows())
        return pa.concat_tables(pieces).to_pylist() if pieces else []


class TestSource(_OnBroker, SourceSuite):
    factory = Kafka()
    columns = _COLUMNS
    options: ClassVar = {
        "value.format": "json",
        "key.format": "json",
        "key.fields": "id",
        "value.fields-include": "EXCEPT_KEY",
    }
    rows = _ROWS

    def prepare(self) -> None:
        send(
            self.broker,
            self.topic,
            [
                (as_json({"id": row["id"]}), as_json({"name": row["name"], "at": row["at"]}))
                for row in _ROWS
            ],
        )


class TestUpsertSource(_OnBroker, SourceSuite):
    factory = UpsertKafka()
    columns = _COLUMNS
    primary_key = ("id",)
    options: ClassVar = {"value.format": "json", "key.format": "json"}
    rows = _ROWS[1:]

    def prepare(self) -> None:
        former = [(as_json({"id": row["id"]}), as_json({**row, "name": "old"})) for row in _ROWS]
        send(self.broker, self.topic, former)
        send(self.broker, self.topic, [(as_json({"id": 0}), None)])
        later = [(as_json({"id": row["id"]}), as_json(row)) for row in _ROWS[1:]]
        send(self.broker, self.topic, later)


class TestSink(_OnBroker, SinkSuite):
    factory = Kafka()
    columns = _COLUMNS
    options: ClassVar = {
        "format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "suite",
        "sink.partitioner": "round-robin",
    }
    rows = _ROWS


class TestChangesSink(TestSink):
    """Changes of a table without a key: each is one message."""

    options: ClassVar = {**TestSink.options, "format": "debezium-json"}


class TestUpsertSink(_OnBroker, KeyedSinkSuite):
    factory = UpsertKafka()
    columns = _COLUMNS
    primary_key = ("id",)
    options: ClassVar = {
        "value.format": "json",
        "key.format": "json",
        "value.fields-include": "EXCEPT_KEY",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "suite",
    }
    rows = _ROWS


# --- positions ------------------------------------------------------------------------------------


def options_of(broker: str, topic: str, **more: str) -> dict[str, str]:
    given = {"topic": topic, "properties.bootstrap.servers": broker, "format": "json"}
    return given | {name.replace("__", "-").replace("_", "."): text for name, text in more.items()}


def context(broker: str, topic: str, options: Mapping[str, str] | None = None) -> Context:
    return context_of(Kafka(), {"id": "BIGINT"}, {**options_of(broker, topic), **(options or {})})


def ids_of(given: Context) -> list[int]:
    found = plan_scan(given, ScanRequest()).rows()
    return sorted(at for each in found for at in each.column("id").to_pylist())


BOUNDED = {"scan.bounded.mode": "latest-offset"}


def test_reading_begins_and_ends_where_options_say(broker: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic = new_topic(broker, 1)
    begin = int(time.time()) * 1000 - 60_000
    for at in range(6):
        send(broker, topic, [(None, as_json({"id": at}))], timestamp=begin + at * 1000)
    group = Consumer({"bootstrap.servers": broker, "group.id": f"of-{topic}"})
    group.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    group.close()

    def read(**more: str) -> list[int]:
        named = {name.replace("_", "."): text for name, text in more.items()}
        return ids_of(context(broker, topic, {**BOUNDED, **named}))

    assert read() == [0, 1, 2, 3, 4, 5]
    assert read(scan_startup_mode="latest-offset") == []
    by_time = {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": str(begin + 2000)}
    assert ids_of(context(broker, topic, {**BOUNDED, **by_time})) == [2, 3, 4, 5]
    specific = {"scan.startup.mode": "specific-offsets"}
    specific["scan.startup.specific-offsets"] = "partition:0,offset:5"
    assert ids_of(context(broker, topic, {**BOUNDED, **specific})) == [5]
    assert read(properties_group_id=f"of-{topic}") == [4, 5]
    of_group = context(broker, topic, {"properties.group.id": f"of-{topic}"})
    plan_scan(of_group, ScanRequest()).runtime.acknowledge({topic: {"0": 5}})
    assert read(properties_group_id=f"of-{topic}") == [5]
    until = {"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": str(begin + 2000)}
    assert ids_of(context(broker, topic, until)) == [0, 1]
    until = {"scan.bounded.mode": "specific-offsets"}
    until["scan.bounded.specific-offsets"] = "partition:0,offset:3"
    assert ids_of(context(broker, topic, until)) == [0, 1, 2]
    with pytest.raises(InvalidOption, match=r"group-offsets, which says no offset of topic-\d+/0"):
        read(properties_group_id="nobody")


def test_a_limit_is_shared_by_partitions_and_new_ones_are_found(broker: str) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = new_topic(broker, 2)
    send(broker, topic, [(None, as_json({"id": at})) for at in range(50)], partition=0)
    send(broker, topic, [(None, as_json({"id": at})) for at in range(3)], partition=1)
    scan = plan_scan(context(broker, topic), ScanRequest()).runtime
    begin = scan.earliest()
    assert positions_of(begin) == {(topic, 0): 0, (topic, 1): 0}
    end = scan.latest(begin, 10)
    assert positions_of(end) == {(topic, 0): 7, (topic, 1): 3}
    client = AdminClient({"bootstrap.servers": broker})
    client.create_partitions([NewPartitions(topic, 3)])[topic].result()
    while len(client.list_topics().topics[topic].partitions) < 3:
        time.sleep(0.05)
    send(broker, topic, [(None, as_json({"id": 100}))], partition=2)
    found = scan.latest(end)
    rows = [
        row
        for split in scan.plan(end, found)
        for batch in scan.read(split)
        for row in batch.column("id").to_pylist()
    ]
    assert sorted(rows) == [*range(7, 50), 100]
    scan.close()


def test_marks_of_transactions_are_passed_and_what_was_aborted_is_not_read(broker: str) -> None:
    from confluent_kafka import Producer

    topic = new_topic(broker, 1)
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic})
    producer.init_transactions()
    for at in range(6):
        producer.begin_transaction()
        producer.produce(topic, as_json({"id": at}))
        producer.flush()
        if at % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    planned = plan_scan(context(broker, topic), ScanRequest())
    scan = planned.runtime
    at: Any = scan.earliest()
    found: list[int] = []
    while (end := scan.latest(at, 1)) != at:
        for split in scan.plan(at, end):
            found += [row for batch in scan.read(split) for row in batch.column("id").to_pylist()]
        at = end
    assert found == [0, 2, 4]
    assert positions_of(at) == {(topic, 0): 12}
    # An open transaction holds the end.
    producer.begin_transaction()
    producer.produce(topic, as_json({"id": 7}))
    producer.flush()
    assert scan.latest(at) == at
    producer.commit_transaction()
    assert positions_of(scan.latest(at)) == {(topic, 0): 14}
    scan.close()


def test_offsets_that_retention_removed_are_an_error_with_numbers(broker: str) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = new_topic(broker, 1)
    send(broker, topic, [(None, as_json({"id": at})) for at in range(10)])
    scan = plan_scan(context(broker, topic), ScanRequest()).runtime
    begin = {topic: {"0": 2}}
    end = scan.latest(begin)
    client = AdminClient({"bootstrap.servers": broker})
    for each in client.delete_records([TopicPartition(topic, 0, 6)]).values():
        each.result()
    with pytest.raises(FileMissing, match=r"offsets 2 to 5 of partition 0 of topic .* are gone, 4"):
        scan.plan(begin, end)
    with pytest.raises(FileMissing, match="ends at offset 10, and was read up to 12"):
        scan.latest({topic: {"0": 12}})
    assert ids_of(context(broker, topic, BOUNDED)) == [6, 7, 8, 9]


def test_a_topic_that_was_made_anew_is_another_one(broker: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = new_topic(broker, 1)
    send(broker, topic, [(None, as_json({"id": at})) for at in range(5)])
    scan = plan_scan(context(broker, topic, {}), ScanRequest()).runtime
    read = scan.latest(scan.earliest())
    scan.plan(scan.earliest(), read)
    client = AdminClient({"bootstrap.servers": broker})
    client.delete_topics([topic])[topic].result()
    while topic in client.list_topics(timeout=10).topics:
        time.sleep(0.05)
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    while topic not in client.list_topics(timeout=10).topics:
        time.sleep(0.05)
    # Longer than what was read, so that its offsets alone say nothing.
    send(broker, topic, [(None, as_json({"id": at})) for at in range(100, 108)])
    for again in (scan, plan_scan(context(broker, topic, {}), ScanRequest()).runtime):
        with pytest.raises(
            SourceChanged, match=rf"topic {topic} is .* now, and was .*; it was made anew"
        ):
            again.latest(read)
        with pytest.raises(SourceChanged, match="was made anew"):
            again.plan(again.earliest(), read)


def test_a_topic_that_came_to_a_pattern_and_lost_messages_is_an_error_with_numbers(
    broker: str,
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    first = new_topic(broker, 1)
    options = {**options_of(broker, ""), "topic-pattern": f"{first}.*"}
    del options["topic"]
    scan = plan_scan(context_of(Kafka(), {"id": "BIGINT"}, options), ScanRequest()).runtime
    read = scan.latest(scan.earliest())
    added = f"{first}-added"
    client = AdminClient({"bootstrap.servers": broker})
    client.create_topics([NewTopic(added, 1, 1)])[added].result()
    while added not in client.list_topics(timeout=10).topics:
        time.sleep(0.05)
    send(broker, added, [(None, as_json({"id": at})) for at in range(10)])
    whole = scan.latest(read)
    for each in client.delete_records([TopicPartition(added, 0, 6)]).values():
        each.result()
    said = f"offsets 0 to 5 of partition 0 of topic {added} are gone, 6 in all"
    with pytest.raises(FileMissing, match=said):
        scan.latest(read)
    # Between the plan of a batch and the batch.
    with pytest.raises(FileMissing, match=said):
        scan.plan(read, whole)
    scan.close()


def test_topics_are_found_by_a_pattern_of_their_whole_name(broker: str) -> None:
    first, other = new_topic(broker, 1), new_topic(broker, 1)
    send(broker, first, [(None, as_json({"id": 1}))])
    send(broker, other, [(None, as_json({"id": 2}))])
    options = {**options_of(broker, ""), **BOUNDED, "topic-pattern": f"{first}|{other}|topic"}
    del options["topic"]
    assert ids_of(context_of(Kafka(), {"id": "BIGINT"}, options)) == [1, 2]
    assert ids_of(context(broker, f"{first};{other}", BOUNDED)) == [1, 2]


def test_no_broker_is_unavailable_and_says_where(broker: str) -> None:
    port = free_port()
    given = context(f"127.0.0.1:{port}", "none", {"properties.socket.timeout.ms": "1000"})
    scan = plan_scan(given, ScanRequest()).runtime
    from lakewright.connectors.kafka import client

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "ANSWER_SECONDS", 2.0)
        with pytest.raises(UnavailableError, match=f"Kafka at 127.0.0.1:{port}"):
            scan.earliest()


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.mission("BK3", "BK31")
def test_the_topic_is_made_with_partitions_of_the_distribution_and_metadata(
    broker: str, tmp_path: Path
) -> None:
    topic = f"topic-{next(_NUMBERS)}"
    session = Session(Catalog.open(str(tmp_path)))
    session.sql(f"""
        CREATE DATABASE d; USE d;
        CREATE TABLE k (
          `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', user_id BIGINT, item_id BIGINT,
          behavior STRING, h MAP<STRING, BYTES> METADATA FROM 'headers',
          part INT METADATA FROM 'partition' VIRTUAL, `offset` BIGINT METADATA VIRTUAL,
          topic STRING METADATA VIRTUAL, epoch INT METADATA FROM 'leader-epoch' VIRTUAL,
          kind STRING METADATA FROM 'timestamp-type' VIRTUAL
        ) DISTRIBUTED BY (user_id, item_id) INTO 6 BUCKETS WITH (
          'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{broker}',
          'value.format' = 'json', 'scan.bounded.mode' = 'latest-offset')""")
    moment = dt.datetime.now(dt.UTC).replace(microsecond=123_000)
    rows = [
        {"ts": moment, "user_id": 1, "item_id": 2, "behavior": "buy", "h": [("a", b"x")]},
        {"ts": None, "user_id": 3, "item_id": 4, "behavior": "see", "h": None},
    ]
    given = ExternalTables(Catalog.open(str(tmp_path))).context("d.k")
    planned = plan_write(given, WriteRequest())
    planned.write([pa.Table.from_pylist(rows, to_arrow_schema(planned.fields))])
    sent = sorted(messages_of(broker, topic), key=lambda each: each.value())
    assert [each.key() for each in sent] == [
        b'{"user_id":1,"item_id":2}',
        b'{"user_id":3,"item_id":4}',
    ]
    assert sent[0].headers() == [("a", b"x")]
    from confluent_kafka.admin import AdminClient

    assert (
        len(AdminClient({"bootstrap.servers": broker}).list_topics().topics[topic].partitions) == 6
    )
    found = session.sql("SELECT * FROM k ORDER BY user_id").rows
    assert found is not None
    first = found.to_pylist()[0]
    assert first["ts"] == moment
    assert (first["topic"], first["part"], first["offset"]) == (topic, sent[0].partition(), 0)
    assert (first["epoch"], first["kind"], first["h"]) == (0, "CreateTime", [("a", b"x")])


@pytest.mark.mission("BK3", "CN31")
def test_the_options_of_the_document_make_the_topic(broker: str, tmp_path: Path) -> None:
    topic = f"topic-{next(_NUMBERS)}"
    session = Session(Catalog.open(str(tmp_path)))
    session.sql(f"""
        CREATE DATABASE d; USE d;
        CREATE TABLE KafkaTable (
          `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
          `user_id` BIGINT, `item_id` BIGINT, `behavior` STRING
        ) WITH (
          'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{broker}',
          'key.format' = 'json', 'key.fields' = 'user_id;item_id', 'value.format' = 'json',
          'properties.num.partitons' = '6');
        INSERT INTO KafkaTable (user_id, item_id, behavior) VALUES (1, 2, 'buy')""")
    [sent] = messages_of(broker, topic)
    assert sent.key() == b'{"user_id":1,"item_id":2}'
    assert json.loads(sent.value()) == {"user_id": 1, "item_id": 2, "behavior": "buy"}


def test_events_of_debezium_are_changes_with_metadata_of_both(broker: str, tmp_path: Path) -> None:
    topic = new_topic(broker, 1)
    row = {"id": 1, "name": "a"}
    event = {"before": None, "after": row, "op": "c", "ts_ms": 5, "source": {"db": "shop"}}
    update = {**event, "before": row, "after": {"id": 1, "name": "b"}, "op": "u"}
    send(broker, topic, [(b"1", as_json(event)), (b"1", as_json(update)), (b"1", None)])
    session = Session(Catalog.open(str(tmp_path)))
    session.sql(f"""
        CREATE DATABASE d; USE d;
        CREATE TABLE k (id BIGINT, name STRING, o BIGINT METADATA FROM 'offset' VIRTUAL,
          db STRING METADATA FROM 'value.source.database' VIRTUAL, PRIMARY KEY (id) NOT ENFORCED
        ) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'debezium-json',
          'properties.bootstrap.servers' = '{broker}', 'scan.bounded.mode' = 'latest-offset')""")
    rows = session.sql("SELECT * FROM k").rows
    assert rows is not None
    assert rows.to_pylist() == [{"id": 1, "name": "b", "o": 1, "db": "shop"}]


def test_schemas_of_a_topic_are_registered_under_its_name(broker: str, tmp_path: Path) -> None:
    topic = new_topic(broker, 1)
    folder = tmp_path / "schemas"
    session = Session(Catalog.open(str(tmp_path / "warehouse")))
    session.sql(f"""
        CREATE DATABASE d; USE d;
        CREATE TABLE k (id BIGINT, name STRING) WITH (
          'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{broker}',
          'key.fields' = 'id', 'key.format' = 'avro-confluent', 'value.format' = 'avro-confluent',
          'key.avro-confluent.url' = '{folder.as_uri()}',
          'value.avro-confluent.url' = '{folder.as_uri()}',
          'scan.bounded.mode' = 'latest-offset');
        INSERT INTO k VALUES (1, 'a'), (2, NULL)""")
    subjects = sorted(each.name for each in (folder / "subjects").iterdir())
    assert subjects == [f"{topic}-key", f"{topic}-value"]
    assert {each.value()[:4] for each in messages_of(broker, topic)} == {b"\0\0\0\0"}
    rows = session.sql("SELECT * FROM k ORDER BY id").rows
    assert rows is not None
    assert rows.to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def test_a_bad_message_is_named_by_its_place_and_can_be_reported(broker: str) -> None:
    topic = new_topic(broker, 1)
    send(broker, topic, [(None, b'{"id": 1}'), (None, b"oops"), (None, b'{"id": 3}')])
    with pytest.raises(InvalidRows, match=rf"topic {topic} partition 0 offset 1: "):
        ids_of(context(broker, topic, BOUNDED))
    told: list[tuple[str, bytes]] = []
    scan: Any = plan_scan(context(broker, topic, BOUNDED), ScanRequest()).runtime
    begin = scan.earliest()
    rows = [
        row
        for split in scan.plan(begin, scan.latest(begin))
        for batch in scan.read_reporting(split, lambda *found: told.append(found[:2]))
        for row in batch.column("id").to_pylist()
    ]
    scan.close()
    assert rows == [1, 3]
    assert told == [(f"topic {topic} partition 0 offset 1", b"oops")]


# --- exactly once ---------------------------------------------------------------------------------

# From d.k into d.t until no more rows are there, batch by batch.
_STREAM = """
import sys
from lakewright.connectors import ExternalTables
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.stream import run_stream
from lakewright.storage import Catalog
catalog = Catalog.open(sys.argv[1])
tables = ExternalTables(catalog)
into = tables.context("d.t") if tables.has("d.t") else tables.managed_context("d.t")
scan = plan_scan(tables.context("d.k"), ScanRequest())
sink = plan_write(into, WriteRequest())
for _ in run_stream(
    scan, sink, catalog.env, checkpoint=sys.argv[2], max_rows=20_000, available_now=True
):
    pass
"""


def run_killed(warehouse: Path, checkpoint: Path, kills: int, chance: random.Random) -> None:
    """Run a stream, end its process so many times at any moment, then let it run."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", _STREAM, str(warehouse), str(checkpoint)]
    for _ in range(kills):
        process = subprocess.Popen(command, env=environment)
        time.sleep(0.8 + chance.random() * 1.5)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, env=environment, check=True, timeout=120)


@pytest.mark.parametrize("target", ["table", "topic"])
def test_kills_lose_and_double_nothing(broker: str, tmp_path: Path, target: str) -> None:
    topic, into = new_topic(broker, 3), new_topic(broker, 2)
    count = 600_000
    send(broker, topic, [(None, b'{"id": %d}' % at) for at in range(count)])
    warehouse = tmp_path / "w"
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{broker}'"
    made = {
        "table": "CREATE TABLE t (id BIGINT)",
        "topic": f"""CREATE TABLE t (id BIGINT) WITH ({kafka}, 'topic' = '{into}',
            'format' = 'csv', 'sink.delivery-guarantee' = 'exactly-once',
            'sink.transactional-id-prefix' = '{into}')""",
    }
    Session(Catalog.open(str(warehouse))).sql(f"""
        CREATE DATABASE d; USE d; {made[target]};
        CREATE TABLE k (id BIGINT) WITH ({kafka}, 'topic' = '{topic}', 'format' = 'json')""")
    checkpoint = tmp_path / "checkpoint"
    run_killed(warehouse, checkpoint, kills=6, chance=random.Random(7))
    if target == "topic":
        found = sorted(int(each.value()) for each in messages_of(broker, into))
    else:
        rows = Session(Catalog.open(str(warehouse))).sql("USE d; SELECT id FROM t").rows
        assert rows is not None
        found = sorted(rows.column("id").to_pylist())
    assert found == list(range(count))


_ENDING = {
    # The messages are sent, and the transaction is open.
    "before": "import lakewright.connectors.kafka.sink as m; m._persistently = lambda _: end()",
    # The transaction is committed, and the checkpoint does not say so.
    "after": "import lakewright.connectors.stream as m; m.Checkpoint.commit = lambda *_: end()",
}


@pytest.mark.parametrize("moment", _ENDING)
def test_a_batch_that_is_repeated_is_in_the_topic_once(
    broker: str, tmp_path: Path, moment: str
) -> None:
    topic, into = new_topic(broker, 1), new_topic(broker, 2)
    send(broker, topic, [(None, b'{"id": %d}' % at) for at in range(100)])
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{broker}'"
    Session(Catalog.open(str(tmp_path / "w"))).sql(f"""
        CREATE DATABASE d; USE d;
        CREATE TABLE t (id BIGINT) WITH ({kafka}, 'topic' = '{into}', 'format' = 'csv',
          'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{into}');
        CREATE TABLE k (id BIGINT) WITH ({kafka}, 'topic' = '{topic}', 'format' = 'json')""")

    def stream(checkpoint: str, before: str = "") -> int:
        code = f"import os\nend = lambda: os.kill(os.getpid(), 9)\n{before}\n{_STREAM}"
        ran = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "w"), str(tmp_path / checkpoint)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            check=False,
            timeout=60,
        )
        return ran.returncode

    assert stream("one", _ENDING[moment]) == -signal.SIGKILL
    assert stream("one") == 0
    found = sorted(int(each.value()) for each in messages_of(broker, into))
    assert found == list(range(100))
    # Another stream begins at batch 0 too, and its batches are its own.
    assert stream("another") == 0
    assert len(messages_of(broker, into)) == 200


def test_a_checkpoint_that_was_deleted_or_put_back_sends_no_message_twice_and_loses_none(
    broker: str, tmp_path: Path
) -> None:
    topic, into, other = new_topic(broker, 1), new_topic(broker, 2), new_topic(broker, 1)
    send(broker, topic, [(None, b'{"id": %d}' % at) for at in range(100)])
    catalog = Catalog.open(str(tmp_path / "w"))
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{broker}'"
    once = f"'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{into}'"
    Session(catalog).sql(f"""
        CREATE DATABASE d; USE d;
        CREATE TABLE t (id BIGINT) WITH ({kafka}, 'topic' = '{into}', 'format' = 'csv', {once});
        CREATE TABLE o (id BIGINT) WITH ({kafka}, 'topic' = '{other}', 'format' = 'csv', {once});
        CREATE TABLE k (id BIGINT) WITH ({kafka}, 'topic' = '{topic}', 'format' = 'json')""")
    tables = ExternalTables(catalog)

    def stream(checkpoint: str, target: str = "d.t") -> int:
        scan = plan_scan(tables.context("d.k"), ScanRequest())
        sink = plan_write(tables.context(target), WriteRequest())
        place = str(tmp_path / checkpoint)
        return len([*run_stream(scan, sink, catalog.env, checkpoint=place, available_now=True)])

    def ids(into: str) -> list[int]:
        return sorted(int(each.value()) for each in messages_of(broker, into))

    assert stream("c") == 1
    shutil.move(tmp_path / "c", tmp_path / "saved")
    send(broker, topic, [(None, b'{"id": 100}')])
    # However the place is written.
    for place in ("c", "saved/../c"):
        with pytest.raises(InvalidRequestError, match="batches 0 to 0 of an earlier stream") as one:
            stream(place)
        assert "delete the consumer group" in one.value.message
        assert ids(into) == list(range(100))
    # Of another topic it is a new stream.
    shutil.rmtree(tmp_path / "c")
    assert stream("c", "d.o") == 1
    assert ids(other) == list(range(101))
    # Put back, it goes on.
    shutil.rmtree(tmp_path / "c")
    shutil.copytree(tmp_path / "saved", tmp_path / "c")
    assert stream("c") == 1
    assert ids(into) == list(range(101))
    # An older one, whose next batch has the number of one that is there, does not.
    shutil.move(tmp_path / "c", tmp_path / "newest")
    for number in (101, 102):
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        shutil.copytree(tmp_path / "saved", tmp_path / "c")
        send(broker, topic, [(None, b'{"id": %d}' % number)])
        with pytest.raises(InvalidRequestError, match=r"has batches 0 to 1 .* is an older one"):
            stream("c")
    shutil.rmtree(tmp_path / "c")
    shutil.move(tmp_path / "newest", tmp_path / "c")
    assert stream("c") == 1
    assert ids(into) == list(range(103))
