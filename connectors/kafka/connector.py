"""`kafka` and `upsert-kafka`: factories, sources and sinks of topics.

The names of options, their values and the metadata are those of Flink's connectors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lakewright.connectors.factories import FORMAT, Context, DynamicTableFactory
from lakewright.connectors.kafka.client import GROUP, PROPERTIES, SERVERS, Cluster
from lakewright.connectors.kafka.decoding import METADATA, OF_FORMAT, OF_VALUE, RowReader
from lakewright.connectors.kafka.encoding import RowWriter, keyed
from lakewright.connectors.kafka.positions import Bound, Topics, offsets_by_partition
from lakewright.connectors.kafka.scan import KafkaScan
from lakewright.connectors.kafka.sink import AT_LEAST_ONCE, EXACTLY_ONCE, NONE, KafkaSink, Target
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, OptionKind
from lakewright.connectors.runtime import Scan, Sink
from lakewright.connectors.sinks import DynamicTableSink
from lakewright.connectors.sources import ScanTableSource
from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.data_types import DataField, DataType
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.table_distribution import Kind

_VALUE_FORMAT, _KEY_FORMAT = "value.format", "key.format"
_FIELDS, _PREFIX, _INCLUDE = "key.fields", "key.fields-prefix", "value.fields-include"
_ALL, _EXCEPT_KEY = "ALL", "EXCEPT_KEY"
_STARTUP, _BOUNDED = "scan.startup", "scan.bounded"
_PARTITIONS, _PARTITIONER = "properties.num.partitions", "sink.partitioner"
_GUARANTEE, _TRANSACTIONAL = "sink.delivery-guarantee", "sink.transactional-id-prefix"
_RESET = "properties.auto.offset.reset"
_EARLIEST, _GROUP_OFFSETS, _UNBOUNDED = "earliest-offset", "group-offsets", "unbounded"
_SPECIFIC, _TIMESTAMP = "specific-offsets", "timestamp"

_TOPIC = Option(
    name="topic", kind=OptionKind.LIST, description="the topic; to read, also several behind ;"
)
_SERVERS = Option(name=PROPERTIES + SERVERS, description="brokers, as host:port, behind commas")
_KEYS = (
    Option(name=_PREFIX, description="what columns of the key begin with in the table", default=""),
    Option(
        name=_INCLUDE,
        description="whether values hold the columns of the key",
        choices=(_ALL, _EXCEPT_KEY),
        default=_ALL,
    ),
)
_ENDING = (
    Option(
        name=f"{_BOUNDED}.mode",
        description="where reading ends; unbounded: never",
        choices=(_UNBOUNDED, "latest-offset", _GROUP_OFFSETS, _TIMESTAMP, _SPECIFIC),
        default=_UNBOUNDED,
    ),
    Option(
        name=f"{_BOUNDED}.timestamp-millis",
        kind=OptionKind.INTEGER,
        description="the first moment that is not read, in milliseconds since 1970",
        minimum=0,
    ),
    Option(
        name=f"{_BOUNDED}.specific-offsets",
        description="offsets that are not read, as partition:0,offset:42;partition:1,offset:300",
    ),
)
_WRITING = (
    Option(
        name=_GUARANTEE,
        description="none: not acknowledged; exactly-once: in transactions",
        choices=(NONE, AT_LEAST_ONCE, EXACTLY_ONCE),
        default=AT_LEAST_ONCE,
        aliases=("sink.semantic",),
    ),
    Option(
        name=_TRANSACTIONAL,
        description="what transactional ids begin with, for exactly-once; one for each table",
    ),
    Option(
        name=_PARTITIONS,
        kind=OptionKind.INTEGER,
        description="partitions of a topic that a write makes; INTO n BUCKETS says them too",
        aliases=("properties.num.partitons",),
        minimum=1,
    ),
)


class Kafka(DynamicTableFactory):
    """Makes sources and sinks of topics."""

    identifier = "kafka"
    description = "messages of topics"
    required_options: Sequence[Option] = (_SERVERS,)
    optional_options: Sequence[Option] = (
        _TOPIC,
        Option(name="topic-pattern", description="a regular expression of whole names, to read"),
        Option(
            name=_FIELDS,
            kind=OptionKind.LIST,
            description="columns of the key; DISTRIBUTED BY says them too",
            default=(),
        ),
        *_KEYS,
        Option(
            name=f"{_STARTUP}.mode",
            description="where reading begins; by default at the offsets of properties.group.id, "
            "and at the earliest without it",
            choices=(_EARLIEST, "latest-offset", _GROUP_OFFSETS, _TIMESTAMP, _SPECIFIC),
        ),
        Option(
            name=f"{_STARTUP}.timestamp-millis",
            kind=OptionKind.INTEGER,
            description="the first moment that is read, in milliseconds since 1970",
            minimum=0,
        ),
        Option(
            name=f"{_STARTUP}.specific-offsets",
            description="where to begin, as partition:0,offset:42;partition:1,offset:300",
        ),
        *_ENDING,
        Option(
            name=_PARTITIONER,
            description="default: by the key; fixed: a partition for each task; round-robin: each "
            "in turn",
            choices=("default", "fixed", "round-robin"),
        ),
        *_WRITING,
    )
    format_options = (FORMAT, _VALUE_FORMAT, _KEY_FORMAT)
    option_prefixes = (PROPERTIES,)
    named_by = ("topic", "topic-pattern")

    def create_source(self, context: Context) -> ScanTableSource:
        return _KafkaSource(context, _Layout.of(context), is_upsert=False)

    def create_sink(self, context: Context) -> DynamicTableSink:
        return _KafkaSink(context, _Layout.of(context), is_upsert=False)


class UpsertKafka(DynamicTableFactory):
    """The same of topics in which the last message of a key counts."""

    identifier = "upsert-kafka"
    description = "rows by the keys of messages: the last one counts, one without a value deletes"
    required_options = (
        Option(name="topic", kind=OptionKind.LIST, description=_TOPIC.description),
        _SERVERS,
    )
    optional_options = (*_KEYS, *_ENDING, *_WRITING)
    format_options = (_VALUE_FORMAT, _KEY_FORMAT)
    option_prefixes = (PROPERTIES,)
    named_by = ("topic",)

    def create_source(self, context: Context) -> ScanTableSource:
        return _KafkaSource(context, _Layout.of_upserts(context), is_upsert=True)

    def create_sink(self, context: Context) -> DynamicTableSink:
        return _KafkaSink(context, _Layout.of_upserts(context), is_upsert=True)


class _Layout:
    """Which columns are in keys and values, and how messages are spread over partitions.

    Raises:
        InvalidOption: options contradict each other, or the clause DISTRIBUTED.
    """

    def __init__(self, context: Context, keys: Sequence[str], partitioner: str) -> None:
        options, table = context.options, context.table
        self.keys, self.partitioner = tuple(keys), partitioner
        self.prefix: str = options[_PREFIX]
        self.value_format = _VALUE_FORMAT if _VALUE_FORMAT in table.options else FORMAT
        if _VALUE_FORMAT in table.options and FORMAT in table.options:
            raise _contradiction(context, FORMAT, _VALUE_FORMAT)
        self.key_format = _KEY_FORMAT if _KEY_FORMAT in table.options else self.value_format
        spread = table.distribution
        self.count: int | None = options[_PARTITIONS]
        self.is_distributed = spread is not None and spread.bucket_count is not None
        if spread is not None and spread.bucket_count is not None:
            if self.count is not None:
                raise _contradiction(context, f"DISTRIBUTED {spread}", _PARTITIONS)
            self.count = spread.bucket_count
        is_apart = options[_INCLUDE] == _EXCEPT_KEY
        if self.prefix and not is_apart:
            raise InvalidOption(
                f"{context.name} has {_PREFIX} = {self.prefix!r}, so the key has columns of its "
                f"own; set {_INCLUDE} = {_EXCEPT_KEY}",
                option=_PREFIX,
            )
        for name in self.keys:
            if name not in table.schema.field_names or not name.startswith(self.prefix):
                begin = f" that begins with {self.prefix!r}" if self.prefix else ""
                raise InvalidOption(
                    f"{_FIELDS} of {context.name} has {name!r}, which is no column{begin}; there "
                    f"are {', '.join(table.schema.field_names)}",
                    option=_FIELDS,
                )
        self.values = tuple(
            field for field in table.fields if not (is_apart and field.name in self.keys)
        )
        if not self.values:
            raise InvalidOption(
                f"{context.name} has all columns in the key; set {_INCLUDE} = {_ALL}",
                option=_INCLUDE,
            )
        self.is_apart = is_apart

    @classmethod
    def of(cls, context: Context) -> _Layout:
        """Of a table whose key is declared by options, or by its distribution."""
        options, table = context.options, context.table
        keys: Sequence[str] = options[_FIELDS]
        partitioner = options[_PARTITIONER]
        spread = table.distribution
        if spread is not None:
            for name in (_FIELDS, _PARTITIONER):
                if name in options.given:
                    raise _contradiction(context, f"DISTRIBUTED {spread}", name)
            keys = spread.bucket_keys
            partitioner = "default" if keys else "round-robin"
        if keys and partitioner == "round-robin":
            raise _contradiction(context, _FIELDS, f"{_PARTITIONER} = round-robin")
        if _KEY_FORMAT in table.options and not keys:
            raise InvalidOption(
                f"{context.name} has {_KEY_FORMAT} and no key; say {_FIELDS}, or DISTRIBUTED BY",
                option=_FIELDS,
            )
        if _FIELDS in options.given and keys and _KEY_FORMAT not in table.options:
            raise InvalidOption(
                f"{context.name} has {_FIELDS} and no {_KEY_FORMAT}", option=_KEY_FORMAT
            )
        return cls(context, keys, partitioner or "default")

    @classmethod
    def of_upserts(cls, context: Context) -> _Layout:
        """Of a table whose key is the primary key."""
        table = context.table
        if not table.primary_keys:
            raise InvalidOption(
                f"{context.name} has no primary key, and messages of upsert-kafka are rows by "
                "their keys; declare PRIMARY KEY (…) NOT ENFORCED, or use the connector kafka"
            )
        spread = table.distribution
        if spread is not None and spread.bucket_keys not in ((), table.primary_keys):
            raise InvalidOption(
                f"{context.name} is distributed {spread}, and messages of upsert-kafka by the "
                f"primary key ({', '.join(table.primary_keys)})"
            )
        return cls(context, table.primary_keys, "default")


def _contradiction(context: Context, one: str, other: str) -> InvalidOption:
    return InvalidOption(
        f"{context.name} has {one} and {other}, which say the same thing or contradict each "
        "other; leave one out",
        option=other,
    )


def _check_insert_only_has_no_key(context: Context, mode: ChangelogMode) -> None:
    if mode.is_insert_only and context.table.primary_keys:
        raise InvalidOption(
            f"{context.name} has a primary key, and the messages of its format are new rows, so "
            "nothing keeps keys apart; use the connector upsert-kafka, or leave the key out"
        )


def _check_kinds(context: Context, mode: ChangelogMode, *, is_upsert: bool) -> None:
    """Refuse a format whose rows are of other kinds than the connector's."""
    if is_upsert:
        _check_of_rows(context, mode)
    else:
        _check_insert_only_has_no_key(context, mode)


