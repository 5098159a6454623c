"""A local disk that loses what was not flushed, or fails: below the real local files.

`LocalFiles` runs unchanged, on a real folder. This module intercepts each call of the operating
system that changes something.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakewright.storage.files import durability, local_files

# The name of a call, and its path.
Heard = Callable[[str, str], object]


@contextmanager
def heard(before: Heard, after: Heard = lambda name, path: None) -> Iterator[None]:
    """Intercept every changing call of the operating system by local files."""
    calls: Any = _Os(before, after)
    flush_file_system = durability._flush_file_system

    def flush_all(opened: int) -> None:
        calls.hear("syncfs", _path_of(opened), lambda: flush_file_system(opened))

    with pytest.MonkeyPatch.context() as patch:
        for module in (local_files, durability):
            patch.setattr(module, "os", calls)
        patch.setattr(local_files, "shutil", _Shutil(calls))
        patch.setattr(local_files, "open", calls.open_file, raising=False)
        patch.setattr(durability, "_flush_file_system", flush_all)
        yield


class _Os:
    """The module `os` with intercepted changing calls."""

    def __init__(self, before: Heard, after: Heard) -> None:
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def hear(self, name: str, path: str, call: Callable[[], Any]) -> Any:
        self._before(name, path)
        result = call()
        self._after(name, path)
        return result

    def link(self, source: str, target: str) -> None:
        self.hear("link", target, lambda: os.link(source, target))

    def replace(self, source: str, target: str) -> None:
        self.hear("rename", target, lambda: os.replace(source, target))

    def unlink(self, path: str) -> None:
        self.hear("unlink", path, lambda: os.unlink(path))

    def makedirs(self, path: str, *, exist_ok: bool) -> None:
        self.hear("mkdir", path, lambda: os.makedirs(path, exist_ok=exist_ok))

    def rmdir(self, path: str) -> None:
        self.hear("rmdir", path, lambda: os.rmdir(path))

    def fsync(self, opened: int) -> None:
        self.hear("fsync", _path_of(opened), lambda: os.fsync(opened))

    def open_file(self, path: str, mode: str, *, buffering: int) -> io.FileIO:
        assert buffering == 0
        output: io.FileIO = self.hear("open", path, lambda: _HeardFile(path, mode, self))
        return output


class _HeardFile(io.FileIO):
    """A file being written, with intercepted calls."""

    def __init__(self, path: str, mode: str, calls: _Os) -> None:
        super().__init__(path, mode)
        self._path = path
        self._calls = calls

    def write(self, data: Any) -> int:
        written: int = self._calls.hear(
            "write", self._path, lambda: super(_HeardFile, self).write(data)
        )
        return written

    def close(self) -> None:
        if self.closed:
            return
        # As in an operating system, the file is closed even if the call fails.
        try:
            self._calls.hear("close", self._path, lambda: None)
        finally:
            super().close()


class _Shutil:
    def __init__(self, calls: _Os) -> None:
        self._calls = calls

    def rmtree(self, path: str) -> None:
        self._calls.hear("rmtree", path, lambda: shutil.rmtree(path))


def _path_of(opened: int) -> str:
    return os.readlink(f"/proc/self/fd/{opened}")


# --- a disk that fails --------------------------------------------------------------------------


@dataclass
class FailingDisk:
    """Fails at one of the calls that `counts` selects, once or permanently."""

    error: int
    counts: Callable[[str, str], bool]
    fail_at: int = 0
    for_good: bool = False
    # Whether the failing call takes effect.
    afterwards: bool = False
    counted: int = 0
    failed: tuple[str, str] | None = None

    @contextmanager
    def under(self) -> Iterator[None]:
        """Fail calls of local files during the context."""
        hear: tuple[Heard, Heard] = (lambda name, path: None, self._hear)
        with heard(*(hear if self.afterwards else reversed(hear))):
            yield

    def _hear(self, name: str, path: str) -> None:
        if not self.counts(name, path):
            return
        self.counted += 1
        if self.counted == self.fail_at or (self.for_good and self.failed is not None):
            self.failed = self.failed or (name, path)
            raise OSError(self.error, os.strerror(self.error))


# --- a disk that loses what was not flushed -----------------------------------------------------

# A file by its number, and whether it is a folder.
_Entry = tuple[int, bool]
_Listing = dict[str, _Entry]


@dataclass(frozen=True)
class Loss:
    """The treatment of unflushed changes by a power loss.

    A created, deleted or replaced name is as it is, or as it was at the last flush of its folder.
    Unflushed bytes are kept, truncated, or missing.
    """

    name: str
    new_names_stay: bool = False
    gone_names_stay_gone: bool = False
    bytes_stay: str = "none"
    seed: int | None = None

    def keeps_change(
        self, chance: random.Random, before: _Entry | None, now: _Entry | None
    ) -> bool:
        if self.seed is not None:
            return chance.random() < 0.5
        return self.gone_names_stay_gone if now is None else self.new_names_stay

    def bytes_of(self, chance: random.Random, data: bytes) -> bytes:
        left = self.bytes_stay if self.seed is None else chance.choice(["none", "half", "all"])
        return {"none": b"", "half": data[: len(data) // 2], "all": data}[left]


LOSSES = (
    Loss("nothing that was not flushed"),
    Loss("names without bytes", new_names_stay=True, gone_names_stay_gone=True),
    Loss("names with half the bytes", True, True, "half"),
    Loss("only deletions", gone_names_stay_gone=True),
    Loss("only new names", new_names_stay=True),
)
RANDOM_LOSSES = tuple(Loss(f"by chance {seed}", seed=seed) for seed in range(6))


@dataclass(frozen=True)
class Left:
    """The content of a folder after a power loss: files by their paths below it, and folders."""

    files: Mapping[str, bytes]
    folders: frozenset[str]


@dataclass
class LossyDisk:
    """Records the flushes of a folder, and computes its content after a power loss."""

    root: str
    look: Callable[[str, str], object] = lambda name, path: None
    _names: dict[int, _Listing] = field(default_factory=dict)
    _bytes: dict[int, bytes] = field(default_factory=dict)
    # Held open, so that no other file gets their inode numbers.
    _held: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _main: int = field(default_factory=threading.get_ident)

    @contextmanager
    def under(self) -> Iterator[None]:
        """Record the calls of local files during the context."""
        self._flush_tree(self.root)
        try:
            with heard(self._before, self._after):
                yield
        finally:
            for opened in self._held.values():
                os.close(opened)

    def _before(self, name: str, path: str) -> None:
        # The folder is examined before the first and after the last of concurrent flushes.
        if threading.get_ident() == self._main and name not in ("write", "close"):
            self.look(name, path)

    def _after(self, name: str, path: str) -> None:
        if name == "fsync":
            with self._lock:
                self._flush(path)
        elif name == "syncfs":
            with self._lock:
                self._flush_tree(self.root)

    def _flush(self, path: str) -> None:
        if not f"{path}/".startswith(f"{self.root}/"):
            return
        number = self._hold(path)
        if os.path.isdir(path):
            self._names[number] = {
                entry.name: (self._hold(entry.path), entry.is_dir()) for entry in os.scandir(path)
            }
        else:
            self._bytes[number] = _bytes_at(path)

    def _hold(self, path: str) -> int:
        number = os.stat(path).st_ino
        if number not in self._held:
            self._held[number] = os.open(path, os.O_RDONLY)
        return number

    def _flush_tree(self, path: str) -> None:
        for folder, _, names in os.walk(path):
            self._flush(folder)
            for name in names:
                self._flush(f"{folder}/{name}")

    def after(self, loss: Loss) -> Left:
        """The folder after the power loss."""
        now = {
            os.stat(folder).st_ino: {
                name: (os.stat(f"{folder}/{name}").st_ino, name in folders)
                for name in (*folders, *names)
            }
            for folder, folders, names in os.walk(self.root)
        }
        paths = {
            os.stat(f"{folder}/{name}").st_ino: f"{folder}/{name}"
            for folder, _, names in os.walk(self.root)
            for name in names
        }
        chance = random.Random(loss.seed)
        files: dict[str, bytes] = {}
        found: set[str] = set()

        def visit(number: int, below: str) -> None:
            was, there = self._names.get(number, {}), now.get(number, {})
            for name in sorted({*was, *there}):
                entry = was.get(name)
                if entry != there.get(name) and loss.keeps_change(chance, entry, there.get(name)):
                    entry = there.get(name)
                if entry is None:
                    continue
                if entry[1]:
                    found.add(f"{below}{name}")
                    visit(entry[0], f"{below}{name}/")
                elif entry[0] in self._bytes:
                    files[f"{below}{name}"] = self._bytes[entry[0]]
                else:
                    files[f"{below}{name}"] = loss.bytes_of(chance, self._read(entry[0], paths))

        visit(os.stat(self.root).st_ino, "")
        return Left(files, frozenset(found))

    def _read(self, number: int, paths: Mapping[int, str]) -> bytes:
        if number in paths:
            return _bytes_at(paths[number])
        size = os.fstat(self._held[number]).st_size
        return os.pread(self._held[number], size, 0)


def _bytes_at(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
