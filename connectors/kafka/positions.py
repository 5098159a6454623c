"""Positions in topics: which partitions there are, where reading begins, and where it ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakewright.connectors.kafka.client import ANSWER_SECONDS, Cluster, Partition
from lakewright.connectors.rests import RESTS, Facts, without_rests
from lakewright.connectors.runtime import Offset
from lakewright.storage.errors import InvalidOption, NotFoundError

_BEGINNING, _END = -2, -1
# What is looked at to know the time of the next messages; the backlog is known without it.
_MOST_LOOKS, _LOOK_SECONDS = 20, 0.1
# The next offset of each partition.
Positions = dict[Partition, int]


def positions_of(offset: Offset) -> Positions:
    """What an offset says."""
    return {
        (topic, int(number)): at
        for topic, found in without_rests(offset).items()
        for number, at in found.items()
    }


def offset_of(positions: Positions, rests: Facts) -> Offset:
    """Positions as JSON holds them, by topic and then by partition, and what they rest on."""
    found: dict[str, dict[str, int]] = {}
    for (topic, number), at in sorted(positions.items()):
        found.setdefault(topic, {})[str(number)] = at
    return {**found, RESTS: rests}


@dataclass(frozen=True)
class Topics:
    """Topics by name, or all whose whole name a pattern is of."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def __str__(self) -> str:
        return ";".join(self.names) if self.pattern is None else f"/{self.pattern}/"

    def partitions(self, cluster: Cluster, admin: Any) -> list[Partition]:
        """All partitions that there are now.

        Raises:
            NotFoundError: a topic is not there.
        """
        known = cluster.partitions(admin)
        names = self.names
        if self.pattern is not None:
            names = tuple(name for name in known if re.fullmatch(self.pattern, name))
        for name in names:
            if name not in known:
                raise NotFoundError(
                    f"{cluster.table}: Kafka at {cluster.servers} has no topic {name}"
                )
        return [(name, number) for name in names for number in range(known[name])]


@dataclass(frozen=True)
class Bound:
    """Where reading begins or ends, as the options of `scan.startup` or `scan.bounded` say it."""

    mode: str
    option: str
    timestamp_ms: int | None = None
    specific: Mapping[int, int] | None = None
    # Of groups without an offset: earliest, latest, or None to refuse.
    reset: str | None = None

    def positions(self, cluster: Cluster, admin: Any, partitions: list[Partition]) -> Positions:
        """The position of each partition.

        Raises:
            InvalidOption: there is none for a partition.
        """
        match self.mode:
            case "earliest-offset":
                return cluster.offsets(admin, partitions, _BEGINNING)
            case "timestamp":
                assert self.timestamp_ms is not None
                offsets = cluster.offsets(admin, partitions, self.timestamp_ms)
                late = [partition for partition in partitions if offsets[partition] < 0]
                return offsets | cluster.offsets(admin, late, _END)
            case "specific-offsets":
                offsets = {
                    partition: (self.specific or {}).get(partition[1], -1)
                    for partition in partitions
                }
            case "group-offsets":
                offsets = _of_group(cluster, partitions)
                unset = [partition for partition in partitions if offsets[partition] < 0]
                if self.reset is not None:
                    asked = _BEGINNING if self.reset == "earliest" else _END
                    offsets |= cluster.offsets(admin, unset, asked)
            case _:
                return cluster.offsets(admin, partitions, _END)
        lacking = [f"{topic}/{number}" for (topic, number), at in offsets.items() if at < 0]
        if lacking:
            hint = "; or set properties.auto.offset.reset" if self.mode == "group-offsets" else ""
            raise InvalidOption(
                f"{cluster.table}: {self.option} is {self.mode}, which says no offset of "
                f"{', '.join(lacking[:5])}; say it{hint}",
                option=self.option,
            )
        return offsets


def _of_group(cluster: Cluster, partitions: list[Partition]) -> Positions:
    """The offsets that a group committed, -1 where it did not."""
    consumer = cluster.consumer()
    try:
        with cluster.told(f"offsets of group {cluster.group}"):
            from confluent_kafka import TopicPartition  # noqa: PLC0415

            asked = [TopicPartition(*partition) for partition in partitions]
            found = consumer.committed(asked, timeout=ANSWER_SECONDS)
            return {(each.topic, each.partition): max(each.offset, -1) for each in found}
    finally:
        consumer.close()


def oldest_ms(cluster: Cluster, positions: Positions) -> int | None:
    """The time of the oldest of the messages that stand first behind positions, as far as known."""
    consumer = cluster.consumer()
    found: dict[Partition, int] = {}
    try:
        with cluster.told("the next messages"):
            from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, TopicPartition  # noqa: PLC0415

            consumer.assign([TopicPartition(*each, at) for each, at in positions.items()])
            for _ in range(_MOST_LOOKS):
                for each in consumer.consume(len(positions), _LOOK_SECONDS):
                    kind, at_ms = each.timestamp()
                    if each.error() is None and kind != TIMESTAMP_NOT_AVAILABLE:
                        found.setdefault((each.topic(), each.partition()), at_ms)
                if len(found) == len(positions):
                    break
    finally:
        consumer.close()
    return min(found.values(), default=None)


def limited(begin: Positions, end: Positions, limit: int) -> Positions:
    """Positions behind at most so many messages, an equal share of each partition that has them."""
    found, left = dict(end), limit
    by_size = sorted(end, key=lambda each: end[each] - begin[each])
    for at, each in enumerate(by_size):
        share = -(-left // (len(by_size) - at))
        found[each] = min(end[each], begin[each] + share)
        left -= found[each] - begin[each]
    return found


def offsets_by_partition(text: str, option: str, table: str) -> dict[int, int]:
    """What `partition:0,offset:42;partition:1,offset:300` says."""
    found = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        read = re.fullmatch(r"partition:\s*(\d+)\s*,\s*offset:\s*(\d+)", part)
        if read is None:
            raise InvalidOption(
                f"{option} of {table}: {part[:80]!r} is not of the form partition:0,offset:42",
                option=option,
            )
        found[int(read[1])] = int(read[2])
    return found
