"""Storage's interfaces to the outside: a clock, unique ids, and a file system.

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

# Whether the system can restrict a process to some cores; then only these count.
_KNOWS_AFFINITY = hasattr(os, "sched_getaffinity")


class Env(Protocol):
    """Clock, ids and cores."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def new_id(self) -> str:
        """A unique name."""
        ...

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait."""
        ...

    def jitter(self) -> float:
        """A random number in [0, 1), which spreads the retries of competing committers."""
        ...

    def cores(self) -> int:
        """The number of concurrent pieces of work; 1 keeps everything in order."""
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


def seed_after_fork() -> None:
    """Seed numpy's shared generator anew; in every fork it would draw the same numbers for users.

    Python seeds its own generator in each fork.
    """
    import numpy as np  # noqa: PLC0415  # only forks need it, and have it

    np.random.seed()  # noqa: NPY002  # it is this one that is shared


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

    A missing file raises `FileMissing`, an unreachable store `UnavailableError`, a missing store
    `StoreNotFound`, and refused access `AccessError`. Creating files raises `UnsafeStore` on a
    store where writers could replace each other's files.
    """

    @property
    def scheme(self) -> str: ...

    def uri(self, path: str) -> str:
        """The path as a URI for other tools, such as `file:///data/x`."""
        ...

    def read_bytes(self, path: str) -> bytes: ...

    def open_input(self, path: str) -> Any:
        """A seekable binary source that pyarrow can read."""
        ...

    def open_output(self, path: str) -> IO[bytes]:
        """Open a new file and create its folders; it becomes visible at once, or at close."""
        ...

    def write_bytes(self, path: str, data: bytes) -> None:
        """Create a file that no other process writes."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create `path` with exactly `data`, atomically; False if it exists.

        The existing file may be our own: after a lost answer, the request was sent again.
        """
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Set the whole content of `path`; readers see the old or the new content."""
        ...

    def move_if_absent(self, source: str, target: str) -> bool:
        """Move a file atomically; False if the target exists.

        A failure may leave it in both places.
        """
        ...

    def copy(self, source: str, target: str) -> int:
        """Give a file that never changes a copy under a new name; returns the size of the copy.

        The store makes it where it can: a local disk gives the same bytes a second name. The copy
        is as young as a file that is written now.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def list_dir(self, path: str) -> list[FileStatus]:
        """Files directly inside a folder, none if it does not exist."""
        ...

    def list_subdirs(self, path: str) -> list[str]:
        """Names of the folders directly inside, none if the folder does not exist."""
        ...

    def list_tree(self, path: str) -> list[FileStatus]:
        """Files at any depth."""
        ...

    def list_links(self, path: str, *, at_any_depth: bool = False) -> list[str]:
        """Paths of the symbolic links in a folder, which no other listing shows or follows."""
        ...

    def make_dirs(self, path: str) -> None: ...

    def make_durable(self, paths: Collection[str], *, below: str | None = None) -> None:
        """Make files, and the folder names on their paths from `below`, outlive a power loss.

        For a deleted path, this makes the deletion outlive it. Files that are put, replaced or
        moved are durable without this call; files that are written or deleted are not.
        """
        ...

    def make_all_durable(self, path: str) -> None:
        """Make all past changes in the store of a path, by any process, outlive a power loss."""
        ...

    def delete(self, path: str) -> bool:
        """Remove a file; False if it did not exist."""
        ...

    def delete_tree(self, path: str) -> None:
        """Remove a folder and everything in it."""
        ...

    def remove_empty_dir(self, path: str) -> bool:
        """Remove an empty folder; False if nothing was removed, as in stores without folders."""
        ...
