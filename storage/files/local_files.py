"""Local disk.

An atomic create-if-absent is a hard link to a finished temporary file: on every POSIX file system,
the link fails if the name is taken.

A power loss destroys what was not flushed. Unless `durable` is off, put, replace and move flush the
bytes and the name before they return. Writes and deletions are durable after `make_durable`, which
flushes many files together.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from lakewright.storage.env import Env, FileStatus, SystemEnv
from lakewright.storage.errors import (
    AlreadyExistsError,
    CorruptionError,
    FileMissing,
    NotWritten,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.durability import flush, flush_all, folders_to
from lakewright.storage.files.fsspec_files import FsspecFiles, parent, translated
from lakewright.storage.files.locks import Lock

# How often a new folder may vanish before that is an error.
_MOST_TAKEN_AWAY = 30
# Link errors after which the name certainly does not exist; after others, such as EIO, it may.
_NO_EFFECT = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMLINK, errno.EPERM, errno.EACCES)
# Errors where a file cannot have a second name, and can be copied: other disks, other owners.
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
# For fewer files of a folder, to open it takes longer.
_MANY_NAMES = 8
# A file rarely grows while it is read, and each read takes a buffer of this size.
_MORE_BYTES = 1 << 12
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class LocalFiles(FsspecFiles):
    """Local disk."""

    env: Env = field(default_factory=SystemEnv)
    # Whether a commit outlives a power loss; the writer decides, and its tasks inherit it.
    durable: bool = True
    # Clients that replace files need it; a hard link alone never does.
    lock: Lock | None = None
    scheme = "file"

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        # fsspec keeps one instance per process, so this is a look-up, and this object pickles.
        return LocalFileSystem()

    def uri(self, path: str) -> str:
        return Path(path).as_uri()

    def read_bytes(self, path: str) -> bytes:
        with translated(path):
            return _read_whole(path)

    def list_dir(self, path: str) -> list[FileStatus]:
        # fsspec asks for much more of each file, which takes ten times as long.
        # Pipes and devices are listed: a process that opens one by its name gets an error.
        return [*_statuses((entry for entry in _entries(path) if _is_listed(entry)), path)]

    def list_subdirs(self, path: str) -> list[str]:
        return sorted(entry.name for entry in _entries(path) if _is_folder(entry))

    def list_tree(self, path: str) -> list[FileStatus]:
        found: list[FileStatus] = []
        folders = [path]
        while folders:
            folder = folders.pop()
            for entry in _entries(folder):
                if _is_folder(entry):
                    folders.append(f"{folder.rstrip('/')}/{entry.name}")
                elif _is_file(entry):
                    found += _statuses([entry], folder)
        return found

    def list_links(self, path: str, *, at_any_depth: bool = False) -> list[str]:
        found: list[str] = []
        folders = [path]
        while folders:
            folder = folders.pop().rstrip("/")
            for entry in _entries(folder or "/"):
                if entry.is_symlink():
                    found.append(f"{folder}/{entry.name}")
                elif at_any_depth and _is_folder(entry):
                    folders.append(f"{folder}/{entry.name}")
        return sorted(found)

    def open_input(self, path: str) -> Any:
        with translated(path):
            _check_is_file(os.stat(path).st_mode, path)
            return pa.OSFile(path, "rb")

    def open_output(self, path: str) -> IO[bytes]:
        return self._new_file(path, "wb")

    def copy(self, source: str, target: str) -> int:
        try:
            with translated(source):
                # Both names have one age, by which orphans are removed, and the copy is young.
                os.utime(source)
            new_names, is_new = _in_folder(lambda: _linked(source, target))
        except StorageError as error:
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in _NO_LINKS:
                raise
            return super().copy(source, target)
        if not is_new:
            raise AlreadyExistsError(f"{target} exists, so nothing was copied there")
        self._flush_names(*new_names)
        with translated(target):
            return os.stat(target).st_size

    def put_if_absent(self, path: str, data: bytes) -> bool:
        locked = self.lock.held(path) if self.lock else nullcontext()
        with self._temporary(path, data) as temporary, locked:
            is_ours = _link(temporary, path)
        if is_ours:
            self._flush_names(parent(path))
        return is_ours

    def move_if_absent(self, source: str, target: str) -> bool:
        new_names, is_ours = _in_folder(lambda: _linked(source, target))
        if not is_ours:
            return False
        self._flush_names(parent(target), *new_names)
        with translated(source):
            os.unlink(source)
        return True

    def replace(self, path: str, data: bytes) -> None:
        with self._temporary(path, data) as temporary, translated(path):
            os.replace(temporary, path)
        self._flush_names(parent(path))

    def make_dirs(self, path: str) -> None:
        self._flush_names(*_made_dirs(path))

    def delete_tree(self, path: str) -> None:
        if os.path.islink(path):
            raise UnsupportedError(
                f"{path} is a symbolic link, and what it leads to is not deleted through it; "
                "delete the link by hand",
                path=path,
            )
        if os.path.lexists(path):
            with translated(path):
                shutil.rmtree(path)

    def move_folder(self, path: str, to: str) -> None:
        """Give a folder another name, in one step.

        Raises:
            AlreadyExistsError: something lies there.
            UnsupportedError: the folder is a symbolic link, or the name is on another disk.
        """
        if os.path.islink(path):
            raise UnsupportedError(f"{path} is a symbolic link, which stays where it is", path=path)
        try:
            os.rename(path, to)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise AlreadyExistsError(f"something lies at {to}; name another place") from error
            raise UnsupportedError(f"{path} cannot move to {to}: {error}", path=path) from error
        self._flush_names(path.rpartition("/")[0], to.rpartition("/")[0])

    def remove_empty_dir(self, path: str) -> bool:
        try:
            os.rmdir(path)
        except OSError:
            return False
        return True

    def make_durable(self, paths: Collection[str], *, below: str | None = None) -> None:
        if not self.durable or not paths:
            return
        folders = {folder for path in paths for folder in folders_to(path, below)}
        with translated(min(folders, key=len)):
            flush(paths, folders)

    def make_all_durable(self, path: str) -> None:
        if self.durable:
            with translated(path):
                flush_all(path)

    def _take_away(self, path: str) -> bool:
        try:
            with translated(path):
                os.unlink(path)
        except FileMissing:
            return False
        return True

    def _flush_names(self, *folders: str) -> None:
        if self.durable and folders:
            with translated(folders[0]):
                flush((), folders)

    def _new_file(self, path: str, mode: str) -> IO[bytes]:
        new_names, output = _in_folder(lambda: _opened(path, mode))
        try:
            # Flushed only here: another process may remove a new folder while it is empty.
            self._flush_names(*new_names)
        except BaseException:
            output.close()
            raise
        return output

    @contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[str]:
        """A finished file beside `path`, under a hidden name that readers of the format skip."""
        folder, name = path.rsplit("/", 1)
        temporary = f"{folder}/.{name}.{self.env.new_id()}.tmp"
        try:
            self._write_temporary(temporary, data)
            yield temporary
        finally:
            # Already deleted if it was renamed.
            with suppress(OSError):
                os.unlink(temporary)

    def _write_temporary(self, path: str, data: bytes) -> None:
        try:
            with self._new_file(path, "xb") as output:
                output.write(data)
                output.flush()
                if self.durable:
                    with translated(path):
                        os.fsync(output.fileno())
        except UnavailableError as error:
            raise NotWritten(error.message, path=path) from error.__cause__


def sizes_and_times(folder: str, names: Sequence[str]) -> array[int]:
    """Of each file of a folder its size and its time of change, in nanoseconds; through links.

    Raises:
        FileMissing: one of them does not exist.
    """
    found = array("q")
    # From an open folder, the system does not walk to it for each file.
    handle = _handle_of(folder) if len(names) >= _MANY_NAMES else None
    try:
        asked = names if handle is not None else [f"{folder}/{name}" for name in names]
        for name, seen in zip(names, map(partial(os.stat, dir_fd=handle), asked), strict=True):
            if not stat.S_ISREG(seen.st_mode):
                _check_is_file(seen.st_mode, f"{folder}/{name}")
            found.append(seen.st_size)
            found.append(seen.st_mtime_ns)
    except OSError as error:
        name = str(error.filename).rpartition("/")[2]
        with translated(f"{folder}/{name}"):
            raise
    finally:
        if handle is not None:
            os.close(handle)
    return found


def _handle_of(folder: str) -> int | None:
    """An open folder, for its descriptor alone; None if that is not possible."""
    flags = getattr(os, "O_PATH", None)
    with suppress(OSError):
        return None if flags is None else os.open(folder, flags)
    return None


def _read_whole(path: str) -> bytes:
    try:
        # A pipe without a writer would keep any other open waiting.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:
            _check_is_file(os.stat(path).st_mode, path)
        raise
    try:
        seen = os.fstat(handle)
        _check_is_file(seen.st_mode, path)
        data = os.read(handle, seen.st_size + 1)
        # The system reads at most 2 GB at once.
        while more := os.read(handle, max(seen.st_size - len(data), _MORE_BYTES)):
            data += more
        return data
    finally:
        os.close(handle)


def _check_is_file(mode: int, path: str) -> None:
    """Refuse what a read may wait for without end.

    Raises:
        CorruptionError: it is a pipe, a socket or a device.
    """
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise CorruptionError(
            f"{path} is {kind}, and only regular files are read; put the file itself in its "
            "place, or take it away",
            path=path,
        )


class _LocalOutput(io.BufferedWriter):
    """A file being written, whose failures become storage errors."""

    def __init__(self, path: str, raw: Any) -> None:
        super().__init__(raw)
        self._path = path

    @classmethod
    def opened(cls, path: str, mode: str) -> _LocalOutput:
        """Create a file and open it for writing."""
        with translated(path):
            return cls(path, open(path, mode, buffering=0))

    def write(self, data: Any) -> int:
        with translated(self._path):
            return super().write(data)

    def flush(self) -> None:
        with translated(self._path):
            super().flush()

    def close(self) -> None:
        with translated(self._path):
            super().close()


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    """What a folder holds, nothing if there is none."""
    with (
        suppress(FileMissing),
        translated(path),
        suppress(NotADirectoryError),
        os.scandir(path) as found,
    ):
        yield from found


def _is_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


def _is_listed(entry: os.DirEntry[str]) -> bool:
    return _is_file(entry) or not (entry.is_symlink() or _is_folder(entry))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _statuses(entries: Iterable[os.DirEntry[str]], folder: str) -> Iterator[FileStatus]:
    """The status of each entry, without those that were deleted meanwhile."""
    below = folder.rstrip("/")
    for entry in entries:
        with suppress(FileNotFoundError):
            found = entry.stat(follow_symlinks=False)
            modified_ms = int(found.st_mtime * 1000)
            yield FileStatus(f"{below}/{entry.name}", found.st_size, modified_ms)


def _in_folder(make: Callable[[], _Made]) -> _Made:
    """Create something in a new folder; retried, since others may remove an empty folder."""
    for _ in range(_MOST_TAKEN_AWAY):
        try:
            return make()
        except FileMissing:
            continue
        except UnavailableError as error:
            # The system may report an existing folder that vanishes during the call.
            if not isinstance(error.__cause__, FileExistsError):
                raise
    return make()


def _opened(path: str, mode: str) -> tuple[list[str], IO[bytes]]:
    """The folders with new names, and a new file."""
    with suppress(FileMissing):
        return [], _LocalOutput.opened(path, mode)
    return _made_dirs(parent(path)), _LocalOutput.opened(path, mode)


def _linked(source: str, target: str) -> tuple[list[str], bool]:
    """The folders with new names, and whether the link was made."""
    new_names = _made_dirs(parent(target))
    return new_names, _link(source, target)


def _made_dirs(path: str) -> list[str]:
    """Make a folder and its parents; returns the folders with new names."""
    above, holding = path, []
    with translated(path):
        while not os.path.isdir(above) and above != parent(above):
            above = parent(above)
            holding.append(above)
        os.makedirs(path, exist_ok=True)
    return holding


def _link(source: str, target: str) -> bool:
    """Give a file a second name; False if the name is taken."""
    try:
        with translated(target):
            try:
                os.link(source, target)
            except FileExistsError:
                return False
    except UnavailableError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _NO_EFFECT:
            raise NotWritten(error.message, path=target) from error.__cause__
        raise
    return True
