"""The format `avro`: a record in Avro's binary encoding, whose schema is that of the table.

A message holds no schema. Writer and reader must derive the same one, so types are mapped as Flink
maps them: with `timestamp_mapping.legacy`, a TIMESTAMP is written as `timestamp-millis`, which is
a moment for other readers of Avro.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa

from lakewright.connectors.formats.messages import (
    BadMessages,
    MessageDecoder,
    Numbered,
    batch_of,
    check_nulls,
    check_types,
    parts_of,
    python_columns,
)
from lakewright.connectors.formats.model import (
    Decoder,
    DecodingFormat,
    Encoder,
    EncodingFormat,
    FormatFactory,
)
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, OptionKind, ReadOptions
from lakewright.storage.codec.avro_values import exact_schema
from lakewright.storage.codec.python_columns import Reading
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TypeRoot,
    not_decoded,
)
from lakewright.storage.spec.values import NANOS_PER_MILLI, StoredNumber, time_of_day

_NAME = "avro"
_ENCODING = Option(
    name="encoding",
    default="binary",
    choices=("binary",),
    description="how records are encoded; for Avro in JSON, use the format json",
)
LEGACY = Option(
    name="timestamp_mapping.legacy",
    kind=OptionKind.BOOLEAN,
    default=True,
    description="TIMESTAMP is timestamp-millis; without, it is local-timestamp-millis, and "
    "TIMESTAMP_LTZ is timestamp-millis",
)
_RECORD = "org.apache.flink.avro.generated.record"
_PLAIN = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "bytes",
    TypeRoot.VARBINARY: "bytes",
}


class AvroFormat(FormatFactory):
    """Makes the format of a record of Avro per message."""

    identifier = _NAME
    description = "Avro records, each with the schema of the table"
    optional_options = (_ENCODING, LEGACY)

    def decoding_format(self, options: ReadOptions) -> DecodingFormat:
        return _Avro(options[LEGACY.name])

    def encoding_format(self, options: ReadOptions) -> EncodingFormat:
        return _Avro(options[LEGACY.name])


@dataclass(frozen=True)
class _Avro(DecodingFormat, EncodingFormat):
    is_legacy: bool

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.insert_only()

    def decoder(self, fields: Sequence[DataField]) -> Decoder:
        check_types(fields, _NAME, self._type_problem)
        return _AvroDecoder(tuple(fields), self.is_legacy)

    def encoder(self, fields: Sequence[DataField]) -> Encoder:
        check_types(fields, _NAME, self._type_problem)
        return _AvroEncoder(tuple(fields), self.is_legacy)

    def _type_problem(self, data_type: DataType) -> str | None:
        return type_problem(data_type, is_legacy=self.is_legacy)


def type_problem(data_type: DataType, *, is_legacy: bool) -> str | None:
    """Why a type has no form in schemas that are derived from a table's columns, if it has none."""
    match data_type:
        case MapType(key=key) | MultisetType(element=key):
            is_text = isinstance(key, AtomicType) and key.root.is_text
            return None if is_text else "maps of Avro have texts as keys; make the key a STRING"
        case AtomicType(root=TypeRoot.TIMESTAMP_LTZ) if is_legacy:
            return f"set '{LEGACY.name}' = 'false'"
        case AtomicType(root=root, precision=precision) if root.is_timestamp:
            # Flink's schema says microseconds then, and its records hold milliseconds.
            return None if precision <= 3 else "make its precision at most 3"
        case _:
            return None


def avro_schema(fields: Sequence[DataField], *, is_legacy: bool) -> Any:
    """The schema of messages of a table, as Flink derives it."""
    return {"type": "record", "name": _RECORD, "fields": _members(fields, _RECORD, is_legacy)}


def _members(fields: Sequence[DataField], name: str, is_legacy: bool) -> list[Any]:
    members = []
    for field in fields:
        kind = _kind(field.type, f"{name}_{field.name}", is_legacy)
        members.append({"name": field.name, "type": kind})
    return members


def _kind(data_type: DataType, name: str, is_legacy: bool) -> Any:
    kind = _required(data_type, name, is_legacy)
    return ["null", kind] if data_type.nullable else kind


def _required(data_type: DataType, name: str, is_legacy: bool) -> Any:
    match data_type:
        case AtomicType(root=TypeRoot.DECIMAL, precision=precision, scale=scale):
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": precision,
                "scale": scale,
            }
        case AtomicType(root=TypeRoot.DATE):
            return {"type": "int", "logicalType": "date"}
        case AtomicType(root=TypeRoot.TIME):
            return {"type": "int", "logicalType": "time-millis"}
        case AtomicType(root=root) if root.is_timestamp:
            is_local = root is TypeRoot.TIMESTAMP and not is_legacy
            return {"type": "long", "logicalType": f"{'local-' * is_local}timestamp-millis"}
        case AtomicType(root=root):
            return _PLAIN[root]
        case ArrayType(element=element):
            return {"type": "array", "items": _kind(element, name, is_legacy)}
        case MapType(value=value):
            return {"type": "map", "values": _kind(value, name, is_legacy)}
        case MultisetType():
            return {"type": "map", "values": "int"}
        case RowType(fields=fields):
            return {"type": "record", "name": name, "fields": _members(fields, name, is_legacy)}


