"""Avro container files of records: what manifests of every kind are made of.

Readers of the format find fields by name, so the field names are the contract and the
record names are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

import fastavro

from lakewright.storage.errors import CorruptionError, UnsupportedError

Record = dict[str, Any]

NAMESPACE = "org.apache.paimon.avro.generated"


def nullable(inner: object) -> list[object]:
    """The type of a field that may be null."""
    return ["null", inner]


def record_fields(required: dict[str, object], optional: dict[str, object]) -> list[Record]:
    """Fields of a record; the optional ones are null where a writer leaves them out."""
    return [{"name": name, "type": kind} for name, kind in required.items()] + [
        {"name": name, "type": nullable(kind), "default": None} for name, kind in optional.items()
    ]


def encode_records(schema: Any, records: Iterable[Record], compression: str) -> bytes:
    """A container file of the records, in order."""
    buffer = BytesIO()
    fastavro.writer(buffer, schema, records, codec=compression)
    return buffer.getvalue()


def read_records(data: bytes, name: str) -> Iterator[Record]:
    """Records of a container file, in order.

    Raises:
        CorruptionError: it is none, or ends too early; the message has `name`.
    """
    try:
        for record in fastavro.reader(BytesIO(data)):
            assert isinstance(record, dict)
            yield record
    except (UnsupportedError, CorruptionError):
        raise
    except Exception as error:
        # Avro has no error type of its own: a damaged file fails wherever it is damaged.
        raise CorruptionError(f"{name} cannot be read as Avro: {error!r}") from error
