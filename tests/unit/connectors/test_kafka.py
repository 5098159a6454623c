"""The connectors `kafka` and `upsert-kafka` before they meet a broker: options and positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakewright.connectors.factories import Context
from lakewright.connectors.kafka import client, sink
from lakewright.connectors.kafka.client import Cluster
from lakewright.connectors.kafka.connector import Kafka, UpsertKafka
from lakewright.connectors.kafka.positions import limited
from lakewright.connectors.log.topic import LogTopic
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.testing.tables import context_of
from lakewright.storage.errors import (
    InvalidOption,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.spec.table_distribution import TableDistribution

_GIVEN = {"topic": "t", "properties.bootstrap.servers": "127.0.0.1:1", "value.format": "json"}


def context(
    options: Mapping[str, str] | None = None,
    distribution: TableDistribution | None = None,
    factory: Any = None,
    **more: Any,
) -> Context:
    columns = {"id": "BIGINT", "name": "STRING"}
    found = context_of(factory or Kafka(), columns, {**_GIVEN, **(options or {})}, **more)
    definition = replace(found.table.definition, distribution=distribution)
    return replace(found, table=definition.resolve(found.name))


def target(given: Context) -> Any:
    planned: Any = plan_write(given, WriteRequest()).runtime
    return planned._target


@pytest.mark.mission("BK28", "BK29", "BK31")
def test_a_distribution_says_key_partitioner_and_number_of_partitions() -> None:
    by_key = context(distribution=TableDistribution.of_hash(["id"], 6))
    assert (target(by_key).partitioner, target(by_key).count) == ("default", 6)
    planned: Any = plan_write(by_key, WriteRequest()).runtime
    assert [name for name, _ in planned._rows.key_fields] == ["id"]
    in_turn = context(distribution=TableDistribution.of_unknown(4))
    assert (target(in_turn).partitioner, target(in_turn).count) == ("round-robin", 4)
    assert target(context()).partitioner == "default"


@pytest.mark.mission("BK29")
def test_options_say_the_same_without_a_distribution() -> None:
    options = {"key.fields": "id", "key.format": "json", "sink.partitioner": "fixed"}
    for name in ("properties.num.partitions", "properties.num.partitons"):
        found = target(context({**options, name: "3"}))
        assert (found.partitioner, found.count) == ("fixed", 3)


@pytest.mark.mission("BK30")
@pytest.mark.parametrize(
    ("name", "text"),
    [("key.fields", "id"), ("sink.partitioner", "round-robin"), ("properties.num.partitions", "6")],
)
def test_a_clause_and_an_option_that_say_the_same_are_refused_and_both_named(
    name: str, text: str
) -> None:
    given = context({name: text}, TableDistribution.of_hash(["id"], 6))
    with pytest.raises(InvalidOption, match=rf"DISTRIBUTED BY HASH \(`?id`?\).* and {name}"):
        given.registry.sink("kafka").create_sink(given)


@pytest.mark.mission("BK31")
def test_ranges_are_no_distribution_of_a_topic() -> None:
    with pytest.raises(UnsupportedError, match="not by RANGE"):
        plan_write(context(distribution=TableDistribution.of_range(["id"], 2)), WriteRequest())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"topic-pattern": "t.*"}, "topic and topic-pattern"),
        ({"key.format": "json"}, "no key"),
        ({"key.fields": "id"}, "no key.format"),
        ({"key.fields": "nope", "key.format": "json"}, "which is no column"),
        ({"key.fields-prefix": "k_"}, "EXCEPT_KEY"),
        ({"format": "json"}, "format and value.format"),
        ({"scan.startup.mode": "timestamp"}, "no scan.startup.timestamp-millis"),
        ({"scan.startup.mode": "group-offsets"}, "no properties.group.id"),
        ({"scan.bounded.timestamp-millis": "1"}, "is unbounded, and there is scan.bounded"),
        ({"properties.plugin.library.paths": "/tmp/x.so"}, "runs a program or loads a library"),
        ({"properties.sasl.kerberos.kinit.cmd": "x"}, "runs a program or loads a library"),
        ({"properties.enable.auto.commit": "true"}, "is set by the connector"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: Mapping[str, str], told: str
) -> None:
    given = context(options)
    with pytest.raises(InvalidOption, match=told):
        given.registry.source("kafka").create_source(given)


def test_exactly_once_needs_a_prefix_and_upserts_a_key() -> None:
    with pytest.raises(InvalidOption, match=r"has no sink\.transactional-id-prefix"):
        plan_write(context({"sink.delivery-guarantee": "exactly-once"}), WriteRequest())
    with pytest.raises(InvalidOption, match="use the connector upsert-kafka"):
        plan_write(context(primary_key=("id",)), WriteRequest())
    keyed = {"key.format": "json"}
    with pytest.raises(InvalidOption, match="declare PRIMARY KEY"):
        plan_write(context(keyed, factory=UpsertKafka()), WriteRequest())
    changes = {**keyed, "value.format": "debezium-json"}
    given = context(changes, factory=UpsertKafka(), primary_key=("id",))
    with pytest.raises(InvalidOption, match="a format of changes"):
        plan_write(given, WriteRequest())


def test_a_plan_does_not_show_the_properties_of_the_client() -> None:
    planned = plan_write(context({"properties.sasl.password": "hidden"}), WriteRequest())
    assert "hidden" not in repr(planned.runtime.__dict__)


def test_a_limit_is_shared_and_never_passed() -> None:
    begin = {("t", 0): 5, ("t", 1): 0, ("t", 2): 0}
    end = {("t", 0): 7, ("t", 1): 100, ("t", 2): 100}
    assert limited(begin, end, 10) == {("t", 0): 7, ("t", 1): 4, ("t", 2): 4}
    assert limited(begin, end, 1000) == end
    assert limited(begin, end, 1) == {("t", 0): 6, ("t", 1): 0, ("t", 2): 0}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A broker of the client library that answers nothing about making topics."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    settings = {"bootstrap.servers": "x", "test.mock.num.brokers": 1, "log_level": 0}
    producer = confluent_kafka.Producer(settings)
    (found,) = producer.list_topics(timeout=30).brokers.values()
    for module in (client, sink):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 1.0)
    yield f"{found.host}:{found.port}"
    # The broker lives as long as the producer.
    producer.flush()


def test_a_topic_that_is_not_made_in_time_is_named_with_its_brokers(broker: str) -> None:
    cluster = Cluster.of("db.t", {"properties.bootstrap.servers": broker})
    with pytest.raises(UnavailableError) as refused:
        sink.make_topic(cluster, cluster.admin(), "new", 3)
    for said in ("db.t", "topic new", broker, "within 1 s", "make topic new with 3 partitions"):
        assert said in refused.value.message
    topic = LogTopic(cluster, "new")
    with pytest.raises(UnavailableError, match="the creation of topic new: no answer"):
        topic.create(1)
    assert topic.identity() is None
    with pytest.raises(NotFoundError, match="topic new of the log is not there"):
        topic.last()


def test_what_waits_for_brokers_says_what_it_waited_for(broker: str) -> None:
    cluster = Cluster.of("db.t", {"properties.bootstrap.servers": broker})
    admin = cluster.admin()
    said = "the deletion of topic x: no answer of Kafka at"
    with pytest.raises(UnavailableError, match=said), cluster.told("the deletion of topic x"):
        admin.delete_topics(["x"])["x"].result(0.5)
