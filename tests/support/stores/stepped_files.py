"""A store as a plain dict: each call is a value, and its effect a pure function.

So a store can be copied cheaply, and calls can be delayed, reordered, and repeated with earlier
answers.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import IO, Any

import pyarrow as pa

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import FileMissing
from tests.support.tables.environment import START_MS


class Verb(Enum):
    """The calls of a store; `CLOSE` ends the write that `OPEN` began."""

    READ = "read"
    EXISTS = "exists"
    LIST = "list"
    SUBDIRS = "list folders"
    TREE = "list tree"
    WRITE = "write"
    OPEN = "open"
    CLOSE = "close"
    PUT = "put if absent"
    REPLACE = "replace"
    MOVE = "move"
    DELETE = "delete"
    DELETE_TREE = "delete tree"
    MAKE_DIRS = "make folders"
    REMOVE_DIR = "remove folder"
    SLEEP = "sleep"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a store; `target` is where a file moves."""

    verb: Verb
    path: str
    data: bytes = b""
    target: str = ""

    def __str__(self) -> str:
        return f"{self.verb.value} {self.path}{f' to {self.target}' if self.target else ''}"


class Missing(Enum):
    """The answer for a missing file."""

    FILE = "no such file"


@dataclass(frozen=True, slots=True)
class Stored:
    """A file, or a folder if `data` is None."""

    data: bytes | None
    modified_ms: int


# A store's content by path, including folders, as on a disk.
Content = Mapping[str, Stored]
# The changes of a call: the new content by path, None for a deletion.
Changes = dict[str, Stored | None]
Perform = Callable[[Call], Any]

_NOTHING: Changes = {}


def parent(path: str) -> str:
    """The folder of a path."""
    return path.rsplit("/", 1)[0] or "/"


def ancestors(path: str) -> list[str]:
    """Every folder above a path, the nearest first."""
    found = []
    while path != "/":
        path = parent(path)
        found.append(path)
    return found


def answer(content: Content, call: Call, now_ms: int) -> tuple[Any, Changes]:
    """The answer to a call, and its changes."""
    path, at = call.path, content.get(call.path)
    match call.verb:
        case Verb.READ:
            return (Missing.FILE if at is None or at.data is None else at.data), _NOTHING
        case Verb.EXISTS:
            return at is not None, _NOTHING
        case Verb.LIST | Verb.TREE:
            return _listed(content, path, whole_tree=call.verb is Verb.TREE), _NOTHING
        case Verb.SUBDIRS:
            below = (each for each, stored in content.items() if stored.data is None)
            names = sorted(each.rsplit("/", 1)[-1] for each in below if parent(each) == path)
            return tuple(name for name in names if name), _NOTHING
        case Verb.WRITE | Verb.OPEN | Verb.CLOSE | Verb.REPLACE:
            return None, _created(content, path, call.data, now_ms)
        case Verb.PUT if at is not None:
            return False, _NOTHING
        case Verb.PUT:
            return True, _created(content, path, call.data, now_ms)
        case Verb.MOVE if at is None or at.data is None:
            return Missing.FILE, _NOTHING
        case Verb.MOVE if call.target in content:
            return False, _NOTHING
        case Verb.MOVE:
            assert at is not None
            return True, {**_created(content, call.target, at.data, at.modified_ms), path: None}
        case Verb.DELETE:
            there = at is not None and at.data is not None
            return there, {path: None} if there else _NOTHING
        case Verb.DELETE_TREE:
            return None, {each: None for each in content if f"{each}/".startswith(f"{path}/")}
        case Verb.MAKE_DIRS:
            return None, _folders(content, f"{path}/x", now_ms)
        case Verb.REMOVE_DIR:
            is_folder = at is not None and at.data is None
            empty = is_folder and not any(parent(each) == path for each in content)
            return empty, {path: None} if empty else _NOTHING
        case Verb.SLEEP:
            return None, _NOTHING


def _listed(content: Content, folder: str, *, whole_tree: bool) -> tuple[FileStatus, ...]:
    below = folder.rstrip("/") + "/"
    return tuple(
        FileStatus(path, len(stored.data), stored.modified_ms)
        for path, stored in sorted(content.items())
        if stored.data is not None
        and path.startswith(below)
        and (whole_tree or "/" not in path[len(below) :])
    )


