"""Records of a staged change of partition keys: JSON ↔ values. No other client reads them.

Each is sealed: what a damaged record names would be published as rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

from lakewright.storage.codec.commit_json import decode_message, encode_message
from lakewright.storage.codec.json_values import (
    as_list,
    as_object,
    as_text,
    as_whole,
)
from lakewright.storage.codec.sealed_json import decode_sealed, encode_sealed
from lakewright.storage.codec.typed_json import value_of
from lakewright.storage.spec.staged_change import StagedChange, StagedPartition

_VERSION = 2
_T = TypeVar("_T")


def encode_change(change: StagedChange) -> bytes:
    """The file of a change."""
    return _encoded(asdict(change))


def decode_change(data: bytes, *, name: str) -> StagedChange:
    """Read the file of a change.

    Raises:
        UnsupportedError: a later version of lakewright wrote the file.
        CorruptionError: the file is another.
    """
    return _decoded(data, name, lambda read: value_of(StagedChange, read))


def encode_partitions(partitions: Iterable[StagedPartition]) -> bytes:
    """The file of some staged partitions."""
    told = [
        {
            "partition": partition.partition.hex(),
            "base": partition.base,
            "verify": partition.verify,
            "messages": [json.loads(encode_message(message)) for message in partition.messages],
            "bucket_counts": {row.hex(): count for row, count in partition.bucket_counts.items()},
            "nulled_values": partition.nulled_values,
        }
        for partition in partitions
    ]
    return _encoded({"partitions": told})


def decode_partitions(data: bytes, *, name: str) -> tuple[StagedPartition, ...]:
    """Read the file of some staged partitions.

    Raises:
        UnsupportedError: a later version of lakewright wrote the file.
        CorruptionError: the file is another.
    """

    def decode(read: dict[str, Any]) -> tuple[StagedPartition, ...]:
        return tuple(_partition(as_object(each)) for each in as_list(read["partitions"]))

    return _decoded(data, name, decode)


def _partition(data: dict[str, Any]) -> StagedPartition:
    counts = as_object(data["bucket_counts"]).items()
    messages = tuple(decode_message(json.dumps(each)) for each in as_list(data["messages"]))
    for message in messages:
        places = [written_file.external_path for written_file in message.written_files]
        places += [new_index.external_path for new_index in message.new_indexes]
        if any(place is not None for place in places):
            raise ValueError("a staged file lies outside of the table")
    return StagedPartition(
        partition=bytes.fromhex(as_text(data["partition"])),
        base=as_text(data["base"]),
        verify=as_text(data["verify"]),
        messages=messages,
        bucket_counts={bytes.fromhex(row): as_whole(count) for row, count in counts},
        nulled_values=as_whole(data["nulled_values"]),
    )


def _encoded(values: dict[str, Any]) -> bytes:
    return encode_sealed(values, version=_VERSION)


def _decoded(data: bytes, name: str, decode: Callable[[dict[str, Any]], _T]) -> _T:
    told = "is no record of a staged change of partition keys: {}"
    # Each release that wrote records sealed them.
    return decode_sealed(data, name, decode, version=_VERSION, since=0, told=told)
