"""Stores of folders and files at an address: connections, and outcomes of renames."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage.errors import FileMissing, UnavailableError
from lakewright.storage.files.clients import client_at, forget_clients
from lakewright.storage.files.locks import SqliteLock
from lakewright.storage.files.renaming_files import RenamingFiles
from tests.support.tables.environment import FixedEnv


class Shaky(MemoryFileSystem):
    """A store that counts clients, with planned failures and concurrent deletions."""

    protocol = "shaky"
    cachable = False
    store: dict[str, object] = {}  # noqa: RUF012 - as in the class above
    pseudo_dirs = [""]  # noqa: RUF012 - as in the class above
    dead: bool = False
    taken_elsewhere: bool = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.replace("shaky://", "memory://"))
        return stripped

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        if self.dead:
            raise ConnectionResetError("broken")
        found: dict[str, Any] = super().info(path, **options)
        return found

    def mv(self, path1: str, path2: str, **options: object) -> None:
        data = self.store.pop(path1)
        if Shaky.taken_elsewhere:
            self.store["/elsewhere"] = data
            raise FileNotFoundError(path1)
        self.store[path2] = data


fsspec.register_implementation("shaky", Shaky, clobber=True)


@pytest.fixture
def fs(tmp_path: Path) -> Iterator[RenamingFiles]:
    forget_clients()
    Shaky.store.clear()
    Shaky.pseudo_dirs[:] = [""]
    yield RenamingFiles(
        FixedEnv(), SqliteLock(str(tmp_path / "lock")), protocol="shaky", address="node"
    )
    Shaky.taken_elsewhere = False
    forget_clients()


def break_connection() -> None:
    client_at("shaky", "node").dead = True


def test_a_connection_that_broke_is_made_anew(fs: RenamingFiles) -> None:
    fs.write_bytes("/w/x", b"1")
    break_connection()
    with pytest.raises(UnavailableError):
        fs.exists("/w/x")
    assert fs.exists("/w/x")


def test_a_connection_ends_with_its_thread(fs: RenamingFiles) -> None:
    fs.write_bytes("/w/x", b"1")
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(lambda: weakref.ref(fs.fs)).result()
    gc.collect()
    assert theirs() is None


def test_a_folder_is_not_said_to_be_deleted_by_a_store_that_does_not_answer(
    fs: RenamingFiles,
) -> None:
    fs.write_bytes("/w/t/x", b"1")
    break_connection()
    with pytest.raises(UnavailableError):
        fs.delete_tree("/w/t")
    assert fs.exists("/w/t/x")
    fs.delete_tree("/w/t")
    assert not fs.exists("/w/t/x")


def test_of_two_who_move_a_file_the_second_is_told_that_it_is_gone(fs: RenamingFiles) -> None:
    fs.write_bytes("/w/x", b"1")
    Shaky.taken_elsewhere = True
    with pytest.raises(FileMissing):
        fs.move_if_absent("/w/x", "/w/y")
    assert not fs.exists("/w/y")
