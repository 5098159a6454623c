"""Candidates for orphans: those that no root keeps come back, and memory holds no path."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path

import pytest

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import UnavailableError
from lakewright.storage.operations.retention import orphan_candidates as module
from lakewright.storage.operations.retention.orphan_candidates import orphan_candidates

# No text of UTF-8, as a name on a disk may be.
ODD = "bucket-0/data-\udcff\n.parquet"


def of(path: str, size: int = 7) -> FileStatus:
    return FileStatus(path, size, 1_000 + size)


def test_what_no_root_keeps_comes_back_as_it_was_listed() -> None:
    with orphan_candidates() as candidates:
        for path in ("bucket-0/a", ODD, "bucket-1/b", "bucket-0/a", "bucket-1/away"):
            candidates.add(path, of(path, len(path)))
        candidates.keep(["bucket-1/b", "bucket-9/never-listed"])
        left = list(candidates.take(without_names={"away"}))
    # An inventory of all versions names a file several times.
    assert left == [of("bucket-0/a", 10), of(ODD, len(ODD)), of("bucket-0/a", 10)]


def test_memory_holds_a_number_for_each_file() -> None:
    count = 20_000
    tracemalloc.start()
    try:
        with orphan_candidates() as candidates:
            for number in range(count):
                path = f"day=2026-11-23/bucket-0/data-{number:036d}-0.parquet"
                candidates.add(path, of(path))
            candidates.keep(["bucket-1/b"])
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60 * count


def test_a_disk_without_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    way_out = "point TMPDIR at another disk"
    with pytest.raises(UnavailableError, match=way_out), orphan_candidates():
        pass


def test_a_disk_that_is_full_is_named_also_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TemporaryFile", Path("/dev/full").open)

    def listed() -> None:
        with orphan_candidates() as candidates:
            candidates.add("bucket-0/a", of("bucket-0/a"))
            list(candidates.take())

    with pytest.raises(UnavailableError, match=r"No space left.*point TMPDIR at another disk"):
        listed()