def _created(content: Content, path: str, data: bytes | None, now_ms: int) -> Changes:
    return {**_folders(content, path, now_ms), path: Stored(data, now_ms)}


def _folders(content: Content, path: str, now_ms: int) -> Changes:
    """Missing folders above a path."""
    return {each: Stored(None, now_ms) for each in ancestors(path) if each not in content}


class SteppedFiles:
    """Implements `FileSystem` by handing each call to a function."""

    def __init__(self, perform: Perform) -> None:
        self.perform = perform

    @property
    def scheme(self) -> str:
        return "stepped"

    def uri(self, path: str) -> str:
        return f"memory:/{path}"

    def read_bytes(self, path: str) -> bytes:
        data: bytes = _found(self.perform(Call(Verb.READ, path)), path)
        return data

    def open_input(self, path: str) -> Any:
        return pa.BufferReader(self.read_bytes(path))

    def open_output(self, path: str) -> IO[bytes]:
        self.perform(Call(Verb.OPEN, path))
        return _Output(self, path)

    def write_bytes(self, path: str, data: bytes) -> None:
        self.perform(Call(Verb.WRITE, path, data))

    def copy(self, source: str, target: str) -> int:
        data = self.read_bytes(source)
        self.write_bytes(target, data)
        return len(data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return bool(self.perform(Call(Verb.PUT, path, data)))

    def replace(self, path: str, data: bytes) -> None:
        self.perform(Call(Verb.REPLACE, path, data))

    def move_if_absent(self, source: str, target: str) -> bool:
        return bool(_found(self.perform(Call(Verb.MOVE, source, target=target)), source))

    def exists(self, path: str) -> bool:
        return bool(self.perform(Call(Verb.EXISTS, path)))

    def list_dir(self, path: str) -> list[FileStatus]:
        return list(self.perform(Call(Verb.LIST, path)))

    def list_subdirs(self, path: str) -> list[str]:
        return list(self.perform(Call(Verb.SUBDIRS, path)))

    def list_tree(self, path: str) -> list[FileStatus]:
        return list(self.perform(Call(Verb.TREE, path)))

    def list_links(self, path: str, *, at_any_depth: bool = False) -> list[str]:
        return []

    def make_dirs(self, path: str) -> None:
        self.perform(Call(Verb.MAKE_DIRS, path))

    def make_durable(self, paths: Collection[str], *, below: str | None = None) -> None:
        """Do nothing that other actors could see."""

    def make_all_durable(self, path: str) -> None:
        """Do nothing that other actors could see."""

    def delete(self, path: str) -> bool:
        return bool(self.perform(Call(Verb.DELETE, path)))

    def delete_tree(self, path: str) -> None:
        self.perform(Call(Verb.DELETE_TREE, path))

    def remove_empty_dir(self, path: str) -> bool:
        return bool(self.perform(Call(Verb.REMOVE_DIR, path)))


def _found(result: Any, path: str) -> Any:
    if result is Missing.FILE:
        raise FileMissing(f"file {path} does not exist", path=path)
    return result


class _Output(io.BytesIO):
    """A file being written: it exists and is empty until its close."""

    def __init__(self, files: SteppedFiles, path: str) -> None:
        super().__init__()
        self._files = files
        self._path = path

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._files.perform(Call(Verb.CLOSE, self._path, data))

    def __del__(self) -> None:
        """An unclosed file stays as it is."""


class DictFiles(SteppedFiles):
    """The store without delays: every call takes effect at once."""

    def __init__(self, content: Content | None = None, now_ms: int = START_MS) -> None:
        super().__init__(self._carry_out)
        self.content: dict[str, Stored] = dict(content or {"/": Stored(None, now_ms)})
        self.now_ms = now_ms
        self.calls = 0

    def _carry_out(self, call: Call) -> Any:
        self.calls += 1
        result, changes = answer(self.content, call, self.now_ms)
        for path, stored in changes.items():
            if stored is None:
                self.content.pop(path, None)
            else:
                self.content[path] = stored
        return result
