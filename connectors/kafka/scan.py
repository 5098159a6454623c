"""Scans of topics: offsets are the next positions of partitions, splits are ranges of one each.

Marks of transactions and messages that compaction removed use up offsets, so a range is read up to
its last position, not up to a number of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakewright.connectors.kafka.client import ANSWER_SECONDS, Cluster, Partition
from lakewright.connectors.kafka.decoding import RowReader
from lakewright.connectors.kafka.positions import (
    Bound,
    Positions,
    Topics,
    limited,
    offset_of,
    oldest_ms,
    positions_of,
)
from lakewright.connectors.rests import Facts, check_facts, rests_of
from lakewright.connectors.runtime import Backlog, Offset, ReportBad, Scan, Split
from lakewright.storage.errors import FileMissing, NotFoundError, UnavailableError

_MESSAGES = 20_000
_WAIT_SECONDS = 0.1
# Consumers that wait for the next range of their partition; each holds what it fetched ahead.
_MOST_READERS = 16


@dataclass(frozen=True, slots=True)
class Range:
    """Positions of a partition, the last one left out."""

    topic: str
    partition: int
    start: int
    end: int


class KafkaScan(Scan):
    """Reads partitions; clients stay open from range to range in the process that planned them."""

    def __init__(
        self, cluster: Cluster, topics: Topics, begin: Bound, end: Bound, rows: RowReader
    ) -> None:
        self._cluster, self._topics = cluster, topics
        self._begin, self._end, self._rows = begin, end, rows
        self.is_bounded = end.mode != "unbounded"
        # Of a bounded scan: the end as it was when it was first asked for.
        self._ends: Positions | None = None
        self._is_drained = False
        self._client: Any = None
        self._readers: dict[Partition, _Reader] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_client": None, "_readers": {}}

    def earliest(self) -> Offset:
        found = self._topics.partitions(self._cluster, self._admin)
        begin = self._begin.positions(self._cluster, self._admin, found)
        return offset_of(begin, self._rests(found))

    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        there = self._topics.partitions(self._cluster, self._admin)
        begin = positions_of(start)
        for topic, number in begin:
            if (topic, number) not in there:
                raise NotFoundError(
                    f"{self._cluster.table}: partition {number} of topic {topic} is gone, which "
                    f"was read up to offset {begin[topic, number]}; begin a new stream"
                )
        rests = self._rests(there)
        self._check_same(start, rests)
        if self._ends is None or not (self.is_bounded or self._is_drained):
            self._ends = self._end.positions(self._cluster, self._admin, there)
        ends = {each: at for each, at in self._ends.items() if each in there}
        if not (self.is_bounded or self._is_drained):
            self._check_not_shorter(begin, ends)
        added = [each for each in ends if each not in begin]
        self._check_whole(added)
        begin |= dict.fromkeys(added, 0)
        more = {each: at for each, at in ends.items() if at > begin[each]}
        if not more:
            # A partition that was added counts from now on: what it loses later is noticed.
            return offset_of(begin, rests) if added else start
        if limit is not None:
            more = limited(begin, more, limit)
        read = {each: at for each, at in more.items() if at > begin[each]}
        return offset_of(begin | read, rests)

    def backlog(self, start: Offset) -> Backlog:
        """Positions tell the messages; marks of transactions are among them."""
        end = self.latest(start)
        begin, until = positions_of(start), positions_of(end)
        rows = {each: at - begin.get(each, 0) for each, at in until.items()}
        behind = {each: until[each] - count for each, count in rows.items() if count > 0}
        return Backlog(
            end=end,
            rows={f"{topic}/{number}": count for (topic, number), count in rows.items()},
            since_ms=oldest_ms(self._cluster, behind) if behind else None,
        )

    def end_at(self, offset: Offset) -> None:
        """What comes behind an offset is left to the next drain."""
        self._ends, self._is_drained = positions_of(offset), True

    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        begin, until = positions_of(start), positions_of(end)
        self._check_same(end, self._rests(until))
        wanted = [each for each, at in until.items() if at > begin.get(each, -1)]
        first = self._first(wanted)
        for each in wanted:
            # A partition that was added is read from its beginning.
            if first[each] > begin.get(each, 0):
                raise self._lost(each, begin.get(each, 0), first[each])
        ranges = (Range(*each, begin.get(each, 0), until[each]) for each in wanted)
        return [each for each in ranges if each.end > each.start]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        return self._read(split, None)

    def read_reporting(self, split: Split, report: ReportBad) -> Iterator[pa.RecordBatch]:
        return self._read(split, report)

    def acknowledge(self, end: Offset) -> None:
        if self._cluster.group is None:
            return
        consumer = self._cluster.consumer()
        try:
            with self._cluster.told(f"the commit of offsets of group {self._cluster.group}"):
                from confluent_kafka import TopicPartition  # noqa: PLC0415

                found = [TopicPartition(*each, at) for each, at in positions_of(end).items()]
                consumer.commit(offsets=found, asynchronous=False)
        finally:
            consumer.close()

    def close(self) -> None:
        while self._readers:
            self._readers.popitem()[1].close()
        self._client = None

    @property
    def _admin(self) -> Any:
        if self._client is None:
            self._client = self._cluster.admin()
        return self._client

    def _rests(self, partitions: Iterable[Partition]) -> Facts:
        """The identities of topics."""
        names = (topic for topic, _ in partitions)
        found = self._cluster.topic_ids(self._admin, names)
        return {f"topic {topic}": each for topic, each in found.items()}

    def _check_same(self, read: Offset, rests: Facts) -> None:
        """Refuse topics that were made anew, whose offsets count other messages."""
        check_facts(
            self._cluster.table,
            rests_of(read),
            rests,
            lambda topic: (
                "it was made anew, so the offsets are of other messages; begin a new stream, and "
                "take out first what the former topic left in its table if it comes again"
            ),
        )

    def _first(self, partitions: Sequence[Partition]) -> Positions:
        whole = Bound("earliest-offset", "scan.startup.mode")
        return whole.positions(self._cluster, self._admin, list(partitions))

    def _read(self, split: Split, report: ReportBad | None) -> Iterator[pa.RecordBatch]:
        assert isinstance(split, Range)
        key = split.topic, split.partition
        reader = self._readers.pop(key, None)
        if reader is not None and reader.position != split.start:
            # Read again, or out of turn.
            reader.close()
            reader = None
        if reader is None:
            reader = _Reader(self._cluster, split)
        try:
            for messages in reader.messages(split):
                yield self._rows.rows(messages, report)
        except BaseException:
            reader.close()
            raise
        self._readers[key] = reader
        if len(self._readers) > _MOST_READERS:
            self._readers.pop(next(iter(self._readers))).close()

    def _check_not_shorter(self, begin: Positions, ends: Positions) -> None:
        for (topic, number), at in begin.items():
            if at > ends[topic, number]:
                raise FileMissing(
                    f"{self._cluster.table}: partition {number} of topic {topic} ends at offset "
                    f"{ends[topic, number]}, and was read up to {at}; the topic was made anew or "
                    "lost messages: begin a new stream"
                )

    def _check_whole(self, added: Sequence[Partition]) -> None:
        """Refuse partitions that came behind the stream's back and lost messages since."""
        for each, first in self._first(added).items():
            if first:
                raise self._lost(each, 0, first)

    def _lost(self, partition: Partition, at: int, first: int) -> FileMissing:
        topic, number = partition
        return FileMissing(
            f"{self._cluster.table}: offsets {at} to {first - 1} of partition {number} of topic "
            f"{topic} are gone, {first - at} in all: the topic begins at {first}; keep messages "
            "longer (retention.ms), and begin a new stream"
        )


