"""Avro container files of records, the form of every kind of manifest.

Readers of the format find fields by name, so the field names are the contract and the
record names are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any, TypeVar

import fastavro

from lakewright.storage.errors import CorruptionError, UnreadableManifest, UnsupportedError

Record = dict[str, Any]
Noun = TypeVar("Noun")

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
            if not isinstance(record, dict):
                raise _OtherType("it holds no records")
            if record["_VERSION"] != version:
                raise UnsupportedError(
                    f"{name} is of version {record['_VERSION']}, and this release reads "
                    f"{version}; upgrade lakewright"
                )
            yield decode(record)
    except (UnsupportedError, CorruptionError):
        raise
    except Exception as error:
        # Avro has no error type of its own: a damaged file fails wherever it is damaged.
        raise UnreadableManifest(f"{name} cannot be read as Avro: {error!r}") from error
