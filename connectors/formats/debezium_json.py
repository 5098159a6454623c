"""The format `debezium-json`: an event of Debezium has a row before and after its change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from lakewright.connectors.formats.change_json import (
    MOMENT,
    TEXT_BY_TEXT,
    Change,
    ChangeJson,
    ChangeJsonFactory,
    Event,
    Metadata,
    before_of,
    kind_error,
    moment_of,
    row_of,
)
from lakewright.connectors.formats.connect_schema import restored, row_schema
from lakewright.connectors.formats.json_values import json_text
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, OptionKind
from lakewright.storage.spec.data_types import STRING, DataField
from lakewright.storage.spec.rows import RowKind

_SCHEMA_INCLUDE = Option(
    name="schema-include",
    kind=OptionKind.BOOLEAN,
    default=False,
    description="each message holds its schema beside its payload (value.converter.schemas.enable)",
)
_UPDATES = Option(
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


class _Debezium(ChangeJson):
    name = "debezium-json"
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
    def _is_upsert(self) -> bool:
        return bool(self.options[_UPDATES.name] == "upsert")

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.upsert() if self._is_upsert else ChangelogMode.all()

    def changes(self, event: Event, fields: Sequence[DataField]) -> Iterable[Change]:
        if not self.options[_SCHEMA_INCLUDE.name]:
            if "payload" in event and "op" not in event:
                raise ValueError(
                    "the event lies in payload, beside its schema; set "
                    f"'{_SCHEMA_INCLUDE.name}' = 'true'"
                )
            yield from self._of_payload(event)
            return
        payload = row_of(event, "payload", what="enclosed")
        schema = row_schema(event.get("schema"))
        for kind, row in self._of_payload(dict(payload)):
            yield kind, restored(row, schema, fields)

    def _of_payload(self, event: Event) -> Iterable[Change]:
        kind = event.get("op")
        what = f"of op {kind}"
        match kind:
            case "c" | "r":
                yield RowKind.INSERT, row_of(event, "after", what=what)
            case "u":
                after = row_of(event, "after", what=what)
                if not self._is_upsert:
                    yield RowKind.UPDATE_BEFORE, self._before(event, what)
                yield RowKind.UPDATE_AFTER, after
            case "d":
                yield RowKind.DELETE, before_of(event, "before", what=what)
            case _:
                raise kind_error("op", kind, "c, r, u and d")

    def _before(self, event: Event, what: str) -> Mapping[str, object]:
        try:
            return before_of(event, "before", what=what)
        except ValueError as error:
            raise ValueError(
                f"{error}, or set '{_UPDATES.name}' = 'upsert' and write into a table with a key"
            ) from None

    def event(self, *, is_removed: bool) -> tuple[str, str]:
        if is_removed:
            return '{"before":', ',"after":null,"op":"d"}'
        return '{"before":null,"after":', ',"op":"c"}'


class DebeziumJsonFormat(ChangeJsonFactory):
    """Makes the format of events of Debezium."""

    identifier = _Debezium.name
    description = "changes that Debezium tells as JSON"
    made = _Debezium
    optional_options = (_SCHEMA_INCLUDE, _UPDATES, *ChangeJsonFactory.optional_options)
