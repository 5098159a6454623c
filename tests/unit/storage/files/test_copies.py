"""Copies that a store makes itself: under a new name, young, and as long as their source."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from lakewright.storage.errors import AlreadyExistsError, FileMissing, UnavailableError
from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.files.memory_files import MemoryFiles


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    os.utime(path, (1, 1))
    return str(path)


def test_a_copy_on_a_local_disk_is_a_second_name_and_young(source: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "copy"
    assert LocalFiles().copy(source, str(target)) == 5
    assert target.samefile(source)
    # The removal of orphans takes what is old and named by no snapshot yet.
    assert target.stat().st_mtime > 1


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_where_a_file_cannot_have_two_names_its_bytes_are_copied(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refused)
    target = tmp_path / "new" / "copy"
    assert LocalFiles().copy(source, str(target)) == 5
    assert target.read_bytes() == b"12345"
    assert not target.samefile(source)


def test_a_full_disk_is_told_and_nothing_is_copied(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(UnavailableError, match="disk is full"):
        LocalFiles().copy(source, str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


def test_a_copy_replaces_no_file_and_needs_a_source(source: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(AlreadyExistsError, match="taken exists"):
        LocalFiles().copy(source, str(tmp_path / "taken"))
    with pytest.raises(FileMissing):
        LocalFiles().copy(f"{source}-gone", str(tmp_path / "copy"))


def test_a_store_that_copies_nothing_itself_has_the_bytes_copied() -> None:
    fs = MemoryFiles()
    fs.write_bytes("/copies/source", b"12345")
    assert fs.copy("/copies/source", "/copies/target") == 5
    assert fs.read_bytes("/copies/target") == b"12345"
