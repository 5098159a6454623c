"""Common base of stores reached through fsspec, and the translation of their errors."""

from __future__ import annotations

import datetime as dt
import errno
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import IO, Any

import fsspec

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import FileMissing, InvalidRequestError, UnavailableError

_COPY_BYTES = 8 << 20
# Names under which stores list the time of the last write, the most precise first.
_MODIFIED = ("mtime", "LastModified", "last_modified", "modify", "created")
# The meaning of operating system errors and a remedy, where the system's text lacks them.
_MEANINGS = {
    errno.ENOSPC: "its disk is full; free space there, then try again: expiring snapshots and "
    "removing orphans free more, once a few kilobytes are free",
    errno.EDQUOT: "the quota of its disk is used up; free space or raise it, then try again",
    errno.EMFILE: "this process has reached its limit of open files; raise the limit (ulimit -n) "
    "or do less at once, then try again",
    errno.ENFILE: "the machine has reached its limit of open files; raise fs.file-max, then try "
    "again",
    errno.EIO: "its disk failed; look at the system's log before anything more is written there",
    errno.EROFS: "its file system is read-only; a failed disk may be the reason",
}


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Translate an error of a store to a storage error."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissing(f"file {path} does not exist", path=path) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidRequestError(
                f"{path!r:.300} has a name that is too long for its file system; shorten the name, "
                "or the value that it was made of",
                path=path,
            ) from error
        said = error.strerror or str(error)
        meaning = _MEANINGS.get(error.errno or 0)
        raise UnavailableError(
            f"file {path} cannot be reached: {f'{said}: {meaning}' if meaning else error}",
            path=path,
        ) from error


class FsspecFiles(ABC):
    """Common base of fsspec stores."""

    scheme: str

    @property
    @abstractmethod
    def fs(self) -> fsspec.AbstractFileSystem:
        """The fsspec client, looked up at each use, so that this object pickles."""

    def translated(self, path: str) -> AbstractContextManager[None]:
        """Translate this store's error about a path to a storage error."""
        return translated(path)

    def read_bytes(self, path: str) -> bytes:
        with self.translated(path):
            data = self.fs.cat_file(path)
            assert isinstance(data, bytes)
            return data

    def write_bytes(self, path: str, data: bytes) -> None:
        with self.open_output(path) as output:
            output.write(data)

    def open_output(self, path: str) -> IO[bytes]:
        with self.translated(path):
            self.fs.makedirs(parent(path), exist_ok=True)
            handle: IO[bytes] = self.fs.open(path, "wb")
            return handle

    def copy(self, source: str, target: str) -> int:
        size = 0
        with closing(self.open_input(source)) as given, closing(self.open_output(target)) as output:
            while piece := given.read(_COPY_BYTES):
                output.write(piece)
                size += len(piece)
        return size

    @abstractmethod
    def open_input(self, path: str) -> Any:
        """A seekable binary source."""

    def exists(self, path: str) -> bool:
        with self.translated(path):
            return bool(self.fs.exists(path))

    def list_dir(self, path: str) -> list[FileStatus]:
        return [status(info) for info in self._infos(path) if info["type"] == "file"]

    def list_subdirs(self, path: str) -> list[str]:
        names = (info["name"] for info in self._infos(path) if info["type"] == "directory")
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in names)

    def list_tree(self, path: str) -> list[FileStatus]:
        with self.translated(path):
            found = self.fs.find(path, detail=True)
        return [status(info) for info in found.values()]

    def list_links(self, path: str, *, at_any_depth: bool = False) -> list[str]:
        # Object stores and memory have none.
        return []

    def make_dirs(self, path: str) -> None:
        with self.translated(path):
            self.fs.makedirs(path, exist_ok=True)

    def delete(self, path: str) -> bool:
        return self._take_away(path)

    def _take_away(self, path: str) -> bool:
        try:
            with self.translated(path):
                self.fs.rm_file(path)
        except FileMissing:
            return False
        return True

    def delete_tree(self, path: str) -> None:
        # `fs.exists` of many clients reports a missing path if the store does not answer.
        if self.exists(path):
            with self.translated(path):
                self.fs.rm(path, recursive=True)

    def remove_empty_dir(self, path: str) -> bool:
        try:
            self.fs.rmdir(path)
        except (OSError, ValueError):
            return False
        return True

    def make_durable(  # noqa: B027  # most stores have nothing to do
        self, paths: Collection[str], *, below: str | None = None
    ) -> None:
        """Do nothing: such a store keeps what it has acknowledged."""

    def make_all_durable(self, path: str) -> None:  # noqa: B027  # nor here
        """Do nothing, for the same reason."""

    def _infos(self, path: str) -> list[dict[str, Any]]:
        try:
            with self.translated(path):
                infos: list[dict[str, Any]] = self.fs.ls(path, detail=True)
        except FileMissing:
            return []
        return infos


def status(info: dict[str, Any]) -> FileStatus:
    """The status of a file from an entry of fsspec's listing."""
    return FileStatus(info["name"], int(info["size"] or 0), _modified_ms(info))


def _modified_ms(info: dict[str, Any]) -> int:
    """The time of the last write in milliseconds; stores differ in its name and unit."""
    if "modificationTime" in info:
        return int(info["modificationTime"])
    named = (info.get(name) for name in _MODIFIED)
    modified = next((each for each in named if each), 0)
    if isinstance(modified, str):
        # FTP's form, such as 20240101120000.
        modified = dt.datetime.strptime(modified[:14], "%Y%m%d%H%M%S").replace(tzinfo=dt.UTC)
    seconds = modified.timestamp() if hasattr(modified, "timestamp") else float(modified)
    return int(seconds * 1000)


def parent(path: str) -> str:
    """The folder of a path."""
    return path.rsplit("/", 1)[0] or "/"
