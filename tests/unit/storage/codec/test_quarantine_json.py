"""Manifests of quarantines: round trips, and errors for other files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakewright.storage.codec.quarantine_json import decode_quarantine, encode_quarantine
from lakewright.storage.errors import UnreadableManifest, UnsupportedError
from lakewright.storage.spec.quarantine import QuarantinedFile, QuarantineManifest

MANIFEST = QuarantineManifest(
    table="db.t",
    created_ms=1_704_067_200_000,
    reason="remove-orphans",
    files=(
        QuarantinedFile(
            path="day=ä/bucket-0/data-1", size_bytes=4, modified_ms=1, crc32=0x0000ABCD
        ),
        QuarantinedFile(path="manifest/manifest-1", size_bytes=0, modified_ms=0),
    ),
)
FILE = {"path": "manifest/x", "size_bytes": 1, "modified_ms": 1, "crc32": "0000abcd"}


def test_a_manifest_is_read_as_it_was_written() -> None:
    data = encode_quarantine(MANIFEST)
    assert decode_quarantine(data, name="m") == MANIFEST
    first = json.loads(data)["files"][0]
    assert (first["crc32"], first["path"]) == ("0000abcd", "day=ä/bucket-0/data-1")


@pytest.mark.parametrize("length", range(0, len(encode_quarantine(MANIFEST)), 7))
def test_a_manifest_that_is_cut_short_is_unreadable(length: int) -> None:
    with pytest.raises(UnreadableManifest, match="m cannot be read"):
        decode_quarantine(encode_quarantine(MANIFEST)[:length], name="m")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"path": "../other/data"}, "not a place below the table"),
        ({"path": "/etc/passwd"}, "not a place below the table"),
        ({"path": "a//b"}, "not a place below the table"),
        ({"path": 1}, "is not text"),
        ({"size_bytes": -1}, "is not a whole number"),
        ({"size_bytes": True}, "is not a whole number"),
        ({"modified_ms": 1.5}, "is not a whole number"),
        ({"crc32": "abcd"}, "is not a CRC-32"),
        ({"crc32": 43981}, "is not text"),
    ],
)
def test_a_file_that_cannot_be_is_told(change: dict[str, Any], match: str) -> None:
    data = json.loads(encode_quarantine(MANIFEST)) | {"files": [FILE | change]}
    with pytest.raises(UnreadableManifest, match=match):
        decode_quarantine(json.dumps(data).encode(), name="m")


def test_a_later_version_asks_for_a_later_release() -> None:
    data = json.loads(encode_quarantine(MANIFEST)) | {"version": 2}
    with pytest.raises(UnsupportedError, match="m is of version 2"):
        decode_quarantine(json.dumps(data).encode(), name="m")
