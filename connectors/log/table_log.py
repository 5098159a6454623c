"""What the options of a table say of its log: the topic, and the form of its messages.

* With a primary key: the key and the row as JSON, and no row for a deletion, as the connector
  `upsert-kafka` reads them.
* Without: rows that came and rows that went, as events of Debezium.

The partitions of the topic are the buckets of the table. Changes of one key, or of one row of a
table without a key, lie in one partition, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakewright.connectors.factories import FORMAT, Context, FactoryFinder, connector_options
from lakewright.connectors.kafka.client import PROPERTIES, SERVERS, Cluster
from lakewright.connectors.kafka.sink import EXACTLY_ONCE
from lakewright.connectors.model.catalog_table import CONNECTOR, CatalogTable
from lakewright.connectors.model.written_options import with_environment
from lakewright.connectors.options import Option, read_options
from lakewright.connectors.registry import CONNECTORS
from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.flink_columns import UnstoredColumn
from lakewright.storage.spec.log_options import LOG, LOG_SYSTEM, as_written, has_log
from lakewright.storage.spec.options import read_options as table_options
from lakewright.storage.spec.schema import Column, TableSchema

# The column of a message's headers, which no column of the table is called.
HEADERS = "_log_headers"
ROWS, CHANGES = "json", "debezium-json"
_SERVERS, _TOPIC, _FORMAT = LOG + SERVERS, LOG + "topic", LOG + "format"
_REQUIRED = (
    Option(name=LOG_SYSTEM, description="what keeps the log", choices=("kafka",)),
    Option(name=_SERVERS, description="brokers, as host:port, behind commas"),
)
_OPTIONAL = (
    Option(name=_TOPIC, description="the topic; by default it is called as the table is"),
    Option(
        name=_FORMAT,
        description="json with a primary key, debezium-json without one",
        choices=(ROWS, CHANGES),
    ),
)
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
# A transaction holds all changes of a commit; this is the most that brokers allow by default.
_TRANSACTION_MS = "900000"
_COMMITTED = {PROPERTIES + "isolation.level": "read_committed"}


@dataclass(frozen=True)
class TableLog:
    """A topic with the changes of a table; `properties` are those of the client, with secrets."""

    table: str
    schema: TableSchema
    topic: str
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, table: str, schema: TableSchema) -> TableLog | None:
        """The log of a table, None if it has none: a branch has none.

        Raises:
            InvalidOption: an option of the log is missing, unknown or wrong.
        """
        if not has_log(schema.options) or "$" in table:
            return None
        written = as_written(schema.options)
        texts = {name: text for name, text in written.items() if name.startswith(LOG)}
        options = read_options(
            texts,
            required=_REQUIRED,
            optional=_OPTIONAL,
            owner=f"the log of {table}",
            prefixes=(LOG + PROPERTIES,),
        )
        form = ROWS if schema.has_primary_key else CHANGES
        if options.get(_FORMAT) not in (None, form):
            has = "a" if schema.has_primary_key else "no"
            raise InvalidOption(
                f"{_FORMAT} of {table} is {options[_FORMAT]}, and the log of a table with {has} "
                f"primary key has the format {form}; leave the option out",
                option=_FORMAT,
            )
        topic = options.get(_TOPIC) or table
        if _TOPIC_NAME.fullmatch(topic) is None:
            raise InvalidOption(
                f"the log of {table} would be topic {topic!r}, which Kafka does not allow; name "
                f"one of letters, digits, '.', '_' and '-' with {_TOPIC}",
                option=_TOPIC,
            )
        properties = {
            name.removeprefix(LOG): text
            for name, text in texts.items()
            if name.startswith(LOG + PROPERTIES)
        }
        # What no transaction committed is not in the log.
        own = {PROPERTIES + SERVERS: options[_SERVERS], **_COMMITTED}
        return cls(table, schema, topic, {**properties, **own})

    @property
    def cluster(self) -> Cluster:
        return Cluster.of(self.table, with_environment(self.properties, self.table))

    @property
    def partition_count(self) -> int:
        """A partition for each bucket; one if buckets come and go."""
        return max(table_options(self.schema, table=self.table).bucket, 1)

    @property
    def tells_rows(self) -> bool:
        """Whether messages are rows by their keys, and not changes."""
        return self.schema.has_primary_key

    def context(self, registry: FactoryFinder) -> Context:
        """The topic as a table of the connectors of Kafka, with the headers of messages.

        Raises:
            UnsupportedError: the primary key lacks partition keys.
        """
        schema = self.schema
        if schema.crosses_partitions:
            raise UnsupportedError(
                f"the primary key of {self.table} lacks partition keys, so its rows move between "
                "partitions, which a log does not tell in order; let the key have them, or leave "
                "the log out"
            )
        keys = schema.primary_keys or table_options(schema, table=self.table).bucket_keys
        options = {
            "topic": self.topic,
            "sink.delivery-guarantee": EXACTLY_ONCE,
            "sink.transactional-id-prefix": "lakewright-log",
            PROPERTIES + "transaction.timeout.ms": _TRANSACTION_MS,
            **with_environment(self.properties, self.table),
        }
        if self.tells_rows:
            options |= {CONNECTOR: "upsert-kafka", f"key.{FORMAT}": ROWS, f"value.{FORMAT}": ROWS}
        else:
            options |= {CONNECTOR: "kafka", f"value.{FORMAT}": CHANGES}
            options["scan.startup.mode"] = "earliest-offset"
            if keys:
                options |= {f"key.{FORMAT}": ROWS, "key.fields": ";".join(keys)}
        definition = CatalogTable(
            columns=tuple(_column(each, each.name in keys) for each in schema.fields),
            unstored=(
                UnstoredColumn(
                    index=len(schema.fields),
                    name=HEADERS,
                    type="MAP<STRING, BYTES>",
                    metadata="headers",
                ),
            ),
            primary_keys=schema.primary_keys,
            options=options,
        )
        table = definition.resolve(self.table)
        factory = registry.factory(CONNECTORS, options[CONNECTOR])
        return Context(table=table, options=connector_options(factory, table), registry=registry)


def _column(each: DataField, is_key: bool) -> Column:
    # A message that deletes has the key alone.
    return Column(each.name, each.type if is_key else replace(each.type, nullable=True))
