"""Local disk.

Creating a file only if it is not there, whole or not at all, is a hard link to a finished
temporary file: that fails if the name is taken, on every POSIX file system.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.errors import FileMissing, UnavailableError
from lakewright.storage.files.fsspec_files import FsspecFiles, parent, translated

# How often a folder that was just made may be gone before that is an error.
_MOST_TAKEN_AWAY = 9
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class LocalFiles(FsspecFiles):
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
        with translated(path):
            return pa.OSFile(path, "rb")

    def open_output(self, path: str) -> IO[bytes]:
        return _in_folder(lambda: FsspecFiles.open_output(self, path))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._temporary(path, data) as temporary:
            return _link(temporary, path)

    def move_if_absent(self, source: str, target: str) -> bool:
        if not _in_folder(lambda: self._linked(source, target)):
            return False
        with translated(source):
            os.unlink(source)
        return True

    def replace(self, path: str, data: bytes) -> None:
        with self._temporary(path, data) as temporary, translated(path):
            os.replace(temporary, path)

    def _linked(self, source: str, target: str) -> bool:
        self.make_dirs(parent(target))
        return _link(source, target)

    def _new_file(self, path: str) -> BinaryIO:
        self.make_dirs(parent(path))
        with translated(path):
            return open(path, "xb")

    @contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[str]:
        """A finished file beside `path`, under a hidden name that readers of the format skip."""
        folder, name = path.rsplit("/", 1)
        temporary = f"{folder}/.{name}.{self.env.new_id()}.tmp"
        try:
            with _in_folder(lambda: self._new_file(temporary)) as output, translated(temporary):
                output.write(data)
                output.flush()
                os.fsync(output.fileno())
            yield temporary
        finally:
            # Gone already where it was given its name.
            with suppress(OSError):
                os.unlink(temporary)


def _in_folder(make: Callable[[], _Made]) -> _Made:
    """Make a folder and something in it; as long as it is empty others may take it away."""
    for _ in range(_MOST_TAKEN_AWAY):
        try:
            return make()
        except FileMissing:
            continue
        except UnavailableError as error:
            # Of a folder that goes while it is made anew it may be said that it is there.
            if not isinstance(error.__cause__, FileExistsError):
                raise
    return make()


def _link(source: str, target: str) -> bool:
    """Give a file a second name; False if the name is taken."""
    with translated(target):
        try:
            os.link(source, target)
        except FileExistsError:
            return False
    return True