class _KafkaSource(ScanTableSource):
    def __init__(self, context: Context, layout: _Layout, *, is_upsert: bool) -> None:
        self._cluster = Cluster.of(context.name, context.table.options)
        self._layout, self._is_upsert = layout, is_upsert
        self._name, self._fields = context.name, context.table.fields
        self._topics = _topics(context)
        default = _EARLIEST if is_upsert or self._cluster.group is None else _GROUP_OFFSETS
        self._begin = _bound(context, self._cluster, self._topics, _STARTUP, default)
        self._end = _bound(context, self._cluster, self._topics, _BOUNDED, _UNBOUNDED)
        self._value = context.decoding_format(layout.value_format)
        # Keys are read where values lack them.
        reads_keys = bool(layout.keys) and (layout.is_apart or is_upsert)
        self._key = context.decoding_format(layout.key_format) if reads_keys else None
        self._metadata: tuple[tuple[str, DataField], ...] = ()
        _check_kinds(context, self._value.changelog_mode(), is_upsert=is_upsert)

    @property
    def summary(self) -> str:
        return f"kafka topic {self._topics}"

    def changelog_mode(self) -> ChangelogMode:
        if self._is_upsert:
            return ChangelogMode.of(RowKind.UPDATE_AFTER, RowKind.DELETE)
        return self._value.changelog_mode()

    def readable_metadata(self) -> Mapping[str, DataType]:
        of_format = self._value.readable_metadata()
        return {**METADATA, **{OF_VALUE + name: kind for name, kind in of_format.items()}}

    def apply_readable_metadata(self, metadata: Sequence[tuple[str, DataField]]) -> None:
        self._metadata = tuple(metadata)

    def scan(self) -> Scan:
        known, layout = self._value.readable_metadata(), self._layout
        of_format = [
            DataField(field.id, OF_FORMAT + name, known[name])
            for key, field in self._metadata
            if (name := key.removeprefix(OF_VALUE)) != key
        ]
        key = None
        if self._key is not None:
            key = self._key.decoder(keyed(layout.keys, self._fields, layout.prefix))
        rows = RowReader(
            table=self._name,
            fields=tuple(self._fields),
            value=self._value.decoder([*layout.values, *of_format]),
            key=key,
            key_names=layout.keys if key is not None else (),
            metadata=self._metadata,
            is_upsert=self._is_upsert,
        )
        return KafkaScan(self._cluster, self._topics, self._begin, self._end, rows)


