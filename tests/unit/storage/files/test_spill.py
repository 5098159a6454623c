"""Spilled rows come back completely, and no file of them stays."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.storage.errors import UnavailableError
from lakewright.storage.files.spill import Spill


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("lakewright-*"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_every_heap_comes_back_in_the_order_it_was_filled() -> None:
    with Spill() as spill:
        for number in range(6):
            tags = pa.array([[str(number)] * number], pa.list_(pa.string()))
            spill.put(number % 2, pa.table({"n": [number], "tags": tags}))
        assert len(folders()) == 1
        first = spill.take(0)
        assert first is not None
        assert first.column("n").to_pylist() == [0, 2, 4]
        assert first.column("tags").to_pylist() == [[], ["2"] * 2, ["4"] * 4]
        assert (spill.take(0), spill.take(2)) == (None, None)
    assert folders() == set()


def test_nothing_stays_when_something_fails() -> None:
    def fill(spill: Spill) -> None:
        with spill:
            spill.put(0, pa.table({"n": [1]}))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fill(Spill())
    assert folders() == set()


@pytest.mark.parametrize("folder", [str(Path(tempfile.gettempdir()) / "gone"), None])
def test_a_disk_that_refuses_or_has_no_folder_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, folder: str | None
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])
    told = pytest.raises(UnavailableError, match="point TMPDIR at a disk with space")
    with Spill() as spill, told:
        spill.put(0, pa.table({"n": [1]}))


def test_many_heaps_keep_few_files_open_and_lose_no_row() -> None:
    open_files = Path("/proc/self/fd")
    before = len(list(open_files.iterdir()))
    with Spill() as spill:
        for number in range(3000):
            spill.put(number % 1000, pa.table({"n": [number]}))
        assert len(list(open_files.iterdir())) - before <= 64
        for heap in range(1000):
            pieces = [rows.column("n").to_pylist() for rows in spill.pieces(heap)]
            assert pieces == [[heap], [heap + 1000], [heap + 2000]]
        assert len(list(open_files.iterdir())) <= before
