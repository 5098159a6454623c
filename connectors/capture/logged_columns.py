"""Columns that rows in the log had when they were written, which may not be those of now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewright.storage.errors import InvalidRequestError


@contextmanager
def or_anew(anew: str, *, logged: bool) -> Iterator[None]:
    """Say of a check of `logged` columns that the table may fit now; then only `anew` helps."""
    try:
        yield
    except InvalidRequestError as error:
        if not logged:
            raise
        raise InvalidRequestError(
            f"{error.message}; or, if the table has these columns now and had others when rows in "
            f"the log were written, {anew}",
            **error.details,
        ) from error
