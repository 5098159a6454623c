"""Where streams stand, as a property of snapshots."""

from __future__ import annotations

import json

import pytest

from lakewright.storage.codec.stream_json import decode_streams, encode_streams
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.stream import StreamRecord


def of_files(count: int) -> StreamRecord:
    files = [f"part-{number:05}-c000.json" for number in range(count)]
    return StreamRecord(
        stream="q1",
        checkpoint="/place",
        batch=7,
        time_ms=12,
        position=json.dumps({"files": files}),
        watermark=3,
        waiting=("day=b",),
        done=("day=a",),
    )


@pytest.mark.parametrize("count", [0, 1, 30, 10_000])
def test_a_property_gives_the_streams_again_and_stays_small(count: int) -> None:
    streams = {
        "q1": of_files(count),
        "q2": StreamRecord(stream="q2", checkpoint="/", batch=0, time_ms=1),
    }
    text = encode_streams(streams)
    assert decode_streams(text, name="snapshot-1") == streams
    assert len(text) < 1_000 + 8 * count


def test_what_is_no_record_of_streams_is_named() -> None:
    text = encode_streams({"q1": of_files(100)})
    wrong = [text[:-2], "[]", "{}", text.replace("zlib:", "zlib:!"), text.replace("batch", "bat")]
    for each in wrong:
        with pytest.raises(CorruptionError, match="snapshot-1 does not say where the streams"):
            decode_streams(each, name="snapshot-1")
    with pytest.raises(UnsupportedError, match=r"streams of version 9, .* upgrade"):
        decode_streams(text.replace('"version":1', '"version":9'), name="snapshot-1")
