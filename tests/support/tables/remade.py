"""A table in memory that is made once, and lies there as it was for every try."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fsspec.implementations.memory import MemoryFileSystem

from lakewright.storage import Catalog, Table
from tests.support.tables.environment import FixedClock, FixedEnv, SeededIds
from tests.support.tables.fixtures import empty_memory

_WAREHOUSE = "memory://made-once"


@dataclass
class Remade:
    """Puts back what `make` left: one at a time, since memory holds nothing besides."""

    make: Callable[[Catalog], Table]
    _files: dict[str, Any] = field(init=False)
    _folders: list[str] = field(init=False)
    _name: str = field(init=False)
    _now_ms: int = field(init=False)
    _seeds: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        empty_memory()
        env = FixedEnv()
        self._name = self.make(Catalog.open(_WAREHOUSE, env=env)).name
        self._now_ms = env.clock.now_ms
        # A file in memory is never changed: another takes its place.
        self._files = dict(MemoryFileSystem.store)
        self._folders = list(MemoryFileSystem.pseudo_dirs)

    def again(self) -> Table:
        """The table as it was made, with a clock and ids of its own."""
        MemoryFileSystem.store.clear()
        MemoryFileSystem.store.update(self._files)
        MemoryFileSystem.pseudo_dirs[:] = self._folders
        env = FixedEnv(FixedClock(self._now_ms), SeededIds(next(self._seeds)))
        return Catalog.open(_WAREHOUSE, env=env).table(self._name)
