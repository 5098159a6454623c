"""A folder over SFTP for one user: `python sftp_server.py FOLDER PORT USER PASSWORD`."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paramiko
from paramiko import SFTPAttributes, SFTPHandle, SFTPServer, Transport


class _Door(paramiko.ServerInterface):
    def __init__(self, user: str, password: str) -> None:
        self.known = (user, password)

    def check_auth_password(self, username: str, password: str) -> int:
        known = (username, password) == self.known
        return paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED


class _Handle(SFTPHandle):
    def stat(self) -> SFTPAttributes:
        return SFTPAttributes.from_stat(os.fstat(self.readfile.fileno()))


class _Folder(paramiko.SFTPServerInterface):
    """What is asked of the folder, in the calls that the operating system has for it."""

    def __init__(self, server: _Door, *args: Any, folder: str, **options: Any) -> None:
        super().__init__(server, *args, **options)
        self.folder = folder

    def list_folder(self, path: str) -> Any:
        return self._tried(
            lambda: [
                SFTPAttributes.from_stat(each.lstat(), each.name)
                for each in self._here(path).iterdir()
            ]
        )

    def stat(self, path: str) -> Any:
        return self._tried(lambda: SFTPAttributes.from_stat(self._here(path).stat()))

    lstat = stat

    def open(self, path: str, flags: int, attr: SFTPAttributes) -> Any:
        def opened() -> _Handle:
            handle = _Handle(flags)
            writes = flags & (os.O_WRONLY | os.O_RDWR)
            file = os.fdopen(os.open(self._here(path), flags, 0o644), "wb" if writes else "rb")
            handle.readfile = handle.writefile = file
            return handle

        return self._tried(opened)

    def remove(self, path: str) -> Any:
        return self._tried(lambda: self._here(path).unlink())

    def posix_rename(self, oldpath: str, newpath: str) -> Any:
        return self._tried(lambda: _rename(self._here(oldpath), self._here(newpath)))

    def mkdir(self, path: str, attr: SFTPAttributes) -> Any:
        return self._tried(lambda: self._here(path).mkdir())

    def rmdir(self, path: str) -> Any:
        return self._tried(lambda: self._here(path).rmdir())

    def _here(self, path: str) -> Path:
        return Path(self.folder + self.canonicalize(path))

    def _tried(self, call: Callable[[], Any]) -> Any:
        try:
            found = call()
        except OSError as error:
            return SFTPServer.convert_errno(error.errno)
        return paramiko.SFTP_OK if found is None else found


def _rename(old: Path, new: Path) -> None:
    old.rename(new)


def serve(folder: str, port: int, user: str, password: str) -> None:
    key = paramiko.RSAKey.generate(2048)
    with socket.create_server(("127.0.0.1", port), backlog=100) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(
                target=_answer, args=(connection, key, folder, user, password), daemon=True
            ).start()


def _answer(
    connection: socket.socket, key: paramiko.PKey, folder: str, user: str, password: str
) -> None:
    # Or each answer would wait for the client to have acknowledged the one before.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transport = Transport(connection)
    transport.add_server_key(key)
    transport.set_subsystem_handler("sftp", SFTPServer, _Folder, folder=folder)
    try:
        transport.start_server(server=_Door(user, password))
    except (paramiko.SSHException, EOFError, ConnectionError):
        # A probe of the port sends nothing more.
        transport.close()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
