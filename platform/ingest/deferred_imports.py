"""Faster imports of a large library of which a run needs only a part.

Rarely used modules are loaded on first use. The garbage collector takes a sixth of the import time,
and imports create no garbage, so the collector is off during the import.
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
    """Within the block, imports of these modules are delayed until their first use.

    A missing module still raises at the import.
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
