"""Durability on a local disk: flushed bytes and flushed names outlive a power loss.

A file's bytes are flushed with the file, its name with the folder that holds it.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from lakewright.storage.errors import InvalidRequestError

DURABLE_VARIABLE = "LAKEWRIGHT_DURABLE"
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
# Concurrent flushes cost little more than one.
_AT_ONCE = 8
# From this number of files on, one call flushes the whole file system first.
_MANY = 64
# Errors of file systems that cannot flush folders.
_NOT_FLUSHED = (errno.EINVAL, errno.ENOTSUP)


def is_durable(asked: bool | None) -> bool:
    """Whether writers flush; the variable LAKEWRIGHT_DURABLE decides where the caller does not.

    Raises:
        InvalidRequestError: the variable is neither true nor false.
    """
    if asked is not None:
        return asked
    said = os.environ.get(DURABLE_VARIABLE, "").strip().lower()
    if said and said not in (*_YES, *_NO):
        raise InvalidRequestError(
            f"{DURABLE_VARIABLE}={said!r} is neither true nor false; set it to one of them"
        )
    return said not in _NO


def flush(files: Collection[str], folders: Collection[str] = ()) -> None:
    """Flush the bytes of files, and the names in folders; missing ones are skipped.

    Raises:
        OSError: the disk failed to write some bytes, in this call or earlier.
    """
    paths = [*files, *folders]
    if len(paths) >= _MANY:
        # Each file is flushed again by itself: only that call reports an earlier failure to write
        # it.
        flush_all(paths[0])
    work = [partial(_flush_file, path) for path in files]
    work += [partial(_flush_folder, path) for path in folders]
    if len(work) == 1:
        work[0]()
    elif work:
        with ThreadPoolExecutor(min(_AT_ONCE, len(work))) as threads:
            for done in [threads.submit(each) for each in work]:
                done.result()


def flush_all(path: str) -> None:
    """Flush everything on the file system of a path, or of its nearest existing parent.

    Raises:
        OSError: the disk failed to write some bytes.
    """
    there = path
    while not os.path.exists(there) and there != os.path.dirname(there):
        there = os.path.dirname(there)
    opened = os.open(there, os.O_RDONLY)
    try:
        _flush_file_system(opened)
    finally:
        os.close(opened)


def _flush_file_system(opened: int) -> None:
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        # Other systems than Linux only have a call that flushes all disks.
        os.sync()
    elif syncfs(opened) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _flush_file(path: str) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        _flush(path)


def _flush_folder(path: str) -> None:
    try:
        # A folder that may not be listed is not one of ours, so its name was flushed before.
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            _flush(path)
    except OSError as error:
        if error.errno not in _NOT_FLUSHED:
            raise


def _flush(path: str) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def folders_to(path: str, below: str | None) -> list[str]:
    """The folders that lead to a path: the folder of the path, and its parents below `below`."""
    folder = path.rsplit("/", 1)[0] or "/"
    found = [folder]
    top = None if below is None else below.rstrip("/")
    if top is None or not f"{folder}/".startswith(f"{top}/"):
        return found
    while folder not in (top, "/"):
        folder = folder.rsplit("/", 1)[0] or "/"
        found.append(folder)
    return found
