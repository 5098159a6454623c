"""Local disk.

Creating a file only if it is not there, whole or not at all, is a hard link to a finished
temporary file: that fails if the name is taken, on every POSIX file system.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.files.fsspec_files import FsspecFiles, parent, translated


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

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._temporary(path, data) as temporary:
            return _link(temporary, path)

    def move_if_absent(self, source: str, target: str) -> bool:
        self.make_dirs(parent(target))
        if not _link(source, target):
            return False
        with translated(source):
            os.unlink(source)
        return True

    def replace(self, path: str, data: bytes) -> None:
        with self._temporary(path, data) as temporary, translated(path):
            os.replace(temporary, path)

    @contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[str]:
        """A finished file beside `path`, under a hidden name that readers of the format skip."""
        folder, name = path.rsplit("/", 1)
        self.make_dirs(folder)
        temporary = f"{folder}/.{name}.{self.env.new_id()}.tmp"
        try:
            with translated(temporary), open(temporary, "xb") as output:
                output.write(data)
                output.flush()
                os.fsync(output.fileno())
            yield temporary
        finally:
            # Gone already where it was given its name.
            with suppress(OSError):
                os.unlink(temporary)


def _link(source: str, target: str) -> bool:
    """Give a file a second name; False if the name is taken."""
    with translated(target):
        try:
            os.link(source, target)
        except FileExistsError:
            return False
    return True
