"""Sinks of topics: tasks encode rows, and the commit sends them.

In a stream, a transaction holds the messages of a batch and its number, as the offset of a group
that is named after the stream: both are there or neither. The commit of a batch that is repeated
finds its number and sends nothing. The transactional id is the stream's too, so that a process
which was taken for dead cannot commit beside its successor.

With the number, a group keeps digests of the stream's checkpoint and of what the batch reads. A new
stream with the checkpoint of another one would send all messages again: that checkpoint was
deleted, and it is refused. So is a batch of the same number that reads something else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from lakewright.connectors.kafka.client import ANSWER_SECONDS, Cluster, admin_module
from lakewright.connectors.kafka.encoding import Record, RowWriter
from lakewright.connectors.last_batch import LastBatch, check_follows
from lakewright.connectors.runtime import Sink
from lakewright.storage.env import Env
from lakewright.storage.errors import InvalidRequestError, UnavailableError
from lakewright.storage.spec.stream import span_digest

EXACTLY_ONCE, AT_LEAST_ONCE, NONE = "exactly-once", "at-least-once", "none"
_PARTITION_OF_KEY = -1
_FULL_SECONDS = 0.1
_MARK, _SPAN = "lakewright checkpoint ", " span "


@dataclass(frozen=True)
class Target:
    """A topic, and how messages get there; `count` partitions if it has to be made."""

    topic: str
    count: int | None
    # Whether `count` is what the table says of its distribution.
    is_distributed: bool
    partitioner: str
    guarantee: str
    prefix: str | None


class KafkaSink(Sink):
    """Sends messages; without transactions in the tasks, with them in the commit."""

    def __init__(
        self,
        cluster: Cluster,
        target: Target,
        rows: RowWriter,
        env: Env,
        stream: str | None = None,
        checkpoint: str = "",
    ) -> None:
        self._cluster, self._target, self._rows = cluster, target, rows
        self._env, self._stream, self._checkpoint = env, stream, checkpoint
        self._producer: Any = None
        # A digest of what the batch reads: a broker limits the metadata of an offset.
        self._span = ""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_producer": None}

    def of_stream(self, name: str, checkpoint: str) -> KafkaSink:
        """The same for the batches of a stream."""
        return KafkaSink(self._cluster, self._target, self._rows, self._env, name, checkpoint)

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[Record] | None:
        records = chain.from_iterable(map(self._rows.records, batches))
        if self._target.guarantee == EXACTLY_ONCE:
            return list(records)
        count = self._made_topic()
        acks = "0" if self._target.guarantee == NONE else "all"
        is_idempotent = str(self._target.guarantee == AT_LEAST_ONCE).lower()
        producer = self._cluster.producer({"acks": acks, "enable.idempotence": is_idempotent})
        self._send(producer, records, count)
        self._flush(producer)
        return None

    def claim(self) -> None:
        """Take the transactions of the stream over: another process can commit none from now on.

        A transaction that it left open ends, so what it committed can be read.
        """
        if self._producer is None:
            name = f"{self._target.prefix}-{self._stream or self._env.new_id()}"
            with self._cluster.told(f"the transactions of {self._target.topic}"):
                producer = self._cluster.producer({"transactional.id": name})
                producer.init_transactions(ANSWER_SECONDS)
            self._producer = producer

    def commit(self, written: Iterable[list[Record] | None], epoch: int | None = None) -> None:
        if self._target.guarantee != EXACTLY_ONCE:
            return
        count = self._made_topic()
        with self._cluster.told(f"a transaction of {self._target.topic}"):
            try:
                self._commit(chain.from_iterable(filter(None, written)), epoch, count)
            except BaseException:
                producer, self._producer = self._producer, None
                with suppress(Exception):
                    producer.abort_transaction(ANSWER_SECONDS)
                raise

    def commit_batch(self, written: Iterable[list[Record] | None], number: int, span: str) -> None:
        """Send the messages of a batch, if it is the one that comes next, once."""
        self._span = span_digest(span)
        self.commit(written, number)

    def _commit(self, records: Iterable[Record], epoch: int | None, count: int) -> None:
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        self.claim()
        producer = self._producer
        if epoch is None or self._stream is None:
            producer.begin_transaction()
            self._send(producer, records, count)
            _persistently(lambda: producer.commit_transaction(ANSWER_SECONDS))
            return
        group = self._cluster.consumer(f"{self._target.prefix}-{self._stream}")
        try:
            place = TopicPartition(self._target.topic, 0)
            [found] = group.committed([place], ANSWER_SECONDS)
            if found.offset < 0:
                self._check_is_new(epoch)
            else:
                self._check_follows(epoch, found.offset - 1, found.metadata or "")
            if found.offset > epoch:
                return
            producer.begin_transaction()
            self._send(producer, records, count)
            said = f"{self._mark}{_SPAN}{self._span}" if self._mark else ""
            after = TopicPartition(self._target.topic, 0, epoch + 1, said)
            producer.send_offsets_to_transaction(
                [after], group.consumer_group_metadata(), ANSWER_SECONDS
            )
            _persistently(lambda: producer.commit_transaction(ANSWER_SECONDS))
        finally:
            group.close()

    @property
    def _mark(self) -> str:
        """What tells the checkpoint of this stream from those of others; it may be long."""
        place = self._checkpoint
        return _MARK + hashlib.sha256(place.encode()).hexdigest()[:32] if place else ""

    def _check_is_new(self, epoch: int) -> None:
        """Check that the topic has no batch of an earlier stream with the same checkpoint.

        Raises:
            InvalidRequestError: it has some.
        """
        if not self._mark:
            return
        from confluent_kafka import (  # noqa: PLC0415
            ConsumerGroupTopicPartitions,
            TopicPartition,
        )

        topic, own = self._target.topic, f"{self._target.prefix}-{self._stream}"
        admin = self._cluster.admin()
        listed = admin.list_consumer_groups(request_timeout=ANSWER_SECONDS).result(ANSWER_SECONDS)
        if listed.errors:
            raise self._cluster.failure(listed.errors[0].args[0], f"the streams into {topic}")
        for group in sorted(each.group_id for each in listed.valid):
            if not group.startswith(f"{self._target.prefix}-") or group == own:
                continue
            asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
            answer = admin.list_consumer_group_offsets([asked], request_timeout=ANSWER_SECONDS)
            [place] = answer[group].result(ANSWER_SECONDS).topic_partitions
            if place.offset > 0 and (place.metadata or "").split(_SPAN)[0] == self._mark:
                self._check(LastBatch(group, place.offset - 1, ""), LastBatch(own, epoch, ""))

    def _check_follows(self, epoch: int, last: int, said: str) -> None:
        """Check that a batch comes next, or is the last one again; a log has no checkpoint."""
        if self._mark:
            own = f"{self._target.prefix}-{self._stream}"
            span = said.partition(_SPAN)[2]
            self._check(LastBatch(own, last, span), LastBatch(own, epoch, self._span))

    def _check(self, last: LastBatch, batch: LastBatch) -> None:
        check_follows(
            batch,
            last,
            sink=f"topic {self._target.topic}",
            checkpoint=self._checkpoint,
            empty=f"empty the topic and delete the consumer group {last.stream}",
        )

    def close(self) -> None:
        self._producer = None

    def _send(self, producer: Any, records: Iterable[Record], count: int) -> None:
        failed: list[Any] = []

        def sent(error: Any, _: Any) -> None:
            if error is not None and not failed:
                failed.append(error)

        place = self._places(count)
        for at, record in enumerate(records):
            more: dict[str, Any] = {}
            if record.headers is not None:
                more["headers"] = record.headers
            if record.timestamp_ms is not None:
                more["timestamp"] = record.timestamp_ms
            while True:
                try:
                    producer.produce(
                        self._target.topic,
                        record.value,
                        record.key,
                        place(at),
                        on_delivery=sent,
                        **more,
                    )
                except BufferError:
                    producer.poll(_FULL_SECONDS)
                else:
                    break
            if failed:
                break
        self._flush(producer)
        if failed and self._target.guarantee != NONE:
            raise self._cluster.failure(failed[0], f"messages of topic {self._target.topic}")

    def _flush(self, producer: Any) -> None:
        if left := producer.flush(ANSWER_SECONDS):
            raise UnavailableError(
                f"{self._cluster.table}: {left} messages of topic {self._target.topic} are not "
                f"acknowledged after {ANSWER_SECONDS:.0f} s"
            )

    def _places(self, count: int) -> Callable[[int], int]:
        match self._target.partitioner:
            case "round-robin":
                return lambda at: at % count
            case "fixed":
                chosen = int(self._env.jitter() * count)
                return lambda at: chosen
            case _:
                return lambda at: _PARTITION_OF_KEY

    def _made_topic(self) -> int:
        """The number of the topic's partitions; the topic is made if it is not there.

        Raises:
            InvalidRequestError: it has another number than the table's distribution says.
        """
        admin, target = self._cluster.admin(), self._target
        found = self._cluster.partitions(admin).get(target.topic)
        if found is None:
            make_topic(self._cluster, admin, target.topic, target.count)
            return self._made_topic()
        if target.is_distributed and target.count not in (None, found):
            raise InvalidRequestError(
                f"{self._cluster.table} is distributed into {target.count} buckets, and topic "
                f"{target.topic} has {found} partitions; ALTER TABLE … MODIFY DISTRIBUTION, or add "
                "partitions to the topic"
            )
        return found


def make_topic(cluster: Cluster, admin: Any, topic: str, count: int | None) -> None:
    """Make a topic, unless another process just did; without a count as the broker is set.

    Raises:
        UnavailableError: the brokers do not answer, or the topic does not come.
    """
    what = f"the creation of topic {topic}"
    with cluster.told(what):
        from confluent_kafka import KafkaException  # noqa: PLC0415

        made = admin.create_topics([admin_module().NewTopic(topic, count or -1)])[topic]
        try:
            made.result(ANSWER_SECONDS)
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise
        except TimeoutError:
            # The answer may be lost, and the topic there.
            if topic not in cluster.partitions(admin):
                partitions = "" if count is None else f" with {count} partitions"
                raise cluster.silent(
                    what,
                    f", and that topics may be made there, or make topic {topic}{partitions} by "
                    "its own tools, and try again",
                ) from None
    for _ in range(int(ANSWER_SECONDS * 10)):
        if topic in cluster.partitions(admin):
            return
        admin.poll(_FULL_SECONDS)
    raise UnavailableError(f"{cluster.table}: topic {topic} was made and is not there")


def _persistently(attempt: Callable[[], None]) -> None:
    """Try again what the client says may be tried again."""
    from confluent_kafka import KafkaException  # noqa: PLC0415

    for left in reversed(range(3)):
        try:
            return attempt()
        except KafkaException as error:
            if not left or not error.args[0].retriable():
                raise
