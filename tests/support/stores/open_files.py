"""Files that a process has open: how many, and a limit on them for a while."""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")


def open_below(folder: Path) -> list[str]:
    """Paths of the files below a folder that this process has open."""
    found = []
    for descriptor in _DESCRIPTORS.iterdir():
        try:
            found.append(str(descriptor.readlink()))
        except FileNotFoundError:
            # The descriptor of the listing itself.
            continue
    return sorted(path for path in found if path.startswith(str(folder)))


@contextmanager
def at_most_more_open(count: int) -> Iterator[None]:
    """Limit the files that the process may open, and suspend garbage collection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()
    gc.disable()
    # The limit applies to descriptor numbers; a new file gets the least free number.
    highest = max(int(descriptor.name) for descriptor in _DESCRIPTORS.iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        gc.enable()
