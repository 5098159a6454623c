"""Records of streams: the places of checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.storage.files.stream_store import place_of


def test_a_local_checkpoint_has_one_place_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    monkeypatch.chdir(tmp_path)
    place = str((tmp_path / "data" / "c").resolve())
    spelled = [
        *("data/c", "data/x/../c/", "link/c", place, f"file:{place}", f"file://{place}/"),
        str(tmp_path / "data" / "." / "c"),
    ]
    assert {place_of(each) for each in spelled} == {place}


def test_a_checkpoint_in_a_store_has_one_place_however_it_is_spelled() -> None:
    spelled = ["s3://b/c/d", "s3a://b/c/d/", "S3N://b//c/./x/../d"]
    assert {place_of(each) for each in spelled} == {"s3://b/c/d"}
    assert place_of("hdfs://name:8020/") == "hdfs://name:8020/"
    assert place_of("gs://b/c") != place_of("s3://b/c")
