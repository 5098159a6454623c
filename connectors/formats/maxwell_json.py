"""The format `maxwell-json`: an event has one row, and the members that an update changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from lakewright.connectors.formats.change_json import (
    MOMENT,
    TEXTS,
    Change,
    ChangeJson,
    ChangeJsonFactory,
    Event,
    Metadata,
    changed_back,
    kind_error,
    member,
    moment,
    row_of,
)
from lakewright.storage.spec.data_types import STRING, DataField
from lakewright.storage.spec.rows import RowKind


class _Maxwell(ChangeJson):
    name = "maxwell-json"
    metadata: ClassVar[Mapping[str, Metadata]] = {
        "database": (STRING, member("database")),
        "table": (STRING, member("table")),
        "primary-key-columns": (TEXTS, member("primary_key_columns")),
        # Maxwell writes seconds.
        "ingestion-timestamp": (MOMENT, moment("ts", unit_ms=1000)),
    }

    def changes(self, event: Event, fields: Sequence[DataField]) -> Iterable[Change]:
        kind = event.get("type")
        if kind not in ("insert", "update", "delete"):
            raise kind_error("type", kind, "insert, update and delete")
        what = f"of type {kind}"
        row = row_of(event, "data", what=what)
        if kind == "update":
            yield RowKind.UPDATE_BEFORE, changed_back(row, row_of(event, "old", what=what))
            yield RowKind.UPDATE_AFTER, row
        else:
            yield RowKind.INSERT if kind == "insert" else RowKind.DELETE, row

    def event(self, *, is_removed: bool) -> tuple[str, str]:
        return '{"data":', f',"type":"{"delete" if is_removed else "insert"}"}}'


class MaxwellJsonFormat(ChangeJsonFactory):
    """Makes the format of events of Maxwell."""

    identifier = _Maxwell.name
    description = "changes that Maxwell tells as JSON"
    made = _Maxwell