class _KafkaSink(DynamicTableSink):
    def __init__(self, context: Context, layout: _Layout, *, is_upsert: bool) -> None:
        options = context.options
        self._context, self._layout, self._is_upsert = context, layout, is_upsert
        self._cluster = Cluster.of(context.name, context.table.options)
        topics: Sequence[str] = options["topic"] or ()
        if len(topics) != 1:
            raise InvalidOption(
                f"{context.name} is written to one topic, and has {len(topics)} in topic; name one",
                option="topic",
            )
        prefix = options[_TRANSACTIONAL]
        if options[_GUARANTEE] == EXACTLY_ONCE and not prefix:
            raise InvalidOption(
                f"{context.name} is written exactly once and has no {_TRANSACTIONAL}; give it one "
                "that no other table has",
                option=_TRANSACTIONAL,
            )
        self._target = Target(
            topic=topics[0],
            count=layout.count,
            is_distributed=layout.is_distributed,
            partitioner=layout.partitioner,
            guarantee=options[_GUARANTEE],
            prefix=prefix,
        )
        value, key = ({"subject": f"{topics[0]}-{part}"} for part in ("value", "key"))
        self._value = context.encoding_format(layout.value_format, value)
        self._key = context.encoding_format(layout.key_format, key) if layout.keys else None
        self._metadata: tuple[tuple[str, DataField], ...] = ()
        _check_kinds(context, self._value.changelog_mode(), is_upsert=is_upsert)

    @property
    def summary(self) -> str:
        return f"kafka topic {self._target.topic}"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return ChangelogMode.upsert() if self._is_upsert else self._value.changelog_mode()

    def list_algorithms(self) -> frozenset[Kind]:
        return frozenset({Kind.HASH, Kind.UNKNOWN})

    def requires_bucket_count(self) -> bool:
        return False

    def writable_metadata(self) -> Mapping[str, DataType]:
        return {name: METADATA[name] for name in ("headers", "timestamp")}

    def apply_writable_metadata(self, metadata: Sequence[tuple[str, DataField]]) -> None:
        self._metadata = tuple(metadata)

    def sink(self) -> Sink:
        layout, fields = self._layout, self._context.table.fields
        key_fields = keyed(layout.keys, fields, layout.prefix)
        rows = RowWriter(
            value=self._value.encoder(layout.values),
            value_names=tuple(each.name for each in layout.values),
            key=None if self._key is None else self._key.encoder(key_fields),
            key_fields=tuple(zip(layout.keys, key_fields, strict=True)),
            metadata=self._metadata,
            is_upsert=self._is_upsert,
            takes_before=RowKind.UPDATE_BEFORE in self.changelog_mode(ChangelogMode.all()).kinds,
        )
        return KafkaSink(self._cluster, self._target, rows, self._context.env)


