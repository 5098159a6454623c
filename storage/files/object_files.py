"""Object stores: no folders, files that appear whole, and a conditional create."""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import (
    AccessRefused,
    ClockJumped,
    FileMissing,
    StorageError,
    StoreNotFound,
    UnavailableError,
)
from lakewright.storage.files.clients import FOUND_OUT
from lakewright.storage.files.fsspec_files import parent
from lakewright.storage.files.remote_files import RemoteFiles, StoreOutput
from lakewright.storage.files.store_failures import (
    is_conflict,
    is_file_missing,
    is_taken,
    knows_no_conditions,
    store_not_found,
)

# A larger file is uploaded in parts of this size while it is written.
PART_BYTES = 8 << 20
_DELETES_AT_ONCE = 16
_CONFLICT_TRIES = 8
_CONFLICT_WAIT_MS = 50


@dataclass(frozen=True)
class ObjectFiles(RemoteFiles):
    """A bucket's objects by `bucket/key`; folders exist only as parts of names."""

    others_replace = True

    def write_bytes(self, path: str, data: bytes) -> None:
        self._check_safe(path)
        with self.translated(path):
            self._write_whole(path, data)

    def copy(self, source: str, target: str) -> int:
        self._check_safe(target)
        with self.translated(source):
            self.fs.cp_file(source, target)
            return int(self.fs.size(target))

    def replace(self, path: str, data: bytes) -> None:
        self.write_bytes(path, data)

    def make_dirs(self, path: str) -> None:
        """Do nothing: a folder exists as soon as a file is in it."""

    def remove_empty_dir(self, path: str) -> bool:
        """Return False: a folder vanishes with its last file."""
        return False

    def delete(self, path: str) -> bool:
        # The store does not report whether the file existed.
        return self.exists(path) and self._take_away(path)

    def delete_tree(self, path: str) -> None:
        paths = [each.path for each in self.list_tree(path)]
        with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
            list(pool.map(self._take_away, paths))

    def list_tree(self, path: str) -> list[FileStatus]:
        found = super().list_tree(path)
        if not found and not self._has_bucket(path.split("/", maxsplit=1)[0]):
            raise store_not_found(path, f"{self.scheme}://")
        return [each for each in found if each.path.startswith(f"{path}/")]

    def _infos(self, path: str) -> list[dict[str, Any]]:
        # A marker object that other tools create for a folder is not a file of the table.
        below = f"{path}/"
        return [info for info in super()._infos(path) if info["name"].rstrip("/").startswith(below)]

    def _refuses_to_replace(self, path: str) -> bool:
        # Probed once per process; several accounts may have a bucket of that name.
        bucket = self.uri(path.split("/", maxsplit=1)[0])
        if bucket not in FOUND_OUT:
            with self.translated(path):
                FOUND_OUT[bucket] = self._probe(f"{parent(path)}/.probe.{self.env.new_id()}.tmp")
        return FOUND_OUT[bucket]

    def _probe(self, path: str) -> bool:
        """Probe with a temporary file whether the store refuses a second create."""
        try:
            self._create(path, b"1")
            return not self._create(path, b"2")
        except Exception as error:
            if not knows_no_conditions(error):
                raise
            return False
        finally:
            self._take_away(path)

    def _create(self, path: str, data: bytes) -> bool:
        for attempt in range(_CONFLICT_TRIES):
            try:
                self._put_new(path, data)
            except Exception as error:
                if is_taken(error):
                    return False
                if not is_conflict(error):
                    raise
            else:
                return True
            self.env.sleep_ms(_CONFLICT_WAIT_MS * 2**attempt * (0.5 + self.env.jitter()))
        raise UnavailableError(
            f"file {path} cannot be created: each of {_CONFLICT_TRIES} attempts met a concurrent "
            "request for it; try later",
            path=path,
        )

    def _put_new(self, path: str, data: bytes) -> None:
        self.fs.pipe_file(path, data, mode="create")

    def _write_whole(self, path: str, data: bytes) -> None:
        self.fs.pipe_file(path, data)

    def _move(self, source: str, target: str) -> bool:
        """Copy in parts, which become visible together, then delete the source."""
        if self.exists(target):
            # Checked first, so that no large copy is made in vain.
            return False
        output = self._stream_new(target)
        try:
            with output:
                self.copy_into(source, output)
        except Exception as error:
            if not is_taken(error):
                raise
            # After a lost answer the client sent the request again, and found its own file.
            if not self._is_same(source, target):
                return False
        self._take_away(source)
        return True

    def _is_same(self, one: str, other: str) -> bool:
        with closing(self.open_input(one)) as left, closing(self.open_input(other)) as right:
            while piece := left.read(PART_BYTES):
                if piece != right.read(PART_BYTES):
                    return False
            return not right.read(1)

    def _stream_new(self, path: str) -> StoreOutput:
        """A file being written that becomes visible at close, if the name is free."""
        # A store without conditional creates rejects the condition; there the lock protects the
        # file.
        mode = "xb" if self._refuses_to_replace(path) else "wb"
        return StoreOutput(self, path, self.fs.open(path, mode, **self._output_options))

    @property
    def _output_options(self) -> dict[str, Any]:
        return {"block_size": PART_BYTES}

    def _missing(
        self, path: str, missing: FileMissing, error: Exception
    ) -> FileMissing | StoreNotFound:
        """A missing bucket must never look like a table without snapshots."""
        bucket, inside, _ = path.partition("/")
        there = not inside or is_file_missing(error) or self._has_bucket(bucket)
        return missing if there else store_not_found(path, f"{self.scheme}://")

    def _refused(self, path: str, refused: AccessRefused) -> StorageError:
        """The reason why access is refused, where the answer has no body, as that to a HEAD."""
        bucket, inside, _ = path.partition("/")
        try:
            if inside:
                self._has_bucket(bucket)
        except ClockJumped as error:
            return error
        except StorageError:
            # Refused as well; the error about the file says more.
            pass
        return refused

    def _has_bucket(self, bucket: str) -> bool:
        try:
            with self.translated(bucket):
                self._ask_for_bucket(bucket)
        except (FileMissing, StoreNotFound):
            return False
        return True

    @abstractmethod
    def _ask_for_bucket(self, bucket: str) -> None:
        """Make a small request to a bucket, which fails if the bucket does not exist."""
