"""FTP: refused paths and temporary failures are not taken for missing files."""

from __future__ import annotations

import ftplib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import fsspec
import pytest

from lakewright.storage.errors import AccessRefused, FileMissing, UnavailableError, UnsupportedError
from lakewright.storage.files.clients import forget_clients
from lakewright.storage.files.ftp_client import FtpClient
from lakewright.storage.files.locks import SqliteLock
from lakewright.storage.files.renaming_files import RenamingFiles
from tests.support.tables.environment import FixedEnv
from tests.support.tally import tally

MISSING = "550 No such file or directory."


@dataclass
class Server:
    """Files and folders, and planned failures of commands."""

    files: dict[str, bytes] = field(default_factory=dict)
    folders: set[str] = field(default_factory=lambda: {"/"})
    planned: list[tuple[str, int, ftplib.Error]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    connections: int = 0

    def fail(self, command: str, error: ftplib.Error, *, after: int = 0, times: int = 1) -> None:
        """Answer a command with a failure, once it was answered as it should be `after` times."""
        before = self.commands.count(command) + after
        self.planned += [(command, before + each, error) for each in range(times)]

    def hear(self, command: str) -> None:
        number = self.commands.count(command)
        self.commands.append(command)
        for planned, due, error in self.planned:
            if (planned, due) == (command, number):
                raise type(error)(*error.args)


@dataclass
class Connection:
    """As `ftplib.FTP`, to a server in this process."""

    server: Server

    def mlsd(self, path: str) -> Iterator[tuple[str, dict[str, str]]]:
        self.server.hear("MLSD")
        if path not in self.server.folders:
            raise ftplib.error_perm(MISSING)
        yield ".", {"type": "cdir"}
        for name, facts in self._names():
            folder, _, last = name.rpartition("/")
            if (folder or "/") == path and last:
                yield last, {**facts, "modify": "20260101120000"}

    def _names(self) -> Iterator[tuple[str, dict[str, str]]]:
        for name, data in list(self.server.files.items()):
            yield name, {"type": "file", "size": str(len(data))}
        for name in sorted(self.server.folders):
            yield name, {"type": "dir"}

    def retrbinary(
        self,
        command: str,
        callback: Callable[[bytes], object],
        blocksize: int = 8192,
        rest: int | None = None,
    ) -> None:
        self.server.hear("RETR")
        callback(self._file(command.removeprefix("RETR "))[rest or 0 :])

    def storbinary(
        self, command: str, file: io.BytesIO, blocksize: int = 8192, rest: int | None = None
    ) -> None:
        self.server.hear("STOR")
        name = command.removeprefix("STOR ")
        self.server.files[name] = self.server.files.get(name, b"")[: rest or 0] + file.read()

    def rename(self, old: str, new: str) -> None:
        self.server.hear("RNFR")
        self.server.files[new] = self._file(old)
        del self.server.files[old]

    def delete(self, name: str) -> None:
        self.server.hear("DELE")
        self._file(name)
        del self.server.files[name]

    def mkd(self, name: str) -> None:
        self.server.hear("MKD")
        if name in self.server.folders:
            raise ftplib.error_perm("550 File exists.")
        self.server.folders.add(name)

    def rmd(self, name: str) -> None:
        self.server.hear("RMD")
        self.server.folders.remove(name)

    def close(self) -> None:
        """Nothing: it is in this process."""

    def _file(self, name: str) -> bytes:
        if name not in self.server.files:
            raise ftplib.error_perm(MISSING)
        return self.server.files[name]


SERVERS: dict[str, Server] = {}


class NearbyFtp(FtpClient):
    """The client, connected to a server in this process."""

    protocol = "nearbyftp"

    def _connect(self) -> None:
        server = SERVERS[self.host]
        server.connections += 1
        self.ftp = Connection(server)


fsspec.register_implementation("nearbyftp", NearbyFtp, clobber=True)


@pytest.fixture
def server() -> Iterator[Server]:
    forget_clients()
    SERVERS["node"] = Server()
    yield SERVERS["node"]
    forget_clients()


@pytest.fixture
def fs(server: Server, tmp_path_factory: pytest.TempPathFactory) -> RenamingFiles:
    lock = SqliteLock(str(tmp_path_factory.mktemp("lock") / "lock"))
    fs = RenamingFiles(FixedEnv(), lock, protocol="nearbyftp", address="node")
    assert fs.put_if_absent("/w/snapshot/snapshot-1", b"one")
    assert fs.put_if_absent("/w/snapshot/snapshot-2", b"ours")
    return fs


FOR_NOW = ftplib.error_temp("450 Requested file action not taken.")


@pytest.mark.mission("FS10")
def test_a_snapshot_is_not_replaced_whichever_listing_fails_for_now(
    server: Server, fs: RenamingFiles
) -> None:
    tried = 0
    for times in (1, 2, 100):
        for after in range(100):
            server.planned.clear()
            server.fail("MLSD", FOR_NOW, after=after, times=times)
            before = server.commands.count("MLSD")
            try:
                assert fs.put_if_absent("/w/snapshot/snapshot-2", b"theirs") is False
            except UnavailableError:
                tried += 1
            assert server.files["/w/snapshot/snapshot-2"] == b"ours"
            if server.commands.count("MLSD") - before <= after:
                break
    assert tried >= 3
    tally("points of failure tried", tried)


def test_a_snapshot_is_whole_or_not_there_whichever_command_fails_for_now(
    server: Server, fs: RenamingFiles
) -> None:
    tried = 0
    for command in ("MLSD", "STOR", "RNFR", "RETR"):
        for after in range(100):
            path = f"/w/snapshot/{command}-{after}"
            server.planned.clear()
            server.fail(command, FOR_NOW, after=after)
            before = server.commands.count(command)
            try:
                won = fs.put_if_absent(path, b"whole")
            except UnavailableError:
                won = None
            there = server.files.get(path)
            assert there == b"whole" if won else there in (None, b"whole")
            server.planned.clear()
            passed = server.commands.count(command) - before <= after
            # A retry gets the result of the first attempt.
            assert fs.put_if_absent(path, b"again") is (there is None)
            assert server.files[path] == (there or b"again")
            if passed:
                break
            tried += 1
    assert tried >= 5
    tally("points of failure tried", tried)


def test_a_full_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    server: Server, fs: RenamingFiles
) -> None:
    calls: list[Callable[[], object]] = [
        lambda: fs.list_dir("/w/snapshot"),
        lambda: fs.list_subdirs("/w"),
        lambda: fs.list_tree("/w"),
        lambda: fs.exists("/w/snapshot/snapshot-1"),
        lambda: fs.delete("/w/snapshot/snapshot-1"),
        lambda: fs.delete_tree("/w/snapshot"),
        lambda: fs.open_input("/w/snapshot/snapshot-1"),
    ]
    for call in calls:
        for said in ("450 busy", "421 too many connections", "426 transfer aborted"):
            server.fail("MLSD", ftplib.error_temp(said))
            with pytest.raises(UnavailableError):
                call()
    assert [each.name for each in fs.list_dir("/w/snapshot")] == ["snapshot-1", "snapshot-2"]


