"""Batches that wait and starts of streams: any damage is an error; older ones have no checksum."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from lakewright.storage.codec.commit_json import decode_staged, encode_staged
from lakewright.storage.codec.stream_json import decode_start, encode_start
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.commit import CommitMessage, StagedWrite, WriteMode
from lakewright.storage.spec.stream import StreamStart
from tests.unit.storage.codec.test_manifest_blocks import entry
from tests.unit.storage.codec.test_staged_change_json import damages, resealed

pytestmark = pytest.mark.mission("PT54")

BATCH = StagedWrite(
    table="db.t",
    write_id="0a1b",
    mode=WriteMode.APPEND,
    schema_id=0,
    base_snapshot_id=None,
    base_commit=None,
    commit_user="job",
    commit_identifier=7,
    messages=(
        CommitMessage(
            partition=b"\x00\x02",
            bucket=1,
            total_buckets=2,
            new_files=(entry(1).file, entry(2).file),
        ),
    ),
    partitions=(),
)
STREAM = StreamStart(stream="s", checkpoint="/c", base_id=12, source="files", beginning="{}")
KINDS: dict[str, tuple[object, bytes, Callable[[bytes], object]]] = {
    "batch": (BATCH, encode_staged(BATCH), lambda data: decode_staged(data, name="r")),
    "stream": (STREAM, encode_start(STREAM), lambda data: decode_start(data, name="r")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_damaged_is_told_or_is_the_same(kind: str) -> None:
    value, data, decode = KINDS[kind]
    assert decode(data) == value
    for damaged in damages(data):
        try:
            read = decode(damaged)
        except CorruptionError as error:
            assert error.message.startswith(("r is not ", "r does not ")), damaged  # noqa: PT017
            assert "delete it" in error.message  # noqa: PT017
        else:
            assert read == value, damaged


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_before_there_were_checksums_is_read(kind: str) -> None:
    value, data, decode = KINDS[kind]
    old = {**json.loads(data), "version": 1}
    with pytest.raises(CorruptionError, match="its checksum is"):
        decode(json.dumps(old).encode())
    del old["crc32"]
    assert decode(json.dumps(old).encode()) == value
    with pytest.raises(CorruptionError, match="crc32"):
        decode(json.dumps({**old, "version": 2}).encode())
    with pytest.raises(UnsupportedError, match="upgrade"):
        decode(resealed(data, version=9))
