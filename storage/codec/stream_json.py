"""Records of streams: JSON ↔ `StreamRecord`. No other client of the format reads these files."""

from __future__ import annotations

from dataclasses import asdict

from lakewright.storage.codec.sealed_json import decode_sealed, encode_sealed
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.spec.stream import StreamRecord

# Records of version 1 had no checksum, and those of version 2 no position.
_VERSION = 3


def encode_record(record: StreamRecord) -> bytes:
    """The file of a record."""
    return encode_sealed(asdict(record), version=_VERSION, indent=1)


def decode_record(data: bytes, *, name: str) -> StreamRecord:
    """Read a record.

    Raises:
        UnsupportedError: a later version of lakewright wrote the file.
        CorruptionError: the file is no record of a stream.
    """
    return decode_sealed(
        data,
        name,
        lambda read: value_of(StreamRecord, read),
        version=_VERSION,
        since=2,
        told="is not the record of a stream: {}; delete it while no stream writes to the table, "
        "and a batch that the stream repeats is found by its snapshot alone",
    )
