"""Streams as JSON: their records in a property of snapshots, and the files that say their start.

Other clients of the format pass both over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from lakewright.storage.codec.json_values import as_list, as_whole, read_object
from lakewright.storage.codec.sealed_json import decode_sealed, encode_sealed
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.stream import StreamRecord, StreamStart

# Of the files that say the start of a stream; up to 3 they were the records of batches.
_START_VERSION = 4
_VERSION = 1


def encode_streams(streams: Mapping[str, StreamRecord]) -> str:
    """The property of a snapshot; without values that are the usual ones."""
    usual = asdict(StreamRecord(stream="", checkpoint="", batch=0, time_ms=0))
    told = [
        {
            name: value
            for name, value in asdict(record).items()
            if name in ("stream", "checkpoint", "batch", "time_ms") or value != usual[name]
        }
        for record in streams.values()
    ]
    return json.dumps({"version": _VERSION, "streams": told}, separators=(",", ":"))


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
    except (ValueError, KeyError) as error:
        raise CorruptionError(
            f"{name} does not say where the streams into the table stand: {error!r}", path=name
        ) from error
    return {record.stream: record for record in records}


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
