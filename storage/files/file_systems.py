"""Stores behind the `FileSystem` protocol: local disk and memory, through fsspec.

What storage needs beyond fsspec is one thing: creating a file only if it is not
there, whole or not at all. Locally that is a hard link to a finished temporary
file, which fails if the name is taken, on every POSIX file system.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage.env import Env, FileStatus, FileSystem, SystemEnv
from lakewright.storage.errors import FileMissing, UnavailableError, UnsupportedError


def open_file_system(uri: str, env: Env | None = None) -> tuple[FileSystem, str]:
    """The store a URI names, and the path in it; a text without a scheme is a local path.

    Raises:
        UnsupportedError: the scheme is not implemented; the message names those that are.
    """
    env = env or SystemEnv()
    if "://" not in uri and not uri.startswith("file:"):
        return LocalFiles(env), os.path.abspath(os.path.expanduser(uri))
    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise UnsupportedError(f"{uri} names host {parts.netloc}; write file:///path")
        return LocalFiles(env), os.path.abspath(unquote(parts.path))
    if parts.scheme == "memory":
        return MemoryFiles(), "/" + (parts.netloc + parts.path).strip("/")
    raise UnsupportedError(
        f"{uri}: store {parts.scheme}:// is not implemented; use a local path, file:// or memory://"
    )


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Say in storage's own errors what the store said."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissing(f"file {path} does not exist", path=path) from error
    except OSError as error:
        raise UnavailableError(f"file {path} cannot be reached: {error}", path=path) from error


class _FsspecFiles(ABC):
    """What every fsspec store does alike."""

    scheme: str

    @property
    @abstractmethod
    def fs(self) -> fsspec.AbstractFileSystem:
        """The fsspec store; asked for anew each time, so that ours pickles."""

    def read_bytes(self, path: str) -> bytes:
        with _translated(path):
            data = self.fs.cat_file(path)
            assert isinstance(data, bytes)
            return data

    def write_bytes(self, path: str, data: bytes) -> None:
        with self.open_output(path) as output:
            output.write(data)

    def open_output(self, path: str) -> IO[bytes]:
        with _translated(path):
            self.fs.makedirs(_parent(path), exist_ok=True)
            handle: IO[bytes] = self.fs.open(path, "wb")
            return handle

    def exists(self, path: str) -> bool:
        with _translated(path):
            return bool(self.fs.exists(path))

    def list_dir(self, path: str) -> list[FileStatus]:
        return [_status(info) for info in self._infos(path) if info["type"] == "file"]

    def list_subdirs(self, path: str) -> list[str]:
        names = (info["name"] for info in self._infos(path) if info["type"] == "directory")
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in names)

    def list_tree(self, path: str) -> list[FileStatus]:
        with _translated(path):
            found = self.fs.find(path, detail=True)
        return [_status(info) for info in found.values()]

    def make_dirs(self, path: str) -> None:
        with _translated(path):
            self.fs.makedirs(path, exist_ok=True)

    def delete(self, path: str) -> bool:
        try:
            with _translated(path):
                self.fs.rm_file(path)
        except FileMissing:
            return False
        return True

    def delete_tree(self, path: str) -> None:
        with _translated(path):
            if self.fs.exists(path):
                self.fs.rm(path, recursive=True)

    def remove_empty_dir(self, path: str) -> bool:
        try:
            self.fs.rmdir(path)
        except (OSError, ValueError):
            return False
        return True

    def _infos(self, path: str) -> list[dict[str, Any]]:
        try:
            with _translated(path):
                infos: list[dict[str, Any]] = self.fs.ls(path, detail=True)
        except FileMissing:
            return []
        return infos


def _status(info: dict[str, Any]) -> FileStatus:
    modified = info.get("mtime") or info.get("created") or 0
    seconds = modified.timestamp() if hasattr(modified, "timestamp") else float(modified)
    return FileStatus(info["name"], int(info["size"]), int(seconds * 1000))


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0] or "/"


@dataclass(frozen=True)
class LocalFiles(_FsspecFiles):
    """Local disk."""

    env: Env = field(default_factory=SystemEnv)
    scheme = "file"

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        # fsspec keeps one instance per process, so this is a look-up, and the store pickles.
        return LocalFileSystem()

    def uri(self, path: str) -> str:
        return Path(path).as_uri()

    def open_input(self, path: str) -> Any:
        with _translated(path):
            return pa.OSFile(path, "rb")

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.make_dirs(_parent(path))
        temporary = self._write_temporary(path, data)
        try:
            with _translated(path):
                os.link(temporary, path)
        except UnavailableError as error:
            if isinstance(error.__cause__, FileExistsError):
                return False
            raise
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        return True

    def replace(self, path: str, data: bytes) -> None:
        self.make_dirs(_parent(path))
        temporary = self._write_temporary(path, data)
        with _translated(path):
            os.replace(temporary, path)

    def _write_temporary(self, path: str, data: bytes) -> str:
        """A finished file beside `path`, under a hidden name that readers of the format skip."""
        folder, name = path.rsplit("/", 1)
        temporary = f"{folder}/.{name}.{self.env.new_id()}.tmp"
        with _translated(temporary), open(temporary, "xb") as output:
            output.write(data)
            output.flush()
            os.fsync(output.fileno())
        return temporary


_MEMORY_LOCK = threading.Lock()


@dataclass(frozen=True)
class MemoryFiles(_FsspecFiles):
    """Files in this process's memory: for tests and trials, gone when it ends."""

    scheme = "memory"

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        return MemoryFileSystem()

    def uri(self, path: str) -> str:
        return "memory://" + path.lstrip("/")

    def open_input(self, path: str) -> Any:
        return pa.BufferReader(self.read_bytes(path))

    def write_bytes(self, path: str, data: bytes) -> None:
        # Opened for writing, a file would be there and empty until it is written.
        with _translated(path):
            self.fs.makedirs(_parent(path), exist_ok=True)
            self.fs.pipe_file(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with _MEMORY_LOCK:
            if self.exists(path):
                return False
            self.write_bytes(path, data)
            return True

    def replace(self, path: str, data: bytes) -> None:
        with _MEMORY_LOCK:
            self.write_bytes(path, data)
