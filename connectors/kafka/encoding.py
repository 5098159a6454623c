"""Rows as messages: values, keys, headers and timestamps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.formats.model import Encoder
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind


class Record(NamedTuple):
    """What a producer sends."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes]] | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class RowWriter:
    """Makes a message of each row. It pickles.

    With `is_upsert`, a deletion is a message without a value. `takes_before` says that the format
    has a place for rows as they were before an update.
    """

    value: Encoder
    value_names: tuple[str, ...]
    key: Encoder | None
    key_fields: tuple[tuple[str, DataField], ...]
    metadata: tuple[tuple[str, DataField], ...]
    is_upsert: bool
    takes_before: bool

    def records(self, rows: pa.RecordBatch) -> Iterator[Record]:
        has_kinds = ROW_KIND_COLUMN in rows.schema.names
        if has_kinds and not self.takes_before:
            before = pc.equal(rows.column(ROW_KIND_COLUMN), RowKind.UPDATE_BEFORE.short)
            rows = rows.filter(pc.invert(before))
        kinds = [ROW_KIND_COLUMN] if has_kinds and not self.is_upsert else []
        values = self.value.encode(rows.select([*self.value_names, *kinds]))
        if has_kinds and self.is_upsert:
            told = rows.column(ROW_KIND_COLUMN).to_pylist()
            values = [
                None if kind == RowKind.DELETE.short else value
                for kind, value in zip(told, values, strict=True)
            ]
        keys: Sequence[bytes | None] = [None] * rows.num_rows
        if self.key is not None:
            columns = [rows.column(name) for name, _ in self.key_fields]
            names = [each.name for _, each in self.key_fields]
            keys = self.key.encode(pa.RecordBatch.from_arrays(columns, names=names))
        if not self.metadata:
            yield from (Record(*each) for each in zip(values, keys, strict=True))
            return
        more = {key: rows.column(field.name) for key, field in self.metadata}
        none: list[Any] = [None] * rows.num_rows
        headers = more["headers"].to_pylist() if "headers" in more else none
        moments: list[int | None] = none
        if "timestamp" in more:
            millis = more["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False)
            moments = millis.cast(pa.int64()).to_pylist()
        for value, key, header, moment in zip(values, keys, headers, moments, strict=True):
            yield Record(value, key, None if header is None else list(header), moment)


def keyed(names: Sequence[str], fields: Sequence[DataField], prefix: str) -> list[DataField]:
    """The fields of a key's format, whose names lack the prefix that they have in the table."""
    by_name = {field.name: field for field in fields}
    return [replace(by_name[name], name=name.removeprefix(prefix)) for name in names]
