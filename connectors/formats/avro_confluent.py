"""The formats `avro-confluent` and `debezium-avro-confluent`: Avro with schemas in a registry.

A message begins with a zero and the number of its writer's schema, in four bytes. It is read by
that schema: what a number stands for is decided by the writer's logical types, and columns that the
writer has not are null. Written messages have the schema of the table, as Flink derives it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa

from lakewright.connectors.formats.avro_format import (
    LEGACY,
    avro_schema,
    encoded_records,
    numbers_alone,
    parsed_for_reading,
    record_of,
    type_problem,
)
from lakewright.connectors.formats.before_after import AFTER, BEFORE
from lakewright.connectors.formats.connect_schema import Schema, members_of, restored, row_schema
from lakewright.connectors.formats.debezium_json import SCHEMA_INCLUDE, UPDATES, DebeziumJson
from lakewright.connectors.formats.messages import (
    BadMessages,
    MessageDecoder,
    Numbered,
    batch_of,
    check_nulls,
    check_types,
    kinds_of,
    python_columns,
)
from lakewright.connectors.formats.model import (
    Decoder,
    DecodingFormat,
    Encoder,
    EncodingFormat,
    FormatFactory,
)
from lakewright.connectors.formats.schema_registry import (
    REGISTRY_OPTIONS,
    SUBJECT,
    URL,
    Registry,
    registry_of,
)
from lakewright.connectors.formats.unavailable_values import PLACEHOLDER, Placeholder
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import ReadOptions
from lakewright.storage.codec.python_columns import Reading
from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.data_types import (
    STRING,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from lakewright.storage.spec.rows import RowKind

_HEAD = 5
_OPERATION = DebeziumJson.operations.member
# Logical types of Avro as Kafka Connect and Debezium name them.
_LOGICAL = {
    "date": "io.debezium.time.Date",
    **{
        f"time-{unit}": f"io.debezium.time.{name}Time"
        for unit, name in (("millis", ""), ("micros", "Micro"))
    },
    **{
        f"{kind}timestamp-{unit}": f"io.debezium.time.{name}Timestamp"
        for kind in ("", "local-")
        for unit, name in (("millis", ""), ("micros", "Micro"), ("nanos", "Nano"))
    },
}
Row = Mapping[str, Any]
Change = tuple[RowKind, Row]


class AvroConfluentFormat(FormatFactory):
    """Makes the format of a row per message."""

    identifier = "avro-confluent"
    description = "Avro records, whose schemas are in a registry"
    required_options = (URL,)
    optional_options = (*REGISTRY_OPTIONS, LEGACY)

    def decoding_format(self, options: ReadOptions) -> DecodingFormat:
        return _Confluent(self.identifier, registry_of(options), options, None)

    def encoding_format(self, options: ReadOptions) -> EncodingFormat:
        return _Confluent(self.identifier, registry_of(options), options, None)


class DebeziumAvroConfluentFormat(FormatFactory):
    """Makes the format of an event of Debezium per message."""

    identifier = "debezium-avro-confluent"
    description = "changes that Debezium tells as Avro records, whose schemas are in a registry"
    required_options = (URL,)
    optional_options = (*REGISTRY_OPTIONS, UPDATES, PLACEHOLDER, LEGACY)

    def decoding_format(self, options: ReadOptions) -> DecodingFormat:
        return self._format(options)

    def encoding_format(self, options: ReadOptions) -> EncodingFormat:
        return self._format(options)

    def _format(self, options: ReadOptions) -> _Confluent:
        given = {name: options[name] for name in (UPDATES.name, PLACEHOLDER.name)}
        Placeholder.of(given[PLACEHOLDER.name])
        values = {SCHEMA_INCLUDE.name: False, **given}
        events = DebeziumJson(ReadOptions(values))
        return _Confluent(self.identifier, registry_of(options), options, events)


@dataclass(frozen=True)
class _Confluent(DecodingFormat, EncodingFormat):
    name: str
    registry: Registry
    options: ReadOptions
    # What makes changes of events; None if each record is a row.
    events: DebeziumJson | None

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.insert_only() if self.events is None else self.events.changelog_mode()

    def with_key(self, key: Sequence[str]) -> DecodingFormat:
        return self if self.events is None else replace(self, events=self.events.with_key(key))

    def decoder(self, fields: Sequence[DataField]) -> Decoder:
        check_types(fields, self.name, _unread)
        return _ConfluentDecoder(self.name, self.registry, tuple(fields), self.events)

    def encoder(self, fields: Sequence[DataField]) -> Encoder:
        is_legacy = self.options[LEGACY.name]
        check_types(fields, self.name, lambda each: type_problem(each, is_legacy=is_legacy))
        subject = self.options[SUBJECT.name]
        if subject is None:
            raise InvalidOption(
                f"format {self.name} registers the schema of what it writes under a subject; set "
                f"{SUBJECT.name}, such as <topic>-value",
                option=SUBJECT.name,
            )
        return _ConfluentEncoder(
            self.name, self.registry, subject, tuple(fields), is_legacy, self.events is not None
        )


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ConfluentDecoder(MessageDecoder):
    format_name: str
    registry: Registry
    fields: tuple[DataField, ...]
    events: DebeziumJson | None

    def rows(self, messages: Sequence[Numbered]) -> pa.RecordBatch:
        bad = BadMessages()
        kinds: list[RowKind] = []
        rows: list[Row] = []
        numbers: list[int] = []
        for number, message in messages:
            try:
                found = list(self._changes(message))
            except ValueError as error:
                bad.add(number, str(error))
                continue
            for kind, row in found:
                kinds.append(kind)
                rows.append(row)
                numbers.append(number)
        bad.check()
        values = [[row.get(field.name) for row in rows] for field in self.fields]
        columns = python_columns(values, self.fields, Reading(ignores_unknown=True), numbers)
        if self.events is None:
            check_nulls(columns, self.fields, numbers)
            return batch_of(columns, self.fields, None)
        present = [at for at, kind in enumerate(kinds) if not kind.retracts]
        check_nulls(
            [column.take(pa.array(present, pa.int64())) for column in columns],
            self.fields,
            [numbers[at] for at in present],
        )
        return batch_of(columns, self.fields, kinds)

    def _changes(self, message: bytes) -> Iterable[Change]:
        if message[:1] != b"\0" or len(message) < _HEAD:
            raise ValueError("it does not begin with a zero and the number of a schema")
        writer, described = _writer(self.registry, int.from_bytes(message[1:_HEAD], "big"))
        record = record_of(message[_HEAD:], writer)
        if not isinstance(record, dict):
            raise ValueError("its schema is no record")  # noqa: TRY004 - the message is bad
        if self.events is None:
            yield RowKind.INSERT, restored(record, members_of(described), self.fields)
            return
        columns = row_schema(described)
        for kind, row in self.events.changes(record, self.fields):
            yield kind, restored(row, columns, self.fields)


def _unread(data_type: DataType) -> str | None:
    # The writer's schema decides about moments.
    is_map = isinstance(data_type, MapType | MultisetType)
    return type_problem(data_type, is_legacy=False) if is_map else None


@lru_cache(maxsize=1000)
def _writer(registry: Registry, number: int) -> tuple[Any, Schema]:
    """The schema of a number: for the client, and as Connect describes it."""
    text = registry.schema(number)
    if text is None:
        raise ValueError(f"the registry has no schema {number}")
    schema = json.loads(text)
    return parsed_for_reading(schema), _described(schema, {}, "")


def _described(schema: Any, named: dict[str, dict[str, Any]], namespace: str) -> dict[str, Any]:
    """A schema of Avro as Connect describes it; `named` are the types that have names so far."""
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        # Of several types the value decides, and what a number stands for is not known.
        return _described(kinds[0], named, namespace) if len(kinds) == 1 else {}
    if isinstance(schema, str):
        # Within itself a type is not known yet: its moments are read where they are not nested.
        return named.get(schema, named.get(f"{namespace}.{schema}", {}))
    made: dict[str, Any] = {}
    if "name" in schema:
        name = schema["name"]
        namespace = name.rpartition(".")[0] or schema.get("namespace", namespace)
        named[f"{namespace}.{name.rpartition('.')[2]}".lstrip(".")] = made
    logical = schema.get("logicalType")
    # The client reads decimals itself.
    if logical != "decimal":
        made["name"] = schema.get("connect.name") or _LOGICAL.get(logical)
        made["type"] = schema.get("connect.type")
    match schema["type"]:
        case "record":
            made["fields"] = [
                {**_described(each["type"], named, namespace), "field": each["name"]}
                for each in schema["fields"]
            ]
        case "array":
            made["items"] = _described(schema["items"], named, namespace)
        case "map":
            made["values"] = _described(schema["values"], named, namespace)
        case dict() | list() as inner:
            made = {**_described(inner, named, namespace), **{k: v for k, v in made.items() if v}}
    return made


# --- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ConfluentEncoder:
    format_name: str
    registry: Registry
    subject: str
    fields: tuple[DataField, ...]
    is_legacy: bool
    is_event: bool

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        columns = self.fields
        if self.is_event:
            row = RowType(self.fields)
            members: tuple[tuple[str, DataType], ...] = (
                (BEFORE, row),
                (AFTER, row),
                (_OPERATION, STRING),
            )
            columns = tuple(DataField(-1, name, kind) for name, kind in members)
        schema = avro_schema(columns, is_legacy=self.is_legacy)
        head = b"\0" + _registered(self.registry, self.subject, json.dumps(schema)).to_bytes(4)
        parsed = fastavro.parse_schema(numbers_alone(schema))
        if self.is_event:
            kinds = kinds_of(rows, frozenset(RowKind), self.format_name)
            records = encoded_records(
                rows, self.fields, parsed, lambda at, row: _event(kinds[at], row)
            )
        else:
            kinds_of(rows, frozenset((RowKind.INSERT,)), self.format_name)
            records = encoded_records(rows, self.fields, parsed)
        return [head + record for record in records]


def _event(kind: RowKind, row: dict[str, Any]) -> dict[str, Any]:
    known = DebeziumJson.operations
    if kind.retracts:
        return {BEFORE: row, AFTER: None, _OPERATION: known.deletion}
    return {BEFORE: None, AFTER: row, _OPERATION: known.creates[0]}


@lru_cache(maxsize=1000)
def _registered(registry: Registry, subject: str, schema: str) -> int:
    return registry.register(subject, schema)
