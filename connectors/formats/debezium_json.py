"""The format `debezium-json`: events of Debezium, with or without their schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from lakewright.connectors.formats.before_after import BeforeAfterJson, Operations
from lakewright.connectors.formats.change_json import (
    MOMENT,
    TEXT_BY_TEXT,
    Change,
    ChangeJsonFactory,
    Changes,
    Event,
    Metadata,
    moment_of,
    row_of,
)
from lakewright.connectors.formats.connect_schema import restored, row_schema
from lakewright.connectors.formats.json_columns import JsonForm
from lakewright.connectors.formats.messages import Numbered
from lakewright.connectors.formats.model import DecodingFormat
from lakewright.connectors.formats.unavailable_values import PLACEHOLDER, Placeholder
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, OptionKind, ReadOptions
from lakewright.storage.codec.json_atoms import json_text
from lakewright.storage.spec.data_types import STRING, DataField
from lakewright.storage.spec.rows import RowKind

SCHEMA_INCLUDE = Option(
    name="schema-include",
    kind=OptionKind.BOOLEAN,
    default=False,
    description="each message holds its schema beside its payload (value.converter.schemas.enable)",
)
UPDATES = Option(
    name="updates",
    default="retract",
    choices=("retract", "upsert"),
    description="retract: an update is -U and +U, and needs its former row; upsert: +U alone",
)


def _payload(event: Event) -> Event:
    payload = event.get("payload") if "op" not in event else event
    return payload if isinstance(payload, dict) else {}


def _of_source(name: str) -> Callable[[Event], object]:
    def read(event: Event) -> object:
        return (_payload(event).get("source") or {}).get(name)

    return read


def _ingested(event: Event) -> object:
    return moment_of(_payload(event).get("ts_ms"))


def _source_moment(event: Event) -> object:
    return moment_of(_of_source("ts_ms")(event))


def _source_properties(event: Event) -> object:
    source: Mapping[str, object] | None = _payload(event).get("source")
    if source is None:
        return None
    return {
        name: value if value is None or type(value) is str else json_text(value)
        for name, value in source.items()
    }


def _schema(event: Event) -> object:
    schema = event.get("schema")
    return None if schema is None else json_text(schema)


@dataclass(frozen=True)
class DebeziumJson(BeforeAfterJson):
    """The events of Debezium, in JSON or as any other format has their members."""

    key: tuple[str, ...] = ()

    name = "debezium-json"
    operations = Operations("op", ("c", "r"), "u", "d")
    without_before = f", or set '{UPDATES.name}' = 'upsert' and write into a table with a key"
    metadata: ClassVar[Mapping[str, Metadata]] = {
        "schema": (STRING, _schema),
        "ingestion-timestamp": (MOMENT, _ingested),
        "source.timestamp": (MOMENT, _source_moment),
        "source.database": (STRING, _of_source("db")),
        "source.schema": (STRING, _of_source("schema")),
        "source.table": (STRING, _of_source("table")),
        "source.properties": (TEXT_BY_TEXT, _source_properties),
    }

    @property
    def is_upsert(self) -> bool:
        return bool(self.options[UPDATES.name] == "upsert")

    def with_key(self, key: Sequence[str]) -> DebeziumJson:
        return replace(self, key=tuple(key))

    @property
    def _placeholder(self) -> Placeholder:
        return Placeholder.of(self.options[PLACEHOLDER.name])

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.upsert() if self.is_upsert else ChangelogMode.all()

    def changes(self, event: Event, fields: Sequence[DataField]) -> Iterable[Change]:
        if self.options[SCHEMA_INCLUDE.name]:
            payload = dict(row_of(event, "payload", what="enclosed"))
            schema = row_schema(event.get("schema"))
            for kind, row in self._known(payload, fields):
                yield kind, restored(row, schema, fields)
            return
        if "payload" in event and "op" not in event:
            raise ValueError(
                "the event lies in payload, beside its schema; set "
                f"'{SCHEMA_INCLUDE.name}' = 'true'"
            )
        yield from self._known(event, fields)

    def _known(self, event: Event, fields: Sequence[DataField]) -> Iterable[Change]:
        """The changes of an event whose rows have all their values; of a row that goes the key."""
        for kind, row in super().changes(event, fields):
            if not (self.is_upsert and kind is RowKind.DELETE):
                self._placeholder.check(row, fields)
            yield kind, row

    def quick_changes(
        self, messages: Sequence[Numbered], fields: Sequence[DataField], form: JsonForm
    ) -> Changes | None:
        placeholder = self._placeholder
        if self.options[SCHEMA_INCLUDE.name] or any(
            placeholder.may_be_in(each) for _, each in messages
        ):
            return None
        return super().quick_changes(messages, fields, form)


class DebeziumJsonFormat(ChangeJsonFactory):
    """Makes the format of events of Debezium."""

    identifier = DebeziumJson.name
    description = "changes that Debezium tells as JSON"
    made = DebeziumJson
    optional_options = (
        SCHEMA_INCLUDE,
        UPDATES,
        PLACEHOLDER,
        *ChangeJsonFactory.optional_options,
    )

    def decoding_format(self, options: ReadOptions) -> DecodingFormat:
        # A value that is wrong is refused before there are events.
        Placeholder.of(options[PLACEHOLDER.name])
        return super().decoding_format(options)
