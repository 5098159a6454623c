"""The topic of a log: made and removed with its table, and what was published last."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lakewright.connectors.kafka.client import ANSWER_SECONDS, Cluster, Partition
from lakewright.connectors.kafka.sink import make_topic
from lakewright.storage.errors import AlreadyExistsError, NotFoundError, UnavailableError
from lakewright.storage.spec.option_values import bounded_number

# The headers of each message: the snapshot whose change it is, and the name of that commit.
SNAPSHOT, COMMIT = "lakewright-snapshot", "lakewright-commit"
_BEGINNING, _END = -2, -1
_WAIT_SECONDS, _PATIENCE = 0.1, 50
# Messages at the end of a partition that are looked at first.
_LAST, _MOST = 100, 10_000


@dataclass(frozen=True, slots=True)
class Published:
    """The last snapshot whose changes are in the topic, and its commit."""

    snapshot_id: int
    commit: str


def snapshot_of(headers: Mapping[str, bytes]) -> int:
    """The snapshot of a message; 0 of messages that no relay wrote."""
    return bounded_number(headers.get(SNAPSHOT, b"").decode("latin-1"), 64) or 0


class LogTopic:
    """One topic of a cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self._name = cluster, name
        self._admin = cluster.admin()

    def identity(self) -> str | None:
        """The id that Kafka gave the topic when it was made; None if it is not there."""
        if self._name not in self._cluster.partitions(self._admin):
            return None
        return self._cluster.topic_ids(self._admin, [self._name]).get(self._name, "")

    def create(self, partitions: int) -> None:
        """Make the topic.

        Raises:
            AlreadyExistsError: it is there, and may be another table's.
        """
        if self._name in self._cluster.partitions(self._admin):
            raise AlreadyExistsError(
                f"topic {self._name} is there already, and may be the log of another table; delete "
                f"it, or name another with log.topic"
            )
        make_topic(self._cluster, self._admin, self._name, partitions)
        for _ in range(_PATIENCE):
            # Its partitions have no leader for a moment.
            with suppress(UnavailableError):
                places = [(self._name, number) for number in range(partitions)]
                self._cluster.offsets(self._admin, places, _END)
                return
            self._admin.poll(_WAIT_SECONDS)

    def drop(self) -> None:
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
        """What was published last: a transaction is in some partitions, so all are looked at.

        Raises:
            NotFoundError: the topic is not there.

        Marks of transactions and messages of aborted ones use up offsets: it looks further back
        where it finds none.
        """
        count = self._cluster.partitions(self._admin).get(self._name)
        if count is None:
            raise NotFoundError(
                f"{self._cluster.table}: topic {self._name} of the log is not there; RESET "
                "('log.system') takes the log from the table, and SET makes another one"
            )
        places = [(self._name, number) for number in range(count)]
        first = self._cluster.offsets(self._admin, places, _BEGINNING)
        ends = self._cluster.offsets(self._admin, places, _END)
        found: list[Published] = []
        back = _LAST
        left = [place for place in places if ends[place] > first[place]]
        consumer = self._cluster.consumer()
        try:
            while left:
                starts = {each: max(first[each], ends[each] - back) for each in left}
                told = self._told(consumer, starts, ends)
                found += told.values()
                left = [each for each in left if each not in told and starts[each] > first[each]]
                back *= 10
        finally:
            consumer.close()
        return max(found, key=lambda each: each.snapshot_id, default=None)

    def _told(
        self, consumer: Any, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
    ) -> dict[Partition, Published]:
        """What the last message of each partition tells, of those behind a start."""
        found: dict[Partition, Published] = {}
        left, silent = {*starts}, 0.0
        with self._cluster.told(f"the end of topic {self._name}"):
            from confluent_kafka import TopicPartition  # noqa: PLC0415

            consumer.assign([TopicPartition(*each, at) for each, at in starts.items()])
            while left and silent < ANSWER_SECONDS:
                messages = consumer.consume(_MOST, _WAIT_SECONDS)
                silent = 0.0 if messages else silent + _WAIT_SECONDS
                for message in messages:
                    place, error = (message.topic(), message.partition()), message.error()
                    if error is not None and error.name() != "_PARTITION_EOF":
                        raise self._cluster.failure(error, f"the end of topic {self._name}")
                    if error is not None or message.offset() >= ends[place] - 1:
                        left.discard(place)
                    headers = {} if error is not None else dict(message.headers() or ())
                    if snapshot_of(headers):
                        commit = headers.get(COMMIT, b"").decode()
                        found[place] = Published(snapshot_of(headers), commit)
        if left:
            raise UnavailableError(
                f"{self._cluster.table}: topic {self._name} gives nothing after "
                f"{ANSWER_SECONDS:.0f} s"
            )
        return found
