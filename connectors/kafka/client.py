"""A Kafka cluster: its clients, and what their failures mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from lakewright.storage.errors import (
    AccessRefused,
    InvalidOption,
    InvalidRequestError,
    NotFoundError,
    StorageError,
    UnavailableError,
)
from lakewright.storage.extras import needed_for
from lakewright.storage.files.store_failures import harmless

PROPERTIES = "properties."
SERVERS, GROUP = "bootstrap.servers", "group.id"
# Dagster gives up on the look of a sensor after a minute.
ANSWER_SECONDS = 30.0
# The client's name for a partition: topic and number.
Partition = tuple[str, int]

# They load a library or run a command, which a definition of a table may not.
_PROGRAMS = ("plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location")
# What the connector rests on.
_OWN = (
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "transactional.id",
)
# Properties of Java clients that say nothing to this one.
_NOT_SENT = ("auto.offset.reset", "num.partitions", "num.partitons")
_CLIENT = {
    # Errors are raised; the client also prints them.
    "log_level": "1",
    "queued.max.messages.kbytes": "16384",
}
# No consumer joins this group: the stream keeps its own positions.
_NO_GROUP = "lakewright"
_FENCED = (
    "_FENCED",
    "_FATAL",
    "INVALID_PRODUCER_EPOCH",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_ID_MAPPING",
)
_SILENT = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE", "_WAIT_COORD")


def admin_module() -> Any:
    """The client's module of administration, whose types are not exported."""
    return import_module("confluent_kafka.admin")


class Fenced(InvalidRequestError):
    """Another process took the transactions over."""


@dataclass(frozen=True)
class Cluster:
    """How a cluster is reached: properties of the client, which may be secrets. It pickles."""

    table: str
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, table: str, options: Mapping[str, str]) -> Cluster:
        """The cluster that options `properties.*` say.

        Raises:
            InvalidOption: a property runs a program, or is the connector's own.
        """
        given = {
            name.removeprefix(PROPERTIES): text
            for name, text in options.items()
            if name.startswith(PROPERTIES)
        }
        for name in given:
            why = (
                "runs a program or loads a library, which a table may not"
                if name in _PROGRAMS
                else "is set by the connector"
                if name in _OWN
                else None
            )
            if why is not None:
                raise InvalidOption(
                    f"{PROPERTIES}{name} of {table} {why}; leave it out", option=PROPERTIES + name
                )
        return cls(table, {name: given[name] for name in given if name not in _NOT_SENT})

    @property
    def servers(self) -> str:
        return self.properties[SERVERS]

    @property
    def group(self) -> str | None:
        return self.properties.get(GROUP)

    def consumer(self, group: str | None = None) -> Any:
        """A consumer that joins no group; it gives the messages of transactions that committed."""
        with self.told("a consumer"):
            from confluent_kafka import Consumer  # noqa: PLC0415

            return Consumer(
                {
                    **_CLIENT,
                    "isolation.level": "read_committed",
                    GROUP: _NO_GROUP,
                    **self.properties,
                    **({} if group is None else {GROUP: group}),
                    "enable.auto.commit": "false",
                    "enable.auto.offset.store": "false",
                    "enable.partition.eof": "true",
                    # A position that is lost is an error, never a jump.
                    "auto.offset.reset": "error",
                }
            )

    def producer(self, own: Mapping[str, str]) -> Any:
        """A producer; keys find their partition as those of Java's producer do."""
        with self.told("a producer"):
            from confluent_kafka import Producer  # noqa: PLC0415

            settings = {"partitioner": "murmur2_random", "linger.ms": "20"}
            return Producer({**_CLIENT, **settings, **self.properties, **own})

    def admin(self) -> Any:
        with self.told("a client"):
            return admin_module().AdminClient({**_CLIENT, **self.properties})

    def partitions(self, admin: Any) -> dict[str, int]:
        """The number of partitions of each topic."""
        with self.told("its topics"):
            topics = admin.list_topics(timeout=ANSWER_SECONDS).topics
            return {name: len(each.partitions) for name, each in topics.items()}

    def topic_ids(self, admin: Any, topics: Iterable[str]) -> dict[str, str]:
        """The identities of topics: one that is made anew has another.

        Brokers before Kafka 2.8 know none.
        """
        with self.told("identities of topics"):
            from confluent_kafka import TopicCollection  # noqa: PLC0415

            names = list(dict.fromkeys(topics))
            if not names:
                return {}
            asked = admin.describe_topics(TopicCollection(names), request_timeout=ANSWER_SECONDS)
            found = {name: each.result(ANSWER_SECONDS).topic_id for name, each in asked.items()}
        return {
            name: str(each)
            for name, each in found.items()
            if each.get_most_significant_bits() or each.get_least_significant_bits()
        }

    def offsets(
        self, admin: Any, partitions: Iterable[Partition], timestamp_ms: int
    ) -> dict[Partition, int]:
        """The first offsets at or behind a moment, -1 where there is none.

        -2 is the beginning, -1 the end, behind which transactions may be open.
        """
        with self.told("offsets"):
            from confluent_kafka import IsolationLevel, TopicPartition  # noqa: PLC0415

            named = admin_module().OffsetSpec
            spec = {-1: named.latest, -2: named.earliest}.get(
                timestamp_ms, lambda: named.for_timestamp(timestamp_ms)
            )()
            level = IsolationLevel.READ_COMMITTED
            if self.properties.get("isolation.level") == "read_uncommitted":
                level = IsolationLevel.READ_UNCOMMITTED
            asked = {TopicPartition(*partition): spec for partition in partitions}
            if not asked:
                return {}
            found = admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_SECONDS)
            return {
                (each.topic, each.partition): found[each].result(ANSWER_SECONDS).offset
                for each in found
            }

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """Raise failures of the client as this project's."""
        with needed_for("connector kafka"):
            from confluent_kafka import KafkaException  # noqa: PLC0415
        try:
            yield
        except KafkaException as error:
            raise self.failure(error.args[0], what) from harmless(error)
        except TimeoutError as error:
            # What waits for an answer has no text of its own.
            raise self.silent(what) from error
        except SystemError as error:
            # A fatal error while the client calls back.
            if isinstance(error.__cause__, KafkaException):
                raise self.failure(error.__cause__.args[0], what) from harmless(error)
            raise

    def silent(self, what: str, way_out: str = "") -> UnavailableError:
        """The brokers do not answer in time; `way_out` is what else may help."""
        return UnavailableError(
            f"{self.table}: {what}: no answer of Kafka at {self.servers} within "
            f"{ANSWER_SECONDS:.0f} s; check that a broker answers at {PROPERTIES}{SERVERS}"
            f"{way_out}",
            table=self.table,
        )

    def failure(self, error: Any, what: str) -> StorageError:
        """What an error of the client means for a caller."""
        name = error.name()
        told = f"{self.table}: {what} of Kafka at {self.servers}: {error.str()}"
        kind: type[StorageError] = UnavailableError
        if name in _SILENT:
            told += f"; check that a broker answers at {PROPERTIES}{SERVERS}"
        elif "AUTH" in name or "SASL" in name:
            kind = AccessRefused
        elif name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"):
            kind = NotFoundError
        elif name in _FENCED:
            kind = Fenced
            told += "; another process writes with the same sink.transactional-id-prefix and stream"
        elif name == "_INVALID_ARG":
            kind = InvalidOption
        return kind(told, table=self.table)
