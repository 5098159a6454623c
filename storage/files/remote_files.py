"""Common base of stores reached over a network: safe creation, streams, error translation."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any, Self

from fsspec.spec import AbstractBufferedFile

from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.errors import (
    AccessRefused,
    FileMissing,
    StorageError,
    StoreNotFound,
    UnavailableError,
    UnsafeStore,
)
from lakewright.storage.files.fsspec_files import FsspecFiles, parent
from lakewright.storage.files.locks import Lock
from lakewright.storage.files.store_failures import gives_no_reason, harmless, told

# Bytes read at once for a small request: a footer, a header, a block of rows.
_READ_BYTES = 1 << 20
# Bytes copied at once if a file is moved through this process.
_COPY_BYTES = 8 << 20


@dataclass(frozen=True)
class RemoteFiles(FsspecFiles):
    """A store that writers on several machines share.

    A store without a conditional create uses `lock` for it; without a lock, such a store can only
    be read.
    """

    env: Env = field(default_factory=SystemEnv)
    lock: Lock | None = None
    scheme = ""
    # Advice for errors: where the client looks for credentials.
    credentials = ""
    # Whether Paimon's clients in Java replace a file that is there, unless they hold a lock.
    others_replace = False

    @property
    def needs_lock(self) -> bool:
        """Whether the store has no conditional create that could be probed."""
        return False

    def uri(self, path: str) -> str:
        return f"{self.scheme}://{path}"

    @contextmanager
    def translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except Exception as error:
            known = told(
                error,
                path,
                store=f"{self.scheme}://",
                credentials=self.credentials,
                uri=self.uri(path),
            )
            if known is None:
                raise
            if isinstance(known, FileMissing):
                known = self._missing(path, known, error)
            elif isinstance(known, AccessRefused) and gives_no_reason(error):
                known = self._refused(path, known)
            raise known from harmless(error)

    def open_input(self, path: str) -> Any:
        with self.translated(path):
            raw = _StoreInput(self, path, self.fs.open(path, "rb", **self._input_options))
        return io.BufferedReader(raw, _READ_BYTES)

    def open_output(self, path: str) -> IO[bytes]:
        self._check_safe(path)
        with self.translated(path):
            self.make_dirs(parent(path))
            output: Any = StoreOutput(self, path, self.fs.open(path, "wb", **self._output_options))
        return output  # type: ignore[no-any-return]

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._check_safe(path)
        with self.translated(path):
            if self.lock is None:
                return self._create(path, data)
            with self.lock.held(path):
                if self._refuses_to_replace(path):
                    return self._create(path, data)
                return self._create_alone(path, data)

    def move_if_absent(self, source: str, target: str) -> bool:
        self._check_safe(target)
        with self.translated(source):
            if self.lock is None:
                return self._move(source, target)
            with self.lock.held(target):
                return not self.exists(target) and self._move(source, target)

    def exists(self, path: str) -> bool:
        # `fs.exists` would report a missing bucket, and a refusal, as a missing file.
        try:
            with self.translated(path):
                self.fs.info(path)
        except FileMissing:
            return False
        return True

    def _check_safe(self, path: str) -> None:
        if self.lock is None and not self._refuses_to_replace(path):
            raise UnsafeStore(
                f"{self.uri(path)} cannot be created safely: its store has no create-if-absent, so"
                " writers could replace each other's commits; only read it, or "
                "give all writers one lock, as Catalog.open(…, lock=…) or LAKEWRIGHT_LOCK: "
                "sqlite:///path on one machine, postgresql://host/database across machines",
                path=path,
            )

    def _refuses_to_replace(self, path: str) -> bool:
        """Whether the store itself creates a file only if it is absent."""
        return not self.needs_lock

    def _create_alone(self, path: str, data: bytes) -> bool:
        """Create a file under the lock, and check its content."""
        if self.exists(path):
            return False
        self._write_whole(path, data)
        if self.read_bytes(path) != data:
            raise UnavailableError(
                f"file {path} does not hold the bytes that were written to it: another process "
                "writes to it without the lock; give every writer the same lock",
                path=path,
            )
        return True

    @abstractmethod
    def _create(self, path: str, data: bytes) -> bool:
        """Create a whole file if it is absent, in one atomic step of the store."""

    @abstractmethod
    def _write_whole(self, path: str, data: bytes) -> None:
        """Set the whole content of a file in one atomic step."""

    @abstractmethod
    def _move(self, source: str, target: str) -> bool: ...

    def _missing(
        self, path: str, missing: FileMissing, error: Exception
    ) -> FileMissing | StoreNotFound:
        """The error for a missing file, or for a missing bucket."""
        return missing

    def _refused(self, path: str, refused: AccessRefused) -> StorageError:
        """The error for a refusal without a reason."""
        return refused

    @property
    def _input_options(self) -> dict[str, Any]:
        return {"cache_type": "none"}

    @property
    def _output_options(self) -> dict[str, Any]:
        return {}

    def keep_up(self, handle: Any) -> None:
        """Let an open file go on with the store's present client."""

    def copy_into(self, source: str, output: Any) -> None:
        """Copy a file's bytes into an open file, piece by piece."""
        with self.open_input(source) as file:
            while piece := file.read(_COPY_BYTES):
                output.write(piece)


class _StoreInput(io.RawIOBase):
    """A file being read, whose failures become storage errors."""

    def __init__(self, owner: RemoteFiles, path: str, handle: Any) -> None:
        super().__init__()
        self._owner = owner
        self._path = path
        self._handle = handle

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._owner.translated(self._path):
            self._owner.keep_up(self._handle)
            data = self._handle.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        # Some handles return the new position, some do not, and some ask the store for the end.
        with self._owner.translated(self._path):
            self._handle.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._handle.tell())

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._handle.close()


class StoreOutput:
    """A file being written; closing it makes it visible, unless a write failed before."""

    def __init__(self, owner: RemoteFiles, path: str, handle: Any) -> None:
        self._owner = owner
        self._path = path
        self._handle = handle
        self._failed = False
        self._written = 0
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._failed = self._failed or error is not None
        self.close()

    def write(self, data: Any) -> int:
        try:
            with self._owner.translated(self._path):
                self._owner.keep_up(self._handle)
                self._handle.write(data)
        except BaseException:
            self._failed = True
            raise
        # Counted here, since some handles return neither the bytes written nor their position.
        size = memoryview(data).nbytes
        self._written += size
        return size

    def flush(self) -> None:
        """Do nothing: the buffer is sent when it is full, and at the end."""

    def tell(self) -> int:
        return self._written

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._failed:
            self.discard()
            return
        try:
            with self._owner.translated(self._path):
                self._owner.keep_up(self._handle)
                self._handle.close()
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Drop the file, so that it never becomes visible."""
        self.closed = True
        # The failure was raised before; the store drops the incomplete upload in time.
        with suppress(StorageError), self._owner.translated(self._path):
            if isinstance(self._handle, AbstractBufferedFile):
                # Otherwise the garbage collector would finish the incomplete file.
                self._handle.closed = True
                self._handle.discard()
            else:
                self._handle.close()