class _Reader:
    """A consumer of one partition, which fetches ahead."""

    def __init__(self, cluster: Cluster, begin: Range) -> None:
        self._cluster, self.position = cluster, begin.start
        self._place = f"partition {begin.partition} of topic {begin.topic}"
        # Up to here there is nothing but what was given, as the end of the partition told: it
        # tells so once.
        self._known = begin.start
        # Messages behind the range that was read last.
        self._ahead: list[Any] = []
        self._consumer = cluster.consumer()
        with cluster.told(self._place):
            from confluent_kafka import TopicPartition  # noqa: PLC0415

            self._consumer.assign([TopicPartition(begin.topic, begin.partition, begin.start)])

    def messages(self, wanted: Range) -> Iterator[list[Any]]:
        """The messages of a range, some at a time."""
        silent = 0.0
        self.position = max(self.position, min(self._known, wanted.end))
        while self.position < wanted.end:
            found = self._ahead or self._fetched(wanted.end - self.position)
            self._ahead = []
            silent = 0.0 if found else silent + _WAIT_SECONDS
            if silent > ANSWER_SECONDS:
                raise UnavailableError(
                    f"{self._cluster.table}: {self._place} gives nothing at offset "
                    f"{self.position}, and ends at {wanted.end} or later"
                )
            if kept := self._within(found, wanted.end):
                yield kept

    def close(self) -> None:
        self._consumer.close()

    def _fetched(self, most: int) -> list[Any]:
        with self._cluster.told(self._place):
            found: list[Any] = self._consumer.consume(min(most, _MESSAGES), _WAIT_SECONDS)
            return found

    def _within(self, found: list[Any], end: int) -> list[Any]:
        """The messages before a position; `position` is then behind them."""
        for at, each in enumerate(found):
            error = each.error()
            if error is not None:
                if error.name() != "_PARTITION_EOF":
                    raise self._cluster.failure(error, f"{self._place} at {self.position}")
                self._known = each.offset()
                self.position = max(self.position, min(self._known, end))
            elif each.offset() >= end:
                self.position, self._ahead = end, found[at:]
                return [kept for kept in found[:at] if kept.error() is None]
            else:
                self.position = each.offset() + 1
        return [kept for kept in found if kept.error() is None]
