"""Files in this process's memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa
from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage.files.fsspec_files import FsspecFiles, parent, translated

# All instances hold the same files; looking one up costs more than most calls do.
_MEMORY = MemoryFileSystem()
_MEMORY_LOCK = threading.Lock()


@dataclass(frozen=True)
class MemoryFiles(FsspecFiles):
    """Files in this process's memory, for tests and trials; they end with the process."""

    scheme = "memory"

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        return _MEMORY

    def uri(self, path: str) -> str:
        return "memory://" + path.lstrip("/")

    def open_input(self, path: str) -> Any:
        return pa.BufferReader(self.read_bytes(path))

    def write_bytes(self, path: str, data: bytes) -> None:
        # fsspec would show an empty file from opening it until the write.
        with translated(path):
            self.fs.makedirs(parent(path), exist_ok=True)
            self.fs.pipe_file(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with _MEMORY_LOCK:
            if self.exists(path):
                return False
            self.write_bytes(path, data)
            return True

    def move_if_absent(self, source: str, target: str) -> bool:
        if not self.put_if_absent(target, self.read_bytes(source)):
            return False
        with translated(source):
            self.fs.rm_file(source)
        return True

    def replace(self, path: str, data: bytes) -> None:
        with _MEMORY_LOCK:
            self.write_bytes(path, data)
