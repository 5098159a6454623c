"""fsspec's FTP client, corrected in what it reports about files that it cannot access.

FTP has one reply, 550, for missing and for refused paths, and fsspec treats every other failure
alike. A folder that wrongly looks empty would be taken for a table without snapshots. So this
client reports a path as missing only after a complete listing of its folder without it.
"""

from __future__ import annotations

import ftplib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from fsspec.implementations.ftp import FTPFile, FTPFileSystem

from lakewright.storage.errors import UnsupportedError

_T = TypeVar("_T")

# Replies to an unknown command.
_UNKNOWN = ("500", "502")
# The reply for a missing path and for a refused one.
_MISSING_OR_REFUSED = ("501", "550")
# Types of the entries for the folder itself and its parent.
_ITSELF = ("cdir", "pdir")


class FtpClient(FTPFileSystem):  # type: ignore[misc]
    """One connection, which serves one request at a time, whatever thread makes it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.talking = threading.RLock()
        super().__init__(*args, **options)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        try:
            listed = self.ask(path, lambda: list(self.ftp.mlsd(path)))
        except PermissionError:
            infos = [self.info(path)]
            if infos[0]["type"] == "directory":
                raise
        except ftplib.error_perm as error:
            if not str(error).startswith(_UNKNOWN):
                raise
            raise UnsupportedError(
                f"the FTP server at {self.host} cannot list a folder by MLSD, and its other "
                f"listings lack sizes and times: {error}; use a server that can (RFC 3659)"
            ) from error
        else:
            infos = [_info(path, name, facts) for name, facts in listed if _is_inside(name, facts)]
        return infos if detail else sorted(info["name"] for info in infos)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if path == self.root_marker:
            return {"name": path, "size": 0, "type": "directory"}
        for info in self.ls(self._parent(path)):
            if info["name"] == path:
                return dict(info)
        raise FileNotFoundError(path)

    def exists(self, path: str, **_: Any) -> bool:
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        pieces: list[bytes] = []

        def receive() -> None:
            pieces.clear()
            self.ftp.retrbinary(f"RETR {path}", pieces.append, self.blocksize)

        self.ask(path, receive)
        return b"".join(pieces)[start:end]

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        with self.talking:
            super().mkdir(path, create_parents, **options)

    def rmdir(self, path: str) -> None:
        with self.talking:
            super().rmdir(path)

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        with self.talking:
            super().mv(path1, path2, **options)

    def _rm(self, path: str) -> None:
        self.ask(path, lambda: super(FtpClient, self)._rm(path))

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any
    ) -> FTPFile:
        return _OpenFile(
            self,
            self._strip_protocol(path),
            mode=mode,
            block_size=block_size or self.blocksize,
            **options,
        )

    def ask(self, path: str, question: Callable[[], _T]) -> _T:
        """Send a request about a path.

        Raises:
            FileNotFoundError: the folder was listed, without the path.
            PermissionError: the path exists, and the server refuses the request.
        """
        try:
            with self.talking:
                return question()
        except ftplib.error_perm as error:
            if not str(error).startswith(_MISSING_OR_REFUSED):
                raise
        self.info(path)
        # Retry once: the path may have been created after the first request.
        try:
            with self.talking:
                return question()
        except ftplib.error_perm as error:
            raise PermissionError(str(error)) from error


class _OpenFile(FTPFile):  # type: ignore[misc]
    """A file whose pieces are requested between other requests, never during one."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        fetch = super()._fetch_range
        data: bytes = self.fs.ask(self.path, lambda: fetch(start, end))
        return data

    def _upload_chunk(self, final: bool = False) -> bool:
        with self.fs.talking:
            return bool(super()._upload_chunk(final))


def _is_inside(name: str, facts: dict[str, str]) -> bool:
    return name not in (".", "..") and facts["type"].lower() not in _ITSELF


def _info(folder: str, name: str, facts: dict[str, str]) -> dict[str, Any]:
    is_folder = facts["type"].lower() == "dir"
    return {
        **facts,
        "name": f"{folder.rstrip('/')}/{name}",
        "size": 0 if is_folder else int(facts.get("size", 0)),
        "type": "directory" if is_folder else facts["type"].lower(),
    }
