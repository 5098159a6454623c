"""Writes to a local disk beside a process that removes empty folders."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lakewright.storage.errors import FileMissing
from lakewright.storage.files.local_files import LocalFiles

WRITES: dict[str, Callable[[LocalFiles, str], object]] = {
    "write": lambda fs, path: fs.write_bytes(path, b"1"),
    "put": lambda fs, path: fs.put_if_absent(path, b"1"),
    "replace": lambda fs, path: fs.replace(path, b"1"),
    "move": lambda fs, path: fs.move_if_absent(_source(fs, path), path),
    "copy": lambda fs, path: fs.copy(_source(fs, path), path),
}


def _source(fs: LocalFiles, path: str) -> str:
    source = f"{path.rsplit('/', 3)[0]}/source"
    fs.write_bytes(source, b"1")
    return source


@pytest.mark.mission("FS10")
@pytest.mark.parametrize("how", list(WRITES))
def test_no_write_fails_because_upkeep_removes_the_empty_folder_it_goes_to(
    how: str, tmp_path: Path
) -> None:
    fs, folder = LocalFiles(), tmp_path / "day=a" / "bucket-0"
    stop = threading.Event()

    def remove_empty_folders() -> None:
        # Not so often that a slow machine writes nothing between two of them.
        while not stop.wait(0.001):
            for each in (folder, folder.parent):
                with suppress(OSError):
                    each.rmdir()

    remover = threading.Thread(target=remove_empty_folders)
    remover.start()
    try:
        for _ in range(30):
            WRITES[how](fs, f"{folder}/file")
            assert fs.read_bytes(f"{folder}/file") == b"1"
            assert fs.delete(f"{folder}/file")
    finally:
        stop.set()
        remover.join()


def test_what_is_missing_is_not_made_up_for_by_trying_again(tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        LocalFiles().move_if_absent(f"{tmp_path}/nowhere", f"{tmp_path}/a/b")
