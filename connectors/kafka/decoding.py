"""Messages as rows: the value, the key, and what the topic knows of a message."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakewright.connectors.formats.model import Decoder
from lakewright.connectors.runtime import ReportBad
from lakewright.storage.codec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import DataField, DataType, parse_data_type
from lakewright.storage.spec.rows import ROW_KIND_COLUMN

# Behind it are the metadata of the value's format.
OF_VALUE = "value."
# What fields of a decoder are called that hold metadata of its format.
OF_FORMAT = "metadata."
_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


def _moment(message: Any) -> dt.datetime | None:
    kind, millis = message.timestamp()
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC) if kind else None


def _headers(message: Any) -> list[tuple[str, bytes | None]]:
    # Of headers with one name, the last counts.
    return list(dict(message.headers() or ()).items())


_KNOWN: Mapping[str, tuple[str, Callable[[Any], object]]] = {
    "topic": ("STRING", lambda message: message.topic()),
    "partition": ("INT", lambda message: message.partition()),
    "headers": ("MAP<STRING, BYTES>", _headers),
    "leader-epoch": ("INT", lambda message: message.leader_epoch()),
    "offset": ("BIGINT", lambda message: message.offset()),
    "timestamp": ("TIMESTAMP_LTZ(3)", _moment),
    "timestamp-type": ("STRING", lambda message: _TIMESTAMP_TYPES[message.timestamp()[0]]),
}
METADATA: Mapping[str, DataType] = {
    name: parse_data_type(kind) for name, (kind, _) in _KNOWN.items()
}


@dataclass(frozen=True)
class RowReader:
    """Makes the rows of messages. It pickles.

    `key_names` are columns that are read from the key, in the order of its decoder. Of an upsert
    topic they are the primary key, and a message without a value deletes its row.
    """

    table: str
    fields: tuple[DataField, ...]
    value: Decoder
    key: Decoder | None
    key_names: tuple[str, ...]
    metadata: tuple[tuple[str, DataField], ...]
    is_upsert: bool

    def rows(self, messages: Sequence[Any], report: ReportBad | None) -> pa.RecordBatch:
        """The rows of messages of one partition, in their order.

        Raises:
            InvalidRows: a message cannot be decoded, and there is no `report`.
        """

        def refuse(number: int, why: str, payload: bytes | None) -> None:
            message = messages[number]
            place = f"topic {message.topic()} partition {message.partition()}"
            place += f" offset {message.offset()}"
            if report is None:
                raise InvalidRows(f"{self.table}: {place}: {why}")
            report(place, payload or b"", why)

        values = [each.value() for each in messages]
        if self.key is None and not self.metadata:
            rows, bad = _decoded(self.value, values)
            for number, why in bad.items():
                refuse(number, why, values[number])
            return rows
        at_all = np.arange(len(messages))
        keys, of_keys = None, at_all
        if self.key is not None:
            payloads = [each.key() for each in messages]
            keys, of_keys, bad = _owned(self.key, payloads, at_all)
            for number, why in bad.items():
                refuse(number, f"its key: {why}", payloads[number])
            at_all = np.array([each for each in at_all if each not in bad], dtype=np.int64)
        is_deletion = np.array([self.is_upsert and values[at] is None for at in at_all], dtype=bool)
        deleted = at_all[is_deletion]
        rows, owners, bad = _owned(self.value, values, at_all[~is_deletion])
        for number, why in bad.items():
            refuse(number, why, values[number])
        order = np.argsort(np.concatenate([owners, deleted]), kind="stable")
        every = np.concatenate([owners, deleted])[order]
        of_value = pa.array(
            np.concatenate([np.arange(len(owners)), np.zeros(len(deleted), dtype=np.int64)])[order],
            mask=order >= len(owners),
        )
        columns = {name: rows.column(name).take(of_value) for name in rows.schema.names}
        if keys is not None:
            columns |= _keys_of(keys, self.key_names, of_keys, every)
        if self.is_upsert:
            kinds = np.where(order < len(owners), "+U", "-D")
            columns[ROW_KIND_COLUMN] = pa.array(kinds.tolist(), pa.string())
        return self._assembled(columns, [messages[at] for at in every])

    def _assembled(self, columns: dict[str, pa.Array], messages: Sequence[Any]) -> pa.RecordBatch:
        fields = list(self.fields)
        found = [columns[each.name] for each in fields]
        for key, field in self.metadata:
            fields.append(field)
            kind = to_arrow_type(field.type)
            if key.startswith(OF_VALUE):
                found.append(columns[OF_FORMAT + key.removeprefix(OF_VALUE)].cast(kind))
            else:
                known = to_arrow_type(METADATA[key])
                read = _KNOWN[key][1]
                found.append(pa.array([read(message) for message in messages], known).cast(kind))
        schema = to_arrow_schema(fields)
        if ROW_KIND_COLUMN in columns:
            found.append(columns[ROW_KIND_COLUMN])
            schema = schema.append(pa.field(ROW_KIND_COLUMN, pa.string()))
        return pa.RecordBatch.from_arrays(found, names=schema.names)


def _keys_of(
    keys: pa.RecordBatch, names: Sequence[str], owners: np.ndarray, wanted: np.ndarray
) -> dict[str, pa.Array]:
    """The key columns of messages; of those without a key they are null."""
    row_of = {int(message): row for row, message in enumerate(owners)}
    at = pa.array([row_of.get(int(each)) for each in wanted], pa.int64())
    return {name: column.take(at) for name, column in zip(names, keys.columns, strict=True)}


def _decoded(
    decoder: Decoder, payloads: Sequence[bytes | None]
) -> tuple[pa.RecordBatch, dict[int, str]]:
    bad: dict[int, str] = {}
    return decoder.decode(payloads, bad.__setitem__), bad


def _owned(
    decoder: Decoder, payloads: Sequence[bytes | None], numbers: np.ndarray
) -> tuple[pa.RecordBatch, np.ndarray, dict[int, str]]:
    """The rows of some payloads, the number of the message of each row, and what is bad."""
    asked = [payloads[at] for at in numbers]
    rows, found = _decoded(decoder, asked)
    bad = {int(numbers[at]): why for at, why in found.items()}
    left = [at for at in range(len(asked)) if at not in found]
    if ROW_KIND_COLUMN not in rows.schema.names:
        # Formats of new rows give one of a message, or none of an empty one.
        for givers in (left, [at for at in left if asked[at]]):
            if rows.num_rows == len(givers):
                return rows, numbers[givers], bad
    single = [(at, decoder.decode([asked[at]])) for at in left]
    owners = [numbers[at] for at, each in single for _ in range(each.num_rows)]
    merged = pa.Table.from_batches([each for _, each in single], rows.schema).combine_chunks()
    batches = merged.to_batches()
    return (batches[0] if batches else rows.slice(0, 0)), np.array(owners, dtype=np.int64), bad
