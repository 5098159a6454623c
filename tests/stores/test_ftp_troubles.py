"""A FTP server that is busy, refuses or is started again: nothing is taken for gone."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import AccessRefused, UnavailableError
from lakewright.storage.files.clients import forget_clients
from lakewright.storage.files.file_systems import open_file_system
from tests.stores.conftest import settings
from tests.support.stores.servers import free_port
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.support.tables.invariants import assert_sound
from tests.support.tally import tally

pytest.importorskip("pyftpdlib")
# What the server is built on, in the Pythons that still have it.
pytestmark = pytest.mark.filterwarnings("ignore:The asyn(core|chat) module:DeprecationWarning")


class FtpServer:
    """A folder over FTP, from a thread of this process, which a test may disturb."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        # What it says to the next listings instead of doing them.
        self.refusals: list[str] = []
        self._end = threading.Event()

    def start(self) -> None:
        handlers = importlib.import_module("pyftpdlib.handlers")
        authorizers = importlib.import_module("pyftpdlib.authorizers")
        servers = importlib.import_module("pyftpdlib.servers")
        refusals = self.refusals

        class Handler(handlers.FTPHandler):  # type: ignore[misc, name-defined]
            authorizer = authorizers.DummyAuthorizer()
            auth_failed_timeout = 0

            def ftp_MLSD(self, path: str) -> Any:  # noqa: N802 - its class names it
                if refusals:
                    return self.respond(refusals.pop(0))
                return super().ftp_MLSD(path)

        Handler.authorizer.add_user("bob", "", str(self.folder), perm="elradfmwMT")
        self._end.clear()
        self._server = servers.FTPServer(("127.0.0.1", self.port), Handler)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._end.is_set():
            self._server.serve_forever(timeout=0.02, blocking=False, handle_exit=False)
        self._server.close_all()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FtpServer]:
    folder = tmp_path / "ftp"
    folder.mkdir()
    server = FtpServer(folder)
    server.start()
    with settings(LAKEWRIGHT_LOCK=f"sqlite://{tmp_path}/lock"):
        yield server
    server.stop()


@pytest.mark.mission("FS10")
@pytest.mark.parametrize("refusal", ["450 Busy.", "425 No data connection.", "421 Too many users."])
def test_a_server_that_is_busy_loses_no_commit(server: FtpServer, refusal: str) -> None:
    warehouse = f"ftp://bob@127.0.0.1:{server.port}/w"
    table = new_table(Catalog.open(warehouse), EVENTS)
    table.write(rows(table, events(0, 5)))
    snapshot = server.folder / "w/db.db/t/snapshot/snapshot-1"
    before = snapshot.read_bytes()
    fs, root = open_file_system(warehouse)
    # Another writer, with a connection of its own.
    forget_clients()
    calls: list[Callable[[], object]] = [
        lambda: fs.put_if_absent(f"{root}/db.db/t/snapshot/snapshot-1", b"theirs"),
        lambda: fs.list_dir(f"{root}/db.db/t/snapshot"),
        lambda: fs.list_tree(f"{root}/db.db/t"),
        lambda: fs.delete_tree(f"{root}/db.db/t"),
    ]
    for call in calls:
        server.refusals[:] = [refusal]
        with pytest.raises(UnavailableError):
            call()
        assert snapshot.read_bytes() == before
    again = Catalog.open(warehouse).table("db.t")
    assert sorted(again.read().column("id").to_pylist()) == list(range(5))
    assert_sound(again)
    tally("points of failure tried", len(calls))


def test_a_server_that_is_started_again_is_reached_again(server: FtpServer) -> None:
    fs, root = open_file_system(f"ftp://bob@127.0.0.1:{server.port}/w")
    fs.write_bytes(f"{root}/x", b"1")
    server.stop()
    with pytest.raises(UnavailableError):
        fs.read_bytes(f"{root}/x")
    server.start()
    assert fs.read_bytes(f"{root}/x") == b"1"


def test_a_user_whom_the_server_does_not_know_is_refused(server: FtpServer) -> None:
    fs, root = open_file_system(f"ftp://ann@127.0.0.1:{server.port}/w")
    with pytest.raises(AccessRefused):
        fs.exists(f"{root}/x")


def test_what_the_server_forbids_is_not_taken_for_missing(server: FtpServer) -> None:
    fs, root = open_file_system(f"ftp://bob@127.0.0.1:{server.port}/w")
    fs.write_bytes(f"{root}/folder/x", b"1")
    server.refusals[:] = ["550 Permission denied."]
    assert [each.name for each in fs.list_dir(f"{root}/folder")] == ["x"]
    (server.folder / "w/folder/x").unlink()
    assert fs.list_dir(f"{root}/folder") == []


def test_files_that_one_thread_opened_are_read_by_many_at_once(server: FtpServer) -> None:
    fs, root = open_file_system(f"ftp://bob@127.0.0.1:{server.port}/w")
    size, piece = 3_000_000, 500_000
    for number in range(4):
        fs.write_bytes(f"{root}/{number}", bytes([number]) * size)
    with ExitStack() as opened:
        sources = [opened.enter_context(fs.open_input(f"{root}/{each}")) for each in range(4)]

        def read(number: int) -> bytes:
            pieces = []
            for start in reversed(range(0, size, piece)):
                sources[number].seek(start)
                pieces.append(sources[number].read(piece))
            return b"".join(pieces)

        with ThreadPoolExecutor(4) as pool:
            read_by_many = [pool.submit(read, each) for each in range(4)]
            # The one who opened them goes on meanwhile.
            assert len(fs.list_dir(root)) == 4
            for number, each in enumerate(read_by_many):
                assert each.result() == bytes([number]) * size