def _parsed(fields: Sequence[DataField], is_legacy: bool) -> Any:
    # Moments are handled as numbers, which keep every year and digit.
    return fastavro.parse_schema(numbers_alone(avro_schema(fields, is_legacy=is_legacy)))


def parsed_for_reading(schema: Any) -> Any:
    """A schema of messages that are read: moments are numbers, and decimals have all digits."""
    return fastavro.parse_schema(exact_schema(numbers_alone(schema)))


def numbers_alone(schema: Any) -> Any:
    """A schema without logical types, but for decimals."""
    match schema:
        case {"logicalType": "decimal"}:
            return schema
        case dict():
            return {
                key: numbers_alone(value) for key, value in schema.items() if key != "logicalType"
            }
        case list():
            return [numbers_alone(each) for each in schema]
        case _:
            return schema


@dataclass(frozen=True)
class _AvroDecoder(MessageDecoder):
    fields: tuple[DataField, ...]
    is_legacy: bool
    format_name = _NAME

    def rows(self, messages: Sequence[Numbered]) -> pa.RecordBatch:
        schema = parsed_for_reading(avro_schema(self.fields, is_legacy=self.is_legacy))
        bad = BadMessages()
        records: list[Mapping[str, Any]] = []
        for number, message in messages:
            try:
                records.append(record_of(message, schema))
            except ValueError as error:
                bad.add(number, str(error))
        bad.check()
        numbers = [number for number, _ in messages]
        values = [[record[field.name] for record in records] for field in self.fields]
        columns = python_columns(values, self.fields, Reading(_reader), numbers)
        check_nulls(columns, self.fields, numbers)
        return batch_of(columns, self.fields, None)


def record_of(message: bytes, schema: Any) -> Mapping[str, Any]:
    """The record that a message is; raises a ValueError if it is none."""
    source = BytesIO(message)
    try:
        record: Any = fastavro.schemaless_reader(source, schema, None)
    except Exception as error:
        # What damaged bytes raise depends on where they are damaged.
        raise ValueError(f"it is not a record of the table's columns in Avro: {error!r}") from error
    left = len(message) - source.tell()
    if left:
        raise ValueError(
            f"{left} bytes follow the record; its writer has other columns, or frames messages"
        )
    return record  # type: ignore[no-any-return] # a record of Avro is a mapping


def _reader(data_type: AtomicType) -> Any:
    root = data_type.root
    if root is TypeRoot.DATE:
        return StoredNumber
    if root is TypeRoot.TIME:
        return lambda number: time_of_day(number * 1_000)
    if root.is_timestamp:
        return lambda number: StoredNumber(number * NANOS_PER_MILLI)
    return None


@dataclass(frozen=True)
class _AvroEncoder:
    fields: tuple[DataField, ...]
    is_legacy: bool

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        return list(encoded_records(rows, self.fields, _parsed(self.fields, self.is_legacy)))


def encoded_records(
    rows: pa.RecordBatch,
    fields: Sequence[DataField],
    schema: Any,
    enclosed: Callable[[int, dict[str, Any]], object] = lambda _, row: row,
) -> Iterator[bytes]:
    """Rows as records of a schema; `enclosed` makes the record of a row by its number.

    Raises:
        InvalidRows: a row cannot be encoded.
    """
    columns = [avro_values(rows.column(field.name), field.type) for field in fields]
    names = [field.name for field in fields]
    for at, row in enumerate(zip(*columns, strict=True)):
        target = BytesIO()
        try:
            record = enclosed(at, dict(zip(names, row, strict=True)))
            fastavro.schemaless_writer(target, schema, record)
        except (TypeError, ValueError) as error:
            raise InvalidRows(f"{_NAME}: row {at + 1} cannot be encoded: {error}") from error
        yield target.getvalue()


def avro_values(array: pa.Array, data_type: DataType) -> list[Any]:
    """Values as fastavro writes them: moments as the numbers of their unit."""
    match data_type:
        case AtomicType(root=TypeRoot.DATE | TypeRoot.TIME):
            return list(array.cast(pa.int32()).to_pylist())
        case AtomicType(root=root) if root.is_timestamp:
            return list(array.cast(pa.int64()).to_pylist())
        case AtomicType():
            return list(array.to_pylist())
        case OpaqueType():
            raise not_decoded(data_type)
        case ArrayType(element=element):
            return parts_of(array, avro_values(array.flatten(), element))
        case MapType(value=value):
            return _maps(array, value)
        case MultisetType():
            return _maps(array, AtomicType(TypeRoot.INT))
        case RowType(fields=fields):
            names = [field.name for field in fields]
            members = [
                avro_values(part, each.type)
                for part, each in zip(array.flatten(), fields, strict=True)
            ]
            valid = array.is_valid().to_pylist()
            rows = zip(*members, strict=True)
            return [
                dict(zip(names, row, strict=True)) if there else None
                for row, there in zip(rows, valid, strict=True)
            ]


def _maps(array: pa.MapArray, value: DataType) -> list[Any]:
    present = array.filter(array.is_valid())
    pairs = list(zip(present.keys.to_pylist(), avro_values(present.items, value), strict=True))
    return [None if each is None else dict(each) for each in parts_of(array, pairs)]
