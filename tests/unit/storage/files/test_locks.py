"""Locks, and stores that need one: without a conditional create or a lock, writing is refused."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError, UnavailableError, UnsafeStore
from lakewright.storage.files.clients import forget_clients
from lakewright.storage.files.file_systems import open_file_system
from lakewright.storage.files.locks import PostgresLock, SqliteLock, open_lock
from lakewright.storage.files.renaming_files import RenamingFiles
from tests.support.stores.contract import *  # noqa: F403 - every test of the contract, by name
from tests.support.stores.contract import Store
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_sound


class PlainFileSystem(MemoryFileSystem):
    """An fsspec store that can do nothing special, as others publish them."""

    protocol = "plain"
    store: dict[str, object] = {}  # noqa: RUF012 - as in the class above
    pseudo_dirs = [""]  # noqa: RUF012 - as in the class above

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.replace("plain://", "memory://"))
        return stripped

    def mv(self, path1: str, path2: str, **options: object) -> None:
        # A rename in one step, over what is there.
        self.store[path2] = self.store.pop(path1)


fsspec.register_implementation("plain", PlainFileSystem, clobber=True)


@pytest.fixture
def lock_url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/lock"


@pytest.fixture
def store(lock_url: str) -> Iterator[Store]:
    forget_clients()
    PlainFileSystem.store.clear()
    PlainFileSystem.pseudo_dirs[:] = [""]
    yield open_file_system("plain:///w", lock=lock_url)
    PlainFileSystem.store.clear()


def test_a_table_on_a_plain_store_is_safe_under_a_lock(store: Store, lock_url: str) -> None:
    table = new_table(Catalog.open("plain:///w", lock=lock_url), EVENTS, keys=["id"])
    for first in (0, 5):
        table.write(rows(table, events(first, first + 10)))
    assert sorted(table.read().column("id").to_pylist()) == list(range(15))
    assert_sound(table)


@pytest.mark.mission("FS10")
def test_a_plain_store_without_a_lock_can_be_read_and_not_be_written(
    store: Store, lock_url: str
) -> None:
    table = new_table(Catalog.open("plain:///w", lock=lock_url), EVENTS)
    table.write(rows(table, events(0, 3)))
    unsafe = Catalog.open("plain:///w").table("db.t")
    assert unsafe.read().num_rows == 3
    before = sorted(each.path for each in unsafe.table_files.fs.list_tree("/w"))
    with pytest.raises(UnsafeStore, match="sqlite:///path on one machine"):
        unsafe.write(rows(unsafe, events(3, 6)))
    fs = unsafe.table_files.fs
    attempts: list[Callable[[], object]] = [
        lambda: fs.put_if_absent("/w/x", b""),
        lambda: fs.replace("/w/x", b""),
        lambda: fs.move_if_absent("/w/x", "/w/y"),
        lambda: fs.write_bytes("/w/x", b""),
        lambda: fs.open_output("/w/x"),
    ]
    for attempt in attempts:
        with pytest.raises(UnsafeStore):
            attempt()
    assert sorted(each.path for each in fs.list_tree("/w")) == before


def test_the_lock_of_the_environment_serves_where_none_is_named(
    lock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_LOCK", lock_url)
    fs, _ = open_file_system("plain:///w")
    assert isinstance(fs, RenamingFiles)
    assert fs.lock == SqliteLock(lock_url.removeprefix("sqlite://"))


@dataclass(frozen=True)
class MeddledLock:
    """Implements `Lock`, while another process writes without the lock."""

    path: str

    def held(self, name: str) -> MeddledLock:
        return self

    def __enter__(self) -> None:
        """Nothing: the meddling happens when the file is read back."""

    def __exit__(self, *_: object) -> None:
        """Nothing to give back."""


class Meddled(PlainFileSystem):
    """Where another writer's bytes come right after ours."""

    protocol = "meddled"

    def mv(self, path1: str, path2: str, **options: object) -> None:
        super().mv(path1, path2)
        self.pipe_file(path2, b"theirs")


fsspec.register_implementation("meddled", Meddled, clobber=True)


def test_who_writes_without_the_lock_is_noticed() -> None:
    forget_clients()
    fs = RenamingFiles(FixedEnv(), MeddledLock(""), protocol="meddled", address="")
    with pytest.raises(UnavailableError, match="without the lock"):
        fs.put_if_absent("/w/meddled", b"ours")


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    lock = SqliteLock(str(tmp_path / "lock"), wait_seconds=0.2)
    inside, leave = Event(), Event()

    def hold() -> None:
        with lock.held("x"):
            inside.set()
            assert leave.wait(10)

    with ThreadPoolExecutor(1) as pool:
        holder = pool.submit(hold)
        assert inside.wait(10)
        with pytest.raises(UnavailableError, match=r"within 0\.2 s"), lock.held("y"):
            pass
        leave.set()
        holder.result()
    with lock.held("x"):
        pass


def hold_for_ever(path: str, held: object) -> None:
    with SqliteLock(path).held("x"):
        held.set()  # type: ignore[attr-defined]
        signal.pause()


def test_a_lock_whose_holder_is_killed_is_free(tmp_path: Path) -> None:
    context = mp.get_context("spawn")
    held = context.Event()
    path = str(tmp_path / "lock")
    holder = context.Process(target=hold_for_ever, args=(path, held))
    holder.start()
    assert held.wait(60)
    assert holder.pid is not None
    with pytest.raises(UnavailableError), SqliteLock(path, wait_seconds=0.1).held("x"):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with SqliteLock(path, wait_seconds=5).held("x"):
        pass


@pytest.mark.parametrize("url", ["", "sqlite://", "mysql://h/d", "lock", "sqlite://host/x"])
def test_a_lock_of_no_known_kind_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="sqlite:///path"):
        open_lock(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://keeper:hidden-secret@host/db",
        "postgresql://host/db?user=keeper&password=hidden-secret",
    ],
)
def test_a_lock_with_a_password_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="PGPASSFILE") as caught:
        open_lock(url)
    assert "hidden-secret" not in repr(caught.value)


def test_a_lock_travels_to_other_processes() -> None:
    for lock in (SqliteLock("/x"), PostgresLock("postgresql://host/db")):
        assert pickle.loads(pickle.dumps(lock)) == lock
