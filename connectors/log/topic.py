"""The topic of a log: made and removed with its table, and what was published last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakewright.connectors.kafka.client import ANSWER_SECONDS, Cluster
from lakewright.connectors.kafka.sink import make_topic
from lakewright.storage.errors import AlreadyExistsError, UnavailableError

# The headers of each message: the snapshot whose change it is, and the name of that commit.
SNAPSHOT, COMMIT = "lakewright-snapshot", "lakewright-commit"
_BEGINNING, _END = -2, -1
_WAIT_SECONDS = 0.1
# Messages at the end of a partition that are looked at first.
_LAST = 100


@dataclass(frozen=True, slots=True)
class Published:
    """The last snapshot whose changes are in the topic, and its commit."""

    snapshot_id: int
    commit: str


def snapshot_of(headers: Mapping[str, bytes]) -> int:
    """The snapshot of a message; 0 of messages that no relay wrote."""
    text = headers.get(SNAPSHOT, b"")
    return int(text) if text.isdigit() else 0


class LogTopic:
    """One topic of a cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self._name = cluster, name
        self._admin = cluster.admin()

    def identity(self) -> str | None:
        """The id that Kafka gave the topic when it was made; None if it is not there."""
        if self._name not in self._cluster.partitions(self._admin):
            return None
        with self._cluster.told(f"topic {self._name}"):
            from confluent_kafka import TopicCollection  # noqa: PLC0415

            asked = self._admin.describe_topics(TopicCollection([self._name]))
            return str(asked[self._name].result(ANSWER_SECONDS).topic_id)

    def create(self, partitions: int) -> None:
        """Make the topic.

        Raises:
            AlreadyExistsError: it is there, and may be another table's.
        """
        if self._name in self._cluster.partitions(self._admin):
            raise AlreadyExistsError(
                f"topic {self._name} is there already, and may be the log of another table; delete "
                f"it, or name another with log.topic",
                table=self._cluster.table,
            )
        make_topic(self._cluster, self._admin, self._name, partitions)

    def delete(self) -> None:
        """Remove the topic with its messages, if it is there."""
        if self._name not in self._cluster.partitions(self._admin):
            return
        with self._cluster.told(f"the deletion of topic {self._name}"):
            self._admin.delete_topics([self._name])[self._name].result(ANSWER_SECONDS)
        for _ in range(int(ANSWER_SECONDS / _WAIT_SECONDS)):
            if self._name not in self._cluster.partitions(self._admin):
                return
            self._admin.poll(_WAIT_SECONDS)
        raise UnavailableError(f"topic {self._name} was deleted and is still there")

    def last(self) -> Published | None:
        """What was published last: a transaction is in some partitions, so all are looked at."""
        count = self._cluster.partitions(self._admin)[self._name]
        places = [(self._name, number) for number in range(count)]
        first = self._cluster.offsets(self._admin, places, _BEGINNING)
        ends = self._cluster.offsets(self._admin, places, _END)
        consumer = self._cluster.consumer()
        try:
            found = [self._last_of(consumer, each[1], first[each], ends[each]) for each in places]
        finally:
            consumer.close()
        there = [each for each in found if each is not None]
        return max(there, key=lambda each: each.snapshot_id, default=None)

    def _last_of(self, consumer: Any, number: int, first: int, end: int) -> Published | None:
        """Marks of transactions and messages of aborted ones use up offsets: look further back."""
        back = _LAST
        while end > first:
            start = max(first, end - back)
            messages = self._messages(consumer, number, start, end)
            for each in reversed(messages):
                headers = dict(each.headers() or ())
                if snapshot_of(headers):
                    return Published(snapshot_of(headers), headers.get(COMMIT, b"").decode())
            if start == first:
                return None
            back *= 10
        return None

    def _messages(self, consumer: Any, number: int, start: int, end: int) -> list[Any]:
        place = f"the end of partition {number} of topic {self._name}"
        with self._cluster.told(place):
            from confluent_kafka import TopicPartition  # noqa: PLC0415

            consumer.assign([TopicPartition(self._name, number, start)])
            found: list[Any] = []
            for _ in range(int(ANSWER_SECONDS / _WAIT_SECONDS)):
                for each in consumer.consume(end - start, _WAIT_SECONDS):
                    error = each.error()
                    if error is not None and error.name() != "_PARTITION_EOF":
                        raise self._cluster.failure(error, place)
                    if error is not None or each.offset() >= end:
                        return found
                    found.append(each)
                    if each.offset() == end - 1:
                        return found
        raise UnavailableError(
            f"{self._cluster.table}: {place} gives nothing after {ANSWER_SECONDS:.0f} s",
            table=self._cluster.table,
        )
