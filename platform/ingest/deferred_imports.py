"""Imports of a large library, of which a run needs little.

Modules that only few uses of it need are loaded when they are needed. Nothing that an import
makes is garbage, and looking for some takes a sixth of the time.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


@contextmanager
def deferred(*names: str) -> Iterator[None]:
    """Modules of these names that are imported meanwhile are loaded when they are first used.

    One that is not installed is missed at once, as without this.
    """
    finder = _DeferringFinder(frozenset(names))
    collects = gc.isenabled()
    sys.meta_path.insert(0, finder)
    gc.disable()
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        if collects:
            gc.enable()


class _DeferringFinder(MetaPathFinder):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
