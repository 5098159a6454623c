"""Records of what is condemned, and lists of names: round trips, and errors for other files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakewright.storage.codec.condemned_json import (
    decode_condemned,
    decode_names,
    encode_condemned,
    encode_names,
)
from lakewright.storage.codec.sealed_json import sealed
from lakewright.storage.errors import CorruptionError, UnsupportedError
from lakewright.storage.spec.condemned import Condemned, CondemnedFile, HeldFile

RECORD = Condemned(
    verb="expire_snapshots",
    run="lakewright expire-snapshots (0a1b2c3d)",
    branch="",
    grace_ms=3_600_000,
    roots=(HeldFile("snapshot/snapshot-1", b'{"id": 1, "v": "\xc3\xa4"}'),),
    pins=(HeldFile("snapshot/snapshot-2", b"\xff\x00damaged"),),
    files=2,
    bytes=5,
    done=True,
)
NAMES = (CondemnedFile("day=ä/bucket-0/data-1", 4), CondemnedFile("manifest/manifest-1", 1))


def test_a_record_and_its_names_are_read_as_they_were_written() -> None:
    assert decode_condemned(encode_condemned(RECORD), name="r") == RECORD
    assert decode_names(encode_names(NAMES), name="n") == NAMES


@pytest.mark.parametrize("length", range(0, len(encode_condemned(RECORD)), 9))
def test_a_record_that_is_cut_short_names_nothing(length: int) -> None:
    with pytest.raises(CorruptionError, match="r does not say what is marked for deletion"):
        decode_condemned(encode_condemned(RECORD)[:length], name="r")


@pytest.mark.parametrize("path", ["../other/data", "/etc/passwd", "a//b", 1, None])
def test_a_name_that_leads_elsewhere_is_told(path: Any) -> None:
    data = json.dumps(sealed({"version": 1, "files": [[path, 1]]})).encode()
    with pytest.raises(CorruptionError, match="n does not say"):
        decode_names(data, name="n")


@pytest.mark.parametrize("size", [-1, True, "1", 2**63])
def test_a_size_that_cannot_be_is_told(size: Any) -> None:
    data = json.dumps(sealed({"version": 1, "files": [["a", size]]})).encode()
    with pytest.raises(CorruptionError, match="n does not say"):
        decode_names(data, name="n")


def test_a_changed_record_and_a_later_version_are_refused() -> None:
    changed = encode_condemned(RECORD).replace(b"3600000", b"0000000")
    with pytest.raises(CorruptionError, match="checksum"):
        decode_condemned(changed.replace(b"0000000", b"1"), name="r")
    later = json.dumps(sealed({"version": 2, "files": []})).encode()
    with pytest.raises(UnsupportedError, match="upgrade lakewright"):
        decode_names(later, name="n")
