"""Records of streams: JSON ↔ `StreamRecord`. No other client of the format reads these files."""

from __future__ import annotations

import json
from dataclasses import asdict

from lakewright.storage.codec.json_values import as_whole, read_object
from lakewright.storage.codec.sealed_json import sealed, unsealed
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.stream import StreamRecord

# Records of version 1 had no checksum, and those of version 2 no position.
_VERSION = 3


def encode_record(record: StreamRecord) -> bytes:
    """The file of a record."""
    return json.dumps(sealed({"version": _VERSION, **asdict(record)}), indent=1).encode()


def decode_record(data: bytes, *, name: str) -> StreamRecord:
    """Read a record.

    Raises:
        UnsupportedError: a later version of lakewright wrote the file.
        CorruptionError: the file is no record of a stream.
    """
    try:
        read = unsealed(read_object(data), since=2)
        version = as_whole(read.pop("version"))
        if version > _VERSION:
            raise UnsupportedError(
                f"{name} is of version {version}, and this release reads {_VERSION}; "
                "upgrade lakewright"
            )
        return value_of(StreamRecord, read)
    except (ValueError, KeyError) as error:
        raise CorruptionError(
            f"{name} is not the record of a stream: {error!r}; delete it while no stream writes to "
            "the table, and a batch that the stream repeats is found by its snapshot alone",
            path=name,
        ) from error
