"""Rows of data files as Avro records: Arrow columns to bytes and back.

Encoding works on whole columns: each column becomes a number of bytes per row, and the bytes of all
columns are then interleaved row by row. Decoding reads row by row, since an Avro row does not state
its length.

Types are mapped as Paimon maps them (`AvroSchemaConverter`): a map whose keys are no
text is an array of key-value records, and a timestamp with local time zone is Avro's
local timestamp, its number being the moment all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from lakewright.storage.errors import CorruptionError, UnfitValues, UnsupportedError

AvroType = Any

_RECORD = "org.apache.paimon.avro.generated.record"
_INTEGERS = (pa.int8(), pa.int16(), pa.int32())
_DECIMAL_BYTES = 16
# A 64-bit number takes up to ten bytes of seven bits each.
_VARINT_BYTES = 10


# --- types ------------------------------------------------------------------------------------


def avro_schema(schema: pa.Schema) -> AvroType:
    """The Avro schema of files with these columns.

    Raises:
        UnsupportedError: Avro has no such type.
    """
    return _record(_RECORD, schema)


def _record(name: str, fields: Iterable[pa.Field]) -> AvroType:
    return {
        "type": "record",
        "name": name,
        "fields": [_record_field(name, field) for field in fields],
    }


def _record_field(record: str, field: pa.Field) -> AvroType:
    declared = {"name": field.name, "type": _field_type(field, f"{record}_{field.name}")}
    return {**declared, "default": None} if field.nullable else declared


def _field_type(field: pa.Field, name: str) -> AvroType:
    inner = _type(field.type, name)
    return ["null", inner] if field.nullable else inner


_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
}
_TIMESTAMP_UNITS = {"ms": "millis", "us": "micros"}


def _type(arrow_type: pa.DataType, name: str) -> AvroType:
    if arrow_type in _PLAIN:
        return _PLAIN[arrow_type]
    if pa.types.is_decimal128(arrow_type):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": arrow_type.precision,
            "scale": arrow_type.scale,
        }
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit in _TIMESTAMP_UNITS:
        local = "local-" if arrow_type.tz else ""
        unit = _TIMESTAMP_UNITS[arrow_type.unit]
        return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
    if pa.types.is_map(arrow_type):
        if pa.types.is_string(arrow_type.key_type):
            return {"type": "map", "values": _field_type(arrow_type.item_field, name)}
        key = {"name": "key", "type": _field_type(arrow_type.key_field, f"{name}_key")}
        value = _record_field(name, arrow_type.item_field.with_name("value"))
        entry = {"type": "record", "name": name, "fields": [key, value]}
        return {"type": "array", "logicalType": "map", "items": entry}
    if pa.types.is_list(arrow_type):
        return {"type": "array", "items": _field_type(arrow_type.value_field, name)}
    if pa.types.is_struct(arrow_type):
        return _record(name, arrow_type)
    raise UnsupportedError(f"Avro files cannot hold {arrow_type}")


# --- encoding ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bytes:
    """The bytes of each row: their lengths, and all bytes in one buffer."""

    lengths: np.ndarray
    data: np.ndarray


def encode_rows(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """The length of each encoded row in bytes, and the encoded rows in one buffer."""
    parts: list[_Bytes] = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        parts += _field_parts(_one_array(column), field)
    woven = _woven(parts, rows.num_rows)
    return woven.lengths, woven.data


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)


def _woven(parts: Sequence[_Bytes], count: int) -> _Bytes:
    """Interleave parts: for each row, its bytes of every part, in the order of the parts."""
    lengths = np.zeros(count, np.int64)
    for part in parts:
        lengths += part.lengths
    next_byte = np.cumsum(lengths) - lengths
    woven = np.empty(int(lengths.sum()), np.uint8)
    for part in parts:
        starts = np.cumsum(part.lengths) - part.lengths
        shift = np.repeat(next_byte - starts, part.lengths)
        woven[shift + np.arange(len(part.data))] = part.data
        next_byte = next_byte + part.lengths
    return _Bytes(lengths, woven)


def _field_parts(array: pa.Array, field: pa.Field) -> list[_Bytes]:
    if not field.nullable:
        return _present_parts(array)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    # The branch of the union: 0 for null, 1 for a value.
    branch = _Bytes(np.ones(len(array), np.int64), np.where(valid, 2, 0).astype(np.uint8))
    present = array if valid.all() else array.filter(array.is_valid())
    return [branch, *(_only_where(valid, part) for part in _present_parts(present))]


def _only_where(valid: np.ndarray, part: _Bytes) -> _Bytes:
    lengths = np.zeros(len(valid), np.int64)
    lengths[valid] = part.lengths
    return _Bytes(lengths, part.data)


def _present_parts(array: pa.Array) -> list[_Bytes]:
    """The encoded bytes of values without nulls."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return [_fixed(array.to_numpy(zero_copy_only=False).astype(np.uint8), 1)]
    if kind in _INTEGERS or kind == pa.int64():
        return [_varints(array.to_numpy())]
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return [_varints(array.cast(pa.int32()).to_numpy())]
    if pa.types.is_timestamp(kind):
        return [_varints(array.cast(pa.int64()).to_numpy())]
    if pa.types.is_floating(kind):
        return [_fixed(np.ascontiguousarray(array.to_numpy()), kind.bit_width // 8)]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _counted(_Bytes(*_flat_bytes(array)))
    if pa.types.is_decimal128(kind):
        return _counted(_decimal_bytes(array))
    if pa.types.is_map(kind):
        return _block_parts(_list_lengths(array), _entry_parts(array))
    if pa.types.is_list(kind):
        return _block_parts(_list_lengths(array), _field_parts(array.flatten(), kind.value_field))
    members = zip(array.flatten(), kind, strict=True)
    return [part for member, field in members for part in _field_parts(member, field)]


def _entry_parts(array: pa.Array) -> list[_Bytes]:
    # Arrow's keys and items are those of the whole underlying array, whatever slice this is.
    first, last = (array.offsets[0].as_py(), array.offsets[len(array)].as_py())
    keys = array.keys.slice(first, last - first)
    items = array.items.slice(first, last - first)
    return [
        *_field_parts(keys, array.type.key_field.with_nullable(False)),
        *_field_parts(items, array.type.item_field),
    ]


def _list_lengths(array: pa.Array) -> np.ndarray:
    lengths: np.ndarray = np.diff(array.offsets.to_numpy()).astype(np.int64)
    return lengths


def _block_parts(counts: np.ndarray, items: Sequence[_Bytes]) -> list[_Bytes]:
    """Arrays and maps: one block of items unless there are none, and a block of zero."""
    woven = _woven(items, int(counts.sum()))
    filled = counts > 0
    ends = np.concatenate([[0], np.cumsum(woven.lengths)])
    bounds = ends[np.concatenate([[0], np.cumsum(counts)])]
    return [
        _only_where(filled, _varints(counts[filled])),
        _Bytes(np.diff(bounds), woven.data),
        _Bytes(np.ones(len(counts), np.int64), np.zeros(len(counts), np.uint8)),
    ]


def _fixed(values: np.ndarray, width: int) -> _Bytes:
    return _Bytes(np.full(len(values), width, np.int64), values.view(np.uint8))


def _counted(values: _Bytes) -> list[_Bytes]:
    return [_varints(values.lengths), values]


def _varints(values: np.ndarray) -> _Bytes:
    wide = values.astype(np.int64)
    zigzag = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    lengths = np.ones(len(zigzag), np.int64)
    for count in range(1, _VARINT_BYTES):
        lengths += zigzag >= np.uint64(1) << np.uint64(7 * count)
    width = int(lengths.max(initial=1))
    groups = np.empty((len(zigzag), width), np.uint8)
    for index in range(width):
        group = (zigzag >> np.uint64(7 * index)).astype(np.uint8) & np.uint8(0x7F)
        groups[:, index] = group | ((lengths > index + 1).astype(np.uint8) << 7)
    return _Bytes(lengths, groups[np.arange(width) < lengths[:, None]])


def _flat_bytes(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Lengths and bytes of texts or bytes."""
    if len(array) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.uint8)
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    held = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return np.diff(bounds).astype(np.int64), held[bounds[0] : bounds[-1]]


def _decimal_bytes(array: pa.Array) -> _Bytes:
    """Unscaled numbers, big-endian, without redundant leading bytes."""
    if len(array) == 0:
        return _Bytes(*_flat_bytes(pa.array([], pa.binary())))
    _, data = array.buffers()
    start = array.offset * _DECIMAL_BYTES
    little = np.frombuffer(data, np.uint8)[start : start + len(array) * _DECIMAL_BYTES]
    big = little.reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    negative = big[:, :1] >= 0x80
    # A leading byte is redundant if it only repeats the sign bit of the next byte.
    redundant = (big[:, :-1] == np.where(negative, 0xFF, 0)) & ((big[:, 1:] >= 0x80) == negative)
    dropped = np.cumprod(redundant, axis=1).sum(axis=1)
    kept = np.arange(_DECIMAL_BYTES) >= dropped[:, None]
    return _Bytes(_DECIMAL_BYTES - dropped.astype(np.int64), big[kept])


# --- decoding ---------------------------------------------------------------------------------


class RowDecoder:
    """Decodes the records of one file to columns: all columns, or the requested ones."""

    def __init__(self, written: AvroType, *, path: str, columns: Sequence[str] | None = None):
        """`written` is the file's own schema; error messages call the file `path`.

        Raises:
            CorruptionError: the file's schema is not an Avro schema.
            UnsupportedError: the schema has a type that no column can have.
        """
        self._path = path
        try:
            fields = {field["name"]: field["type"] for field in _record_fields(written, path)}
            self.column_names = tuple(fields)
            self._types = {name: fields[name] for name in (columns or fields)}
            self._raw = {name: _raw_type(kind, path) for name, kind in self._types.items()}
            # Decoded as one array of records, a block is one call. Logical types are left off,
            # since Python's dates and decimals are slower than columns of numbers, and narrower.
            self._written = fastavro.parse_schema({"type": "array", "items": _plain(written)})
        except (LookupError, TypeError, ValueError, SchemaParseException, UnknownType) as error:
            raise CorruptionError(
                f"data file {path} has an invalid Avro schema: {error!r}", path=path
            ) from error

    def decode(self, data: bytes, count: int) -> pa.Table:
        """The `count` rows of a block.

        Raises:
            CorruptionError: the block does not hold that many rows.
        """
        if count == 0 and not data:
            return self.no_rows()
        framed = BytesIO(_varints(np.array([count])).data.tobytes() + data + b"\0")
        try:
            records: Any = fastavro.schemaless_reader(framed, self._written, None)
            if len(records) != count or framed.read(1):
                raise ValueError(f"a block does not hold the {count} rows that its header says")
            raw = [pa.array([row[name] for row in records], self._raw[name]) for name in self._raw]
        except Exception as error:
            # Avro has no error type of its own: a damaged block fails wherever it is damaged.
            raise CorruptionError(
                f"data file {self._path} cannot be read as Avro: {error!r}", path=self._path
            ) from error
        return self._table(raw)

    def no_rows(self) -> pa.Table:
        return self._table([pa.array([], kind) for kind in self._raw.values()])

    def _table(self, raw: Iterable[pa.Array]) -> pa.Table:
        columns = []
        for array, (name, kind) in zip(raw, self._types.items(), strict=True):
            try:
                columns.append(_typed(array, kind))
            except OverflowError as error:
                raise UnfitValues(
                    f"data file {self._path} holds {error} in column {name}, and no DECIMAL has "
                    "more than 16; write the file again with fewer digits",
                    path=self._path,
                    column=name,
                ) from None
        return pa.table(columns, names=list(self._types))


def _record_fields(written: AvroType, path: str) -> list[dict[str, Any]]:
    # Java writes the union of null and the record, as if a row could be null.
    record = _not_null(written, path) if isinstance(written, list) else written
    if not isinstance(record, dict) or record.get("type") != "record":
        raise CorruptionError(f"data file {path} holds Avro values that are not records", path=path)
    fields: list[dict[str, Any]] = record["fields"]
    return fields


def _not_null(union: list[AvroType], path: str) -> AvroType:
    others = [branch for branch in union if branch != "null"]
    if len(others) != 1 or len(union) > 2:
        raise UnsupportedError(
            f"data file {path} holds the Avro union {union}, which cannot be read as a column"
        )
    return others[0]


def _plain(written: AvroType) -> AvroType:
    """A schema without logical types."""
    if isinstance(written, list):
        return [_plain(branch) for branch in written]
    if not isinstance(written, dict):
        return written
    match written["type"]:
        case "record":
            fields = [
                {"name": field["name"], "type": _plain(field["type"])}
                for field in written["fields"]
            ]
            return {"type": "record", "name": written["name"], "fields": fields}
        case "array":
            return {"type": "array", "items": _plain(written["items"])}
        case "map":
            return {"type": "map", "values": _plain(written["values"])}
        case inner:
            return _plain(inner)


_RAW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}


def _raw_type(written: AvroType, path: str) -> pa.DataType:
    """The Arrow type of values as they are decoded, before logical types count."""
    if isinstance(written, list):
        return _raw_type(_not_null(written, path), path)
    if isinstance(written, str) and written in _RAW:
        return _RAW[written]
    match written:
        case {"type": "record", "fields": fields}:
            return pa.struct([(field["name"], _raw_type(field["type"], path)) for field in fields])
        case {"type": "array", "items": items}:
            return pa.list_(_raw_type(items, path))
        case {"type": "map", "values": values}:
            return pa.map_(pa.string(), _raw_type(values, path))
        case {"type": inner}:
            return _raw_type(inner, path)
    raise UnsupportedError(
        f"data file {path} holds the Avro type {written}, which cannot be read as a column"
    )


_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "timestamp-millis": pa.timestamp("ms"),
    "timestamp-micros": pa.timestamp("us"),
    "local-timestamp-millis": pa.timestamp("ms", "UTC"),
    "local-timestamp-micros": pa.timestamp("us", "UTC"),
}


def _typed(array: pa.Array, written: AvroType) -> pa.Array:
    """Decoded values cast to their logical types."""
    if isinstance(written, list):
        return _typed(array, next(branch for branch in written if branch != "null"))
    match written:
        case {"logicalType": "decimal", "precision": precision, "scale": scale}:
            return _decimals(array, pa.decimal128(precision, scale))
        case {"logicalType": str(logical)} if logical in _LOGICAL:
            return array.view(_LOGICAL[logical])
        case {"type": "record", "fields": fields}:
            return _struct(array, [(field["name"], field["type"]) for field in fields])
        case {"type": "array", "logicalType": "map", "items": {"fields": [key, value]}}:
            entries = array.values
            keys = _typed(entries.field(0), key["type"])
            values = _typed(entries.field(1), value["type"])
            return _map(array, keys, values)
        case {"type": "array", "items": items}:
            values = _typed(array.values, items)
            return pa.ListArray.from_arrays(array.offsets, values, mask=_nulls(array))
        case {"type": "map", "values": values}:
            return _map(array, array.keys, _typed(array.items, values))
        case {"type": dict() | list() as inner}:
            return _typed(array, inner)
        case _:
            return array


def _struct(array: pa.Array, fields: Sequence[tuple[str, AvroType]]) -> pa.Array:
    members = [_typed(array.field(index), kind) for index, (_, kind) in enumerate(fields)]
    names = [name for name, _ in fields]
    return pa.StructArray.from_arrays(members, names, mask=_nulls(array))


def _map(array: pa.Array, keys: pa.Array, values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(array.offsets, keys, values, mask=_nulls(array))


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _shortest(data: bytes | None) -> bytes | None:
    """An unscaled number without leading bytes that only repeat its sign."""
    if data is None or len(data) <= _DECIMAL_BYTES:
        return data
    number = int.from_bytes(data, "big", signed=True)
    try:
        return number.to_bytes(_DECIMAL_BYTES, "big", signed=True)
    except OverflowError:
        raise OverflowError(f"a decimal of {len(data)} bytes") from None


def _decimals(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimals from their unscaled numbers, which are big-endian and of any length.

    Raises:
        OverflowError: a number takes more than 16 bytes.
    """
    lengths, data = _flat_bytes(array)
    if int(lengths.max(initial=0)) > _DECIMAL_BYTES:
        array = pa.array([_shortest(each) for each in array.to_pylist()], pa.binary())
        lengths, data = _flat_bytes(array)
    ends = np.cumsum(lengths)
    little = np.zeros((len(lengths), _DECIMAL_BYTES), np.uint8)
    negative = np.zeros(len(lengths), bool)
    filled = lengths > 0
    negative[filled] = data[(ends - lengths)[filled]] >= 0x80
    little[negative] = 0xFF
    for index in range(_DECIMAL_BYTES):
        there = lengths > index
        little[there, index] = data[ends[there] - 1 - index]
    validity = array.buffers()[0]
    return pa.Array.from_buffers(kind, len(array), [validity, pa.py_buffer(little.tobytes())])
