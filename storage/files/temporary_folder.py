"""A folder on the local disk that lives as long as a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory


@contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[str]:
    """A new folder, which is deleted with everything in it at the end of the `with` block."""
    with TemporaryDirectory(prefix="lakewright-", dir=parent) as folder:
        yield folder
