"""The format `ogg-json`: events of Oracle GoldenGate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from lakewright.connectors.formats.before_after import BeforeAfterJson, Operations
from lakewright.connectors.formats.change_json import (
    TEXTS,
    ChangeJsonFactory,
    Event,
    Metadata,
    member,
)
from lakewright.storage.spec.data_types import STRING, AtomicType, TypeRoot

_MOMENT = AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6)


def _utc(name: str) -> Callable[[Event], object]:
    """The reader of a time that GoldenGate writes without a zone."""

    def read(event: Event) -> object:
        text = event.get(name)
        return text if text is None else f"{text}Z"

    return read


class _Ogg(BeforeAfterJson):
    name = "ogg-json"
    operations = Operations("op_type", ("I",), "U", "D")
    is_upsert = False
    omits_unchanged = True
    metadata: ClassVar[Mapping[str, Metadata]] = {
        "table": (STRING, member("table")),
        "primary-keys": (TEXTS, member("primary_keys")),
        "ingestion-timestamp": (_MOMENT, _utc("current_ts")),
        "event-timestamp": (_MOMENT, _utc("op_ts")),
    }


class OggJsonFormat(ChangeJsonFactory):
    """Makes the format of events of Oracle GoldenGate."""

    identifier = _Ogg.name
    description = "changes that GoldenGate tells as JSON"
    made = _Ogg
