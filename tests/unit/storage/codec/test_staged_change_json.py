"""Records of staged changes: round trips, and one error for any other bytes."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakewright.storage.codec.staged_change_json import (
    decode_change,
    decode_partitions,
    encode_change,
    encode_partitions,
)
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.index import IndexFileMeta
from lakewright.storage.spec.staged_change import StagedChange, StagedPartition
from tests.unit.storage.codec.test_manifest_blocks import entry

pytestmark = pytest.mark.mission("PT50")

CHANGE = StagedChange(
    id="0a1b", schema_id=3, schema="ff00", keys=("dt", "hh"), primary_key=("dt", "hh", "id")
)
PARTITIONS = (
    StagedPartition(
        partition=b"\x00\x01",
        base="ab12",
        verify="checksums",
        messages=(
            CommitMessage(
                partition=b"\x00\x02",
                bucket=1,
                total_buckets=2,
                new_files=(entry(1).file, entry(2).file),
                new_indexes=(
                    IndexFileMeta(index_type="HASH", file_name="index-1", file_size=4, row_count=1),
                ),
            ),
        ),
        bucket_counts={b"\x00\x02": 2},
        nulled_values=7,
    ),
)
RECORDS: dict[str, tuple[object, bytes, Callable[[bytes], object]]] = {
    "change": (CHANGE, encode_change(CHANGE), lambda data: decode_change(data, name="r")),
    "partitions": (
        PARTITIONS,
        encode_partitions(PARTITIONS),
        lambda data: decode_partitions(data, name="r"),
    ),
}
BINARY = bytes(range(256))


def damages(data: bytes) -> Iterator[bytes]:
    """Each truncation, and bytes that were changed, lost, doubled or put elsewhere."""
    yield from (data[:length] for length in range(len(data)))
    yield from (BINARY, b"null", b"[]", b"{}", b'"x"', b"[" * 100_000, data + data)
    choice = random.Random(68)
    for _ in range(500):
        at, size = choice.randrange(len(data)), choice.randrange(1, 9)
        other = choice.randbytes(size)
        yield choice.choice(
            (
                data[:at] + bytes([data[at] ^ (1 << choice.randrange(8))]) + data[at + 1 :],
                data[:at] + other + data[at + size :],
                data[:at] + data[at + size :],
                data[:at] + data[at : at + size] + data[at:],
                data[at:] + data[:at],
            )
        )


def resealed(data: bytes, **changes: Any) -> bytes:
    """The record with other values, under their checksum."""
    read = {**json.loads(data), **changes}
    del read["crc32"]
    crc32 = f"{zlib.crc32(json.dumps(read).encode()):08x}"
    return json.dumps({**read, "crc32": crc32}).encode()


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_is_read_as_it_was_written(kind: str) -> None:
    value, data, decode = RECORDS[kind]
    assert decode(data) == value
    assert decode(resealed(data)) == value


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_with_any_damage_is_told_or_is_the_same(kind: str) -> None:
    value, data, decode = RECORDS[kind]
    told = 0
    for damaged in damages(data):
        try:
            read = decode(damaged)
        except CorruptionError as error:
            told += error.message.startswith("r is no record of a staged change")
            told += error.details["path"] == "r"
        else:
            assert read == value, damaged
            told += 2
    assert told == 2 * len([*damages(data)])


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_of_a_later_release_is_told_from_a_damaged_version(kind: str) -> None:
    _, data, decode = RECORDS[kind]
    with pytest.raises(UnsupportedError, match=r"r is of version 9, .*; upgrade lakewright"):
        decode(resealed(data, version=9))
    with pytest.raises(CorruptionError, match="its checksum is"):
        decode(data.replace(b'"version": 2', b'"version": 9'))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("change", {"keys": "dt"}),
        ("change", {"keys": [1]}),
        ("change", {"schema_id": "3"}),
        ("change", {"schema_id": True}),
        ("change", {"schema": None}),
        ("change", {"more": 1}),
        ("change", {"version": None}),
        ("partitions", {"partitions": {}}),
        ("partitions", {"partitions": [1]}),
        ("partitions", {"partitions": [{}]}),
    ],
)
def test_values_of_other_types_are_told(kind: str, changes: dict[str, Any]) -> None:
    _, data, decode = RECORDS[kind]
    with pytest.raises(CorruptionError, match=r"^r is no record"):
        decode(resealed(data, **changes))


OF_A_PARTITION: list[dict[str, Any]] = [
    {"partition": "xy"},
    {"partition": 1},
    {"base": 1},
    {"verify": None},
    {"messages": None},
    {"messages": [1]},
    {"messages": [{}]},
    {"bucket_counts": []},
    {"bucket_counts": {"0": 1}},
    {"bucket_counts": {"00": "1"}},
    {"nulled_values": 1.5},
]
# An index outside of the folder.
OF_AN_INDEX = [
    *({"file_name": each} for each in ("../index", "/etc/passwd", "a/b", "", "..")),
    {"external_path": "file:///etc/passwd"},
]


@pytest.mark.parametrize("changes", [*OF_A_PARTITION, *OF_AN_INDEX])
def test_partitions_that_cannot_be_are_told(changes: dict[str, Any]) -> None:
    _, data, decode = RECORDS["partitions"]
    (partition,) = json.loads(data)["partitions"]
    changed = partition if changes in OF_A_PARTITION else partition["messages"][0]["new_indexes"][0]
    changed |= changes
    with pytest.raises(CorruptionError, match=r"^r is no record"):
        decode(resealed(data, partitions=[partition]))