def test_what_is_refused_is_told_from_what_is_not_there(server: Server, fs: RenamingFiles) -> None:
    denied = ftplib.error_perm("550 Permission denied.")
    # It asks for the folder, finds it in the one above, and asks again.
    server.fail("MLSD", denied)
    server.fail("MLSD", denied, after=2)
    with pytest.raises(AccessRefused):
        fs.list_dir("/w")
    server.fail("RETR", denied, times=2)
    with pytest.raises(AccessRefused):
        fs.read_bytes("/w/snapshot/snapshot-1")
    with pytest.raises(FileMissing):
        fs.read_bytes("/w/snapshot/snapshot-3")
    with pytest.raises(FileMissing):
        fs.read_bytes("/nowhere/at/all")
    assert fs.list_dir("/nowhere/at/all") == []
    # A file is no folder.
    assert fs.list_dir("/w/snapshot/snapshot-1") == []


def test_a_file_that_comes_while_it_is_asked_for_is_read(server: Server, fs: RenamingFiles) -> None:
    server.fail("RETR", ftplib.error_perm(MISSING))
    assert fs.read_bytes("/w/snapshot/snapshot-1") == b"one"


def test_a_file_is_read_through_a_handle(fs: RenamingFiles) -> None:
    with fs.open_input("/w/snapshot/snapshot-2") as source:
        source.seek(1)
        assert source.read() == b"urs"
    with pytest.raises(FileMissing):
        fs.open_input("/w/snapshot/snapshot-3")


def test_a_server_that_cannot_list_by_machine_is_refused(server: Server, fs: RenamingFiles) -> None:
    server.fail("MLSD", ftplib.error_perm("500 Unknown command."))
    with pytest.raises(UnsupportedError, match="MLSD"):
        fs.list_dir("/w")


def test_a_connection_that_is_out_of_step_is_given_up(server: Server, fs: RenamingFiles) -> None:
    before = server.connections
    server.fail("RETR", ftplib.error_reply("226 Transfer complete."))
    with pytest.raises(UnavailableError):
        fs.read_bytes("/w/snapshot/snapshot-1")
    assert fs.read_bytes("/w/snapshot/snapshot-1") == b"one"
    assert server.connections == before + 1
