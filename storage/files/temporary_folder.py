"""A folder on the local disk that lives as long as a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from lakewright.storage.errors import UnavailableError


@contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[str]:
    """A new folder, which is deleted with everything in it at the end of the `with` block.

    Raises:
        UnavailableError: it cannot be made.
    """
    try:
        made = TemporaryDirectory(prefix="lakewright-", dir=parent)
    except OSError as error:
        raise UnavailableError(
            f"no temporary folder can be made in {parent or 'the folder of temporary files'}: "
            f"{error}; free some space, or point TMPDIR at another disk"
        ) from error
    with made as folder:
        yield folder
