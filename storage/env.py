"""What storage asks of the world outside: a clock, fresh ids, and a file system.

Nothing else in the package reads a clock, draws a random number or touches a
disk, so a test replaces all three by passing another `Env`.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import IO, Any, Protocol

# Where a process may be kept to some of the machine's cores, those count.
_KNOWS_AFFINITY = hasattr(os, "sched_getaffinity")


class Env(Protocol):
    """Clock, ids and cores."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def new_id(self) -> str:
        """A name nobody else has."""
        ...

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1), to keep racing committers from marching in step."""
        ...

    def cores(self) -> int:
        """How many pieces of work to do at once; with 1 everything happens in order."""
        ...


@dataclass(frozen=True)
class SystemEnv:
    """The machine's own clock and randomness."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def new_id(self) -> str:
        return str(uuid.uuid4())

    def sleep_ms(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)

    def jitter(self) -> float:
        return random.random()

    def cores(self) -> int:
        return len(os.sched_getaffinity(0)) if _KNOWS_AFFINITY else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One file of a listing."""

    path: str
    size: int
    modified_ms: int

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


class FileSystem(Protocol):
    """The file operations a table needs; paths are absolute within the store.

    Missing files raise `FileMissing`, an unreachable store `UnavailableError`, one that is not
    there `StoreNotFound`, one that lets nobody in `AccessError`, and one where writers could
    replace each other's files `UnsafeStore`, unless it is only read.
    """

    @property
    def scheme(self) -> str: ...

    def uri(self, path: str) -> str:
        """The path as other tools name it, for example `file:///data/x`."""
        ...

    def read_bytes(self, path: str) -> bytes: ...

    def open_input(self, path: str) -> Any:
        """A seekable binary source that pyarrow can read."""
        ...

    def open_output(self, path: str) -> IO[bytes]:
        """A new file, its folders made on the way; visible at once, or only when it is closed."""
        ...

    def write_bytes(self, path: str, data: bytes) -> None:
        """Create a file nobody else writes."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create `path` with exactly `data`, or return False since it exists; never half of it.

        What exists may be our own: where an answer was lost, the request was sent again.
        """
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Set the whole content of `path`; readers see the old or the new, never a mixture."""
        ...

    def move_if_absent(self, source: str, target: str) -> bool:
        """Give a file another place, or return False since there is one; never half of it there.

        A failure on the way may leave it in both places.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def list_dir(self, path: str) -> list[FileStatus]:
        """Files directly inside, none if there is no such folder."""
        ...

    def list_subdirs(self, path: str) -> list[str]:
        """Names of the folders directly inside, none if there is no such folder."""
        ...

    def list_tree(self, path: str) -> list[FileStatus]:
        """Files at any depth."""
        ...

    def make_dirs(self, path: str) -> None: ...

    def make_durable(self, paths: Collection[str], *, below: str | None = None) -> None:
        """Let files at paths, and the names that lead there from a folder, outlive a power loss.

        Of a path where nothing lies any more, that nothing does. What is put, replaced or moved
        needs no such call; what is written or deleted does.
        """
        ...

    def make_all_durable(self, path: str) -> None:
        """Let every change so far in the store of a path, by any process, outlive a power loss."""
        ...

    def delete(self, path: str) -> bool:
        """Remove a file; False if it was gone already."""
        ...

    def delete_tree(self, path: str) -> None:
        """Remove a folder and everything in it."""
        ...

    def remove_empty_dir(self, path: str) -> bool:
        """Remove a folder if nothing is in it; False also where there are no folders to remove."""
        ...
