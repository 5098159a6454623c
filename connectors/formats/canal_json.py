"""The format `canal-json`: an event has the rows that one statement changed, in an array."""

from __future__ import annotations

import re
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
    each_row,
    kind_error,
    member,
    moment,
)
from lakewright.connectors.options import Option
from lakewright.storage.spec.data_types import STRING, AtomicType, DataField, MapType, TypeRoot
from lakewright.storage.spec.rows import RowKind

_DATABASE = Option(
    name="database.include",
    description="a regular expression; events of other databases give no rows",
)
_TABLE = Option(
    name="table.include", description="a regular expression; events of other tables give no rows"
)


class _Canal(ChangeJson):
    name = "canal-json"
    metadata: ClassVar[Mapping[str, Metadata]] = {
        "database": (STRING, member("database")),
        "table": (STRING, member("table")),
        "sql-type": (MapType(STRING, AtomicType(TypeRoot.INT)), member("sqlType")),
        "pk-names": (TEXTS, member("pkNames")),
        "ingestion-timestamp": (MOMENT, moment("ts")),
        "event-timestamp": (MOMENT, moment("es")),
    }

    def changes(self, event: Event, fields: Sequence[DataField]) -> Iterable[Change]:
        if not (
            self._includes(_DATABASE, event, "database") and self._includes(_TABLE, event, "table")
        ):
            return
        kind = event.get("type")
        if kind == "CREATE":
            return
        if kind not in ("INSERT", "UPDATE", "DELETE"):
            raise kind_error("type", kind, "INSERT, UPDATE and DELETE")
        rows = list(each_row(event.get("data"), "data", f"of type {kind}"))
        if kind != "UPDATE":
            only = RowKind.INSERT if kind == "INSERT" else RowKind.DELETE
            yield from ((only, row) for row in rows)
            return
        old = list(each_row(event.get("old"), "old", "of type UPDATE"))
        if len(old) != len(rows):
            raise ValueError(f"data has {len(rows)} rows, and old {len(old)}")
        for after, changed in zip(rows, old, strict=True):
            yield RowKind.UPDATE_BEFORE, changed_back(after, changed)
            yield RowKind.UPDATE_AFTER, after

    def _includes(self, option: Option, event: Event, name: str) -> bool:
        pattern = self.options.get(option.name)
        if pattern is None:
            return True
        value = event.get(name)
        if not isinstance(value, str):
            raise ValueError(f"the event has no {name}, which {option.name} is about")  # noqa: TRY004 # of the event
        return re.fullmatch(pattern, value) is not None

    def event(self, *, is_removed: bool) -> tuple[str, str]:
        return '{"data":[', f'],"type":"{"DELETE" if is_removed else "INSERT"}"}}'


class CanalJsonFormat(ChangeJsonFactory):
    """Makes the format of events of Canal."""

    identifier = _Canal.name
    description = "changes that Canal tells as JSON"
    made = _Canal
    optional_options = (*ChangeJsonFactory.optional_options, _DATABASE, _TABLE)
