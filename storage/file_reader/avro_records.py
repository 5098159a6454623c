"""The records of Avro files of other systems.

Avro has the meaning of its specification, in which `timestamp-millis` is a moment; Paimon's own
data files have another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import IO, Any

import fastavro

from lakewright.storage.codec.avro_container import read_block, read_block_head, read_header
from lakewright.storage.codec.avro_values import exact_schema
from lakewright.storage.codec.hybrid_calendar import avro_calendar
from lakewright.storage.codec.python_columns import ReadAtom
from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader.records import Records
from lakewright.storage.spec.data_types import AtomicType

# So many rows become one table.
_ROWS_AT_ONCE = 1 << 15
_MOST_SHOWN = 40


def read_avro_records(source: IO[bytes], *, path: str) -> Iterator[tuple[tuple[str, ...], Records]]:
    """The names of a file's columns with each of its blocks, the first time without records.

    Days and moments are those that its marks of a calendar say.

    Raises:
        CorruptionError: the file is not Avro, or cut short.
        InvalidRows: it holds something else than records.
    """
    header = read_header(source, path=path)
    try:
        schema: Any = fastavro.parse_schema(exact_schema(header.schema))
    except Exception as error:
        # Avro has no error type of its own.
        raise InvalidRows(f"{path} has an invalid Avro schema: {error!r}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InvalidRows(f"{path} holds Avro values that are not records with columns")
    names = tuple(str(field["name"]) for field in schema["fields"])
    yield names, Records([], [], "row")
    calendar = avro_calendar(header.marks, as_paimon=False)
    # Decoded as one array of records, a block is one call.
    array: Any = fastavro.parse_schema({"type": "array", "items": schema})
    row = 0
    while head := read_block_head(source, path=path):
        data = read_block(source, head, header, path=path)
        records = _decoded(data, head.row_count, array, path)
        for start in range(0, len(records), _ROWS_AT_ONCE):
            part = records[start : start + _ROWS_AT_ONCE]
            first = row + start + 1
            numbers = list(range(first, first + len(part)))
            yield names, Records(part, numbers, "row", calendar=calendar)
        row += head.row_count


def typed_atom(data_type: AtomicType) -> ReadAtom | None:
    """A reader that takes no text for another type: values of Avro have types of their own."""
    if data_type.root.is_text:
        return None

    def read(value: object) -> object:
        if isinstance(value, str):
            raise ValueError(f"a text is none: {value[:_MOST_SHOWN]!r}; declare the column STRING")  # noqa: TRY004
        return value

    return read


def _decoded(data: bytes, count: int, array: Any, path: str) -> list[Mapping[str, object]]:
    if not count:
        return []
    framed = BytesIO(_varint(count) + data + b"\0")
    try:
        records: Any = fastavro.schemaless_reader(framed, array, None)
    except Exception as error:
        # A damaged block fails wherever it is damaged.
        raise InvalidRows(f"{path} cannot be read as Avro: {error!r}") from error
    if len(records) != count or framed.read(1):
        raise InvalidRows(f"{path}: a block does not hold the {count} rows that it says")
    return list(records)


def _varint(number: int) -> bytes:
    """A positive number as Avro writes it."""
    left, data = number << 1, bytearray()
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*data, left])
