"""The format `ogg-json`: an event of Oracle GoldenGate has a row before and after its change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from lakewright.connectors.formats.change_json import (
    TEXTS,
    Change,
    ChangeJson,
    ChangeJsonFactory,
    Event,
    Metadata,
    before_of,
    kind_error,
    member,
    row_of,
)
from lakewright.storage.spec.data_types import STRING, AtomicType, DataField, TypeRoot
from lakewright.storage.spec.rows import RowKind

_MOMENT = AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6)


def _utc(name: str) -> Callable[[Event], object]:
    """The reader of a time that GoldenGate writes without a zone."""

    def read(event: Event) -> object:
        text = event.get(name)
        return text if text is None else f"{text}Z"

    return read


class _Ogg(ChangeJson):
    name = "ogg-json"
    metadata: ClassVar[Mapping[str, Metadata]] = {
        "table": (STRING, member("table")),
        "primary-keys": (TEXTS, member("primary_keys")),
        "ingestion-timestamp": (_MOMENT, _utc("current_ts")),
        "event-timestamp": (_MOMENT, _utc("op_ts")),
    }

    def changes(self, event: Event, fields: Sequence[DataField]) -> Iterable[Change]:
        kind = event.get("op_type")
        what = f"of op_type {kind}"
        match kind:
            case "I":
                yield RowKind.INSERT, row_of(event, "after", what=what)
            case "U":
                yield RowKind.UPDATE_BEFORE, before_of(event, "before", what=what)
                yield RowKind.UPDATE_AFTER, row_of(event, "after", what=what)
            case "D":
                yield RowKind.DELETE, before_of(event, "before", what=what)
            case _:
                raise kind_error("op_type", kind, "I, U and D")

    def event(self, *, is_removed: bool) -> tuple[str, str]:
        if is_removed:
            return '{"before":', ',"after":null,"op_type":"D"}'
        return '{"before":null,"after":', ',"op_type":"I"}'


class OggJsonFormat(ChangeJsonFactory):
    """Makes the format of events of Oracle GoldenGate."""

    identifier = _Ogg.name
    description = "changes that GoldenGate tells as JSON"
    made = _Ogg
