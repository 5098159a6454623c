"""Optional packages: a missing one is told by the extra that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewright.storage.errors import UnsupportedError


@contextmanager
def from_extra(extra: str, what: str) -> Iterator[None]:
    """Imports inside the block are of packages that the extra installs, and `what` needs them.

    Raises:
        UnsupportedError: a package is not installed; the message says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "lakewright":
            raise
        raise UnsupportedError(
            f"{what} needs {package}, which is not installed: pip install 'lakewright[{extra}]'"
        ) from error
