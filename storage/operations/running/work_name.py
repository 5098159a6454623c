"""What this thread works on, for those who watch an engine: a verb and a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_NOW: ContextVar[str | None] = ContextVar("work", default=None)


@contextmanager
def working_on(verb: str, table: str) -> Iterator[str]:
    """The name of the work of a block, `lakewright compact db.orders`; that of outer work stays."""
    name = _NOW.get() or f"lakewright {verb.replace('_', ' ')} {table}"
    token = _NOW.set(name)
    try:
        yield name
    finally:
        _NOW.reset(token)


def work_name(otherwise: str) -> str:
    """The name of the work that this thread does."""
    return _NOW.get() or otherwise
