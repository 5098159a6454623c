"""Rows put aside on disk come back whole, and nothing of them stays there."""

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
    with Spill(3) as spill:
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
        fill(Spill(1))
    assert folders() == set()


def test_a_disk_that_refuses_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with Spill(1) as spill:
        (folder,) = folders()
        folder.rmdir()
        with pytest.raises(UnavailableError, match="point TMPDIR at a disk that has some"):
            spill.put(0, pa.table({"n": [1]}))
        folder.mkdir()
