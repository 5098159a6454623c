"""Avro container files of records, the form of every kind of manifest.

Readers of the format find fields by name, so the field names are the contract and the
record names are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, Generic, TypeVar

import fastavro

from lakewright.storage.codec.avro_container import read_block, read_block_head, read_header
from lakewright.storage.errors import (
    CorruptionError,
    UnreadableManifest,
    UnsupportedError,
)

Record = dict[str, Any]
Noun = TypeVar("Noun")

# Files of so few records are not worth remembering, and would displace those that are.
_FEW = 8

NAMESPACE = "org.apache.paimon.avro.generated"


def nullable(inner: object) -> list[object]:
    """The type of a field that may be null."""
    return ["null", inner]


def record_fields(required: dict[str, object], optional: dict[str, object]) -> list[Record]:
    """Fields of a record; the optional ones are null where a writer leaves them out."""
    return [{"name": name, "type": kind} for name, kind in required.items()] + [
        {"name": name, "type": nullable(kind), "default": None} for name, kind in optional.items()
    ]


def check_types(
    record: Record, required: Mapping[str, type], optional: Mapping[str, type] | None = None
) -> None:
    """Check the types of a record's fields, which the writer's schema may declare differently.

    Raises:
        ValueError: a field is of another type; only optional fields may be null or missing.
    """
    for name, kind in required.items():
        if not isinstance(record[name], kind):
            raise _OtherType(f"{name} is {record[name]!r}, which is not of type {kind.__name__}")
    for name, kind in (optional or {}).items():
        value = record.get(name)
        if value is not None and not isinstance(value, kind):
            raise _OtherType(f"{name} is {value!r}, which is not of type {kind.__name__}")


class _OtherType(ValueError):
    """A field is of another type than the format says."""


def encode_records(schema: Any, records: Iterable[Record], compression: str) -> bytes:
    """A container file of the records, in order."""
    buffer = BytesIO()
    fastavro.writer(buffer, schema, records, codec=compression)
    return buffer.getvalue()


def decode_records(
    data: bytes, decode: Callable[[Record], Noun], *, version: int, name: str
) -> Iterator[Noun]:
    """Decode the records of a container file, in order; error messages call the file `name`.

    Raises:
        UnreadableManifest: the file is not an Avro file, ends too early, or holds other records.
        UnsupportedError: the file has another version, or needs a feature that is not implemented.
    """
    try:
        for record in fastavro.reader(BytesIO(data)):
            yield _decoded(record, decode, version, name)
    except (UnsupportedError, CorruptionError):
        raise
    except Exception as error:
        # Avro has no error type of its own: a damaged file fails wherever it is damaged.
        raise UnreadableManifest(f"{name} cannot be read as Avro: {error!r}") from error


def _decoded(record: object, decode: Callable[[Record], Noun], version: int, name: str) -> Noun:
    if not isinstance(record, dict):
        raise _OtherType("it holds no records")
    if record["_VERSION"] != version:
        raise UnsupportedError(
            f"{name} is of version {record['_VERSION']}, and this release reads "
            f"{version}; upgrade lakewright"
        )
    return decode(record)


@dataclass(frozen=True, slots=True)
class _Decoded(Generic[Noun]):
    """A file: its schema, as it is written and as fastavro wants it, and its records."""

    schema: Any
    parsed: Any
    encoded: bytes
    records: tuple[Noun, ...]


class SimilarRecords(Generic[Noun]):
    """Decodes container files one after the other, each of which may begin as the last one did.

    What a file repeats is not decoded again: its records are the same objects.
    """

    def __init__(self, decode: Callable[[Record], Noun], version: int) -> None:
        self._decode, self._version = decode, version
        self._last: _Decoded[Noun] = _Decoded(None, None, b"", ())

    def decode(self, data: bytes, *, name: str) -> tuple[Noun, ...]:
        """The records of a file, in order; raises as `decode_records`."""
        try:
            found = self._after_the_last(data, name)
        except Exception:  # noqa: BLE001 - the other decoder tells what is wrong with the file
            return tuple(decode_records(data, self._decode, version=self._version, name=name))
        return found

    def _after_the_last(self, data: bytes, name: str) -> tuple[Noun, ...]:
        source = BytesIO(data)
        header = read_header(source, path=name)
        blocks, count = [], 0
        while (head := read_block_head(source, path=name)) is not None:
            blocks.append(read_block(source, head, header, path=name))
            count += head.row_count
        encoded, last = b"".join(blocks), self._last
        if last.schema != header.schema:
            last = _Decoded(header.schema, fastavro.parse_schema(header.schema), b"", ())
        elif not encoded.startswith(last.encoded) or len(last.records) > count:
            last = replace(last, encoded=b"", records=())
        rest = BytesIO(encoded)
        rest.seek(len(last.encoded))
        more = (
            fastavro.schemaless_reader(rest, last.parsed, None)
            for _ in range(count - len(last.records))
        )
        found = (
            *last.records,
            *(_decoded(each, self._decode, self._version, name) for each in more),
        )
        if rest.tell() != len(encoded):
            raise _OtherType("a block does not end with its last record")
        if count > _FEW:
            self._last = replace(last, encoded=encoded, records=found)
        return found
