"""Stores that create a file by renaming a finished one: HDFS, and others that need a lock for it.

HDFS never renames over a file, so a rename is a create-if-absent. The rename succeeded if the
temporary file is gone afterwards; this also tells after a lost answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import fsspec

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import FileMissing, StorageError, UnavailableError
from lakewright.storage.files.clients import client_at, drop_client_at
from lakewright.storage.files.fsspec_files import parent, status
from lakewright.storage.files.remote_files import RemoteFiles

_WEBHDFS = "webhdfs"
# Stores whose rename fails if the new name is taken.
_NEVER_REPLACE = ("hdfs", _WEBHDFS)
# Stores that refuse to remove a folder with files; others delete the files with it.
_REFUSE_FULL_FOLDERS = ("ftp", "sftp", "ssh")
# Stores whose listings tell symbolic links.
_TELL_LINKS = ("sftp", "ssh")
_LINK = "link"
_FOLDER_TRIES = 5
_BLOCK_BYTES = 8 << 20
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class RenamingFiles(RemoteFiles):
    """A store of folders and files at an address such as `user@host:port`, by absolute paths."""

    protocol: str = ""
    address: str = ""
    credentials = "put them where its client looks; Kerberos tickets come from kinit"

    @property
    def scheme(self) -> str:  # type: ignore[override]
        return self.protocol

    @property
    def needs_lock(self) -> bool:
        return self.protocol not in _NEVER_REPLACE

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        with self.translated("/"):
            found = client_at(self.protocol, self.address)
            # A cached listing would hide files of other writers.
            found.invalidate_cache()
            return found

    @contextmanager
    def translated(self, path: str) -> Iterator[None]:
        try:
            with super().translated(path):
                yield
        except UnavailableError:
            # The failure may be permanent: the connection may be dead or out of step.
            drop_client_at(self.protocol, self.address)
            raise

    def uri(self, path: str) -> str:
        return f"{self.protocol}://{self.address}{path}"

    def list_tree(self, path: str) -> list[FileStatus]:
        # fsspec would omit folders that it fails to list.
        found, folders = [], [path]
        while folders:
            for info in self._infos(folders.pop()):
                if info["type"] == "directory":
                    folders.append(info["name"].rstrip("/"))
                elif info["type"] != _LINK:
                    found.append(status(info))
        return found

    def list_links(self, path: str, *, at_any_depth: bool = False) -> list[str]:
        found: list[str] = []
        folders = [path] if self.protocol in _TELL_LINKS else []
        while folders:
            for info in self._infos(folders.pop()):
                if info["type"] == _LINK:
                    found.append(info["name"])
                elif at_any_depth and info["type"] == "directory":
                    folders.append(info["name"].rstrip("/"))
        return sorted(found)

    def make_dirs(self, path: str) -> None:
        for tries_left in reversed(range(_FOLDER_TRIES)):
            try:
                super().make_dirs(path)
            except StorageError:
                # Another process may make the same folders at the same time.
                if not tries_left and not self.exists(path):
                    raise
            else:
                return

    def replace(self, path: str, data: bytes) -> None:
        self._check_safe(path)
        with self.translated(path):
            if self.lock is None:
                self._write_whole(path, data)
            else:
                with self.lock.held(path):
                    self._write_whole(path, data)

    def delete(self, path: str) -> bool:
        # Not every store reports whether the file existed.
        return self.exists(path) and self._take_away(path)

    def remove_empty_dir(self, path: str) -> bool:
        if not self.exists(path) or self._infos(path):
            return False
        try:
            with self.translated(path):
                if self.protocol == _WEBHDFS:
                    self.fs.rm(path, recursive=False)
                elif self.protocol in _REFUSE_FULL_FOLDERS:
                    self.fs.rmdir(path)
        except StorageError:
            # Another process put a file into it.
            return False
        return not self.exists(path)

    def _infos(self, path: str) -> list[dict[str, Any]]:
        # Listing a file returns the file itself.
        below = f"{path.rstrip('/')}/"
        infos = super()._infos(path)
        return [info for info in infos if info["name"].startswith(below) and info["name"] != below]

    def _create(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        temporary = self._write_temporary(path, data)
        return self._rename(temporary, path, leave=False)

    def _move(self, source: str, target: str) -> bool:
        if not self.exists(source):
            raise FileMissing(f"file {source} does not exist", path=source)
        self.make_dirs(parent(target))
        if not self._rename(source, target, leave=True):
            return False
        # The source is also gone if another process moved or deleted it.
        if not self.exists(target):
            raise FileMissing(f"file {source} does not exist any more", path=source)
        return True

    def _rename(self, source: str, target: str, *, leave: bool) -> bool:
        """Rename a file if the new name is free; returns whether the file has the name.

        Without `leave`, a file whose new name is taken is deleted.
        """
        failure: StorageError | None = None
        try:
            with self.translated(target):
                self.fs.mv(source, target)
        except StorageError as error:
            failure = error
        if not self.exists(source):
            return True
        if not leave:
            self._take_away(source)
        if self.exists(target):
            return False
        raise failure or UnavailableError(
            f"file {source} could not be renamed to {target}; try later", path=target
        )

    def _write_whole(self, path: str, data: bytes) -> None:
        temporary = self._write_temporary(path, data)
        try:
            self._rename_over(temporary, path)
        except BaseException:
            with suppress(StorageError):
                self._take_away(temporary)
            raise

    def _rename_over(self, source: str, target: str) -> None:
        if self.protocol == _WEBHDFS:
            # The only atomic replace of HDFS, for which the client has no method.
            self.fs._call(  # noqa: SLF001
                "RENAME",
                method="put",
                path=source,
                destination=target,
                renameoptions="OVERWRITE",
            )
            return
        if self.protocol in _NEVER_REPLACE:
            # Readers of hints tolerate a hint that is missing for a moment.
            self._take_away(target)
        self.fs.mv(source, target)

    def _write_temporary(self, path: str, data: bytes) -> str:
        """A finished file beside `path`, under a hidden name that readers of the format skip."""
        folder, name = path.rsplit("/", 1)
        temporary = f"{folder}/.{name}.{self.env.new_id()}.tmp"
        self.write_bytes(temporary, data)
        return temporary

    @property
    def _input_options(self) -> dict[str, Any]:
        return {"block_size": _READ_BYTES}

    @property
    def _output_options(self) -> dict[str, Any]:
        return {"block_size": _BLOCK_BYTES}
