"""Streams as JSON: their records in a property of snapshots, and the files that say their start.

Other clients of the format pass both over.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, replace

from lakewright.storage.codec.json_values import as_list, as_whole, read_object
from lakewright.storage.codec.sealed_json import decode_sealed, encode_sealed
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.stream import StreamRecord, StreamStart

# Of the files that say the start of a stream; up to 3 they were the records of batches.
_START_VERSION = 4
_VERSION = 1
# Positions of more characters are compressed. JSON does not begin like the mark.
_LONGEST, _ZIPPED = 1_000, "zlib:"


def encode_streams(streams: Mapping[str, StreamRecord]) -> str:
    """The property of a snapshot; without values that are the usual ones."""
    usual = asdict(StreamRecord(stream="", checkpoint="", batch=0, time_ms=0))
    records = [
        {
            name: value
            for name, value in asdict(replace(record, position=_packed(record.position))).items()
            if name in ("stream", "checkpoint", "batch", "time_ms") or value != usual[name]
        }
        for record in streams.values()
    ]
    return json.dumps({"version": _VERSION, "streams": records}, separators=(",", ":"))


def decode_streams(text: str, *, name: str) -> dict[str, StreamRecord]:
    """Read the property of a snapshot, whose file is `name`.

    Raises:
        UnsupportedError: a later version of lakewright wrote it.
        CorruptionError: it is no record of streams.
    """
    try:
        read = read_object(text)
        found = as_whole(read["version"])
        if found > _VERSION:
            raise UnsupportedError(
                f"{name} has streams of version {found}, and this release reads {_VERSION}; "
                "upgrade lakewright",
                path=name,
            )
        records = [value_of(StreamRecord, each) for each in as_list(read["streams"])]
        records = [replace(each, position=_unpacked(each.position)) for each in records]
    except (ValueError, KeyError, zlib.error) as error:
        raise CorruptionError(
            f"{name} does not say where the streams into the table stand: {error!r}", path=name
        ) from error
    return {record.stream: record for record in records}


def _packed(position: str | None) -> str | None:
    """A position that names many files is repeated with each commit, so it is made small."""
    if position is None or len(position) <= _LONGEST:
        return position
    return f"{_ZIPPED}{b64encode(zlib.compress(position.encode())).decode()}"


def _unpacked(position: str | None) -> str | None:
    if position is None or not position.startswith(_ZIPPED):
        return position
    return zlib.decompress(b64decode(position.removeprefix(_ZIPPED), validate=True)).decode()


def encode_start(start: StreamStart) -> bytes:
    """The file of a stream's start."""
    return encode_sealed(asdict(start), version=_START_VERSION, indent=1)


def decode_start(data: bytes, *, name: str) -> StreamStart:
    """Read the start of a stream.

    Raises:
        UnsupportedError: a later version of lakewright wrote the file.
        CorruptionError: the file is no start of a stream.
    """
    return decode_sealed(
        data,
        name,
        lambda read: value_of(StreamStart, read),
        version=_START_VERSION,
        since=2,
        told="does not say how a stream began: {}; delete it while no stream writes to the table, "
        "and the stream goes on where the snapshots say",
    )