def _check_of_rows(context: Context, mode: ChangelogMode) -> None:
    if not mode.is_insert_only:
        raise InvalidOption(
            f"{_VALUE_FORMAT} of {context.name} is a format of changes, and upsert-kafka takes "
            "formats of rows; use the connector kafka",
            option=_VALUE_FORMAT,
        )


def _topics(context: Context) -> Topics:
    names: Sequence[str] = context.options["topic"] or ()
    pattern = context.options.get("topic-pattern")
    if bool(names) == bool(pattern):
        what = "topic and topic-pattern" if names else "neither topic nor topic-pattern"
        raise InvalidOption(f"{context.name} has {what}; say one", option="topic")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidOption(
                f"topic-pattern of {context.name} is no regular expression: {error}",
                option="topic-pattern",
            ) from error
    return Topics(tuple(dict.fromkeys(names)), pattern)


def _bound(context: Context, cluster: Cluster, topics: Topics, name: str, default: str) -> Bound:
    """Where reading begins or ends, by the options under a name."""
    options = context.options
    option = f"{name}.mode"
    mode = options.get(option) or default

    def needed(wanted: str, suffix: str) -> Any:
        found = options.get(f"{name}.{suffix}")
        if (mode == wanted) != (found is not None):
            told = f"no {name}.{suffix}" if found is None else f"{name}.{suffix}"
            raise InvalidOption(
                f"{option} of {context.name} is {mode}, and there is {told}",
                option=f"{name}.{suffix}",
            )
        return found

    timestamp, specific = needed(_TIMESTAMP, "timestamp-millis"), needed(_SPECIFIC, _SPECIFIC)
    if mode == _SPECIFIC and len(topics.names) != 1:
        raise InvalidOption(
            f"{option} of {context.name} is {mode}, which is for one topic", option=option
        )
    if mode == _GROUP_OFFSETS and cluster.group is None:
        raise InvalidOption(
            f"{option} of {context.name} is {mode}, and there is no {PROPERTIES}{GROUP}",
            option=option,
        )
    reset = context.table.options.get(_RESET)
    return Bound(
        mode=mode,
        option=option,
        timestamp_ms=timestamp,
        specific=None
        if specific is None
        else offsets_by_partition(specific, f"{name}.{_SPECIFIC}", context.name),
        reset=reset if reset in ("earliest", "latest") else None,
    )
