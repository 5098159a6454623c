"""Small metadata files that were read, known again by how the store lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakewright.storage.env import Env, FileStatus, SystemEnv

_T = TypeVar("_T")
# A file written within this time is read again: it may be replaced, and be listed alike. Clocks of
# the store and of this machine may differ by as much.
_SETTLED_MS = 600_000


@dataclass(slots=True)
class SeenFiles:
    """What files of snapshots, tags and changelogs held while they were listed as they are now."""

    env: Env = field(default_factory=SystemEnv)
    by_path: dict[str, tuple[FileStatus, Any]] = field(default_factory=dict)

    def read(self, status: FileStatus, read: Callable[[], _T]) -> _T:
        """What `read` returns, or returned for the same listing; it is of one type for a path."""
        known = self.by_path.get(status.path)
        if known is not None and known[0] == status:
            noun: _T = known[1]
            return noun
        noun = read()
        if is_settled(status, self.env.now_ms()):
            self.by_path[status.path] = status, noun
        return noun


def is_settled(status: FileStatus, now_ms: int) -> bool:
    """Whether a file that replaces this one from now on is listed otherwise."""
    return now_ms - status.modified_ms > _SETTLED_MS
