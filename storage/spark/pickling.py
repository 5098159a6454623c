"""Pickles values for tasks and their errors, including local functions."""

from __future__ import annotations

import base64
import re
from typing import Any

from pyspark import cloudpickle

from lakewright.storage.errors import StorageError

_MARK = "lakewright error "
_MARKED = re.compile(re.escape(_MARK) + r"([A-Za-z0-9+/=]+)")


def dumps(value: object) -> bytes:
    """A value as bytes."""
    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data


def loads(data: bytes) -> Any:
    """The inverse of `dumps`; only for bytes from this program's own tasks."""
    return cloudpickle.loads(data)


def as_text(error: StorageError) -> str:
    """An error as a text that `error_in` finds in what Spark says of a failed task."""
    return f"{error.message}\n{_MARK}{base64.b64encode(dumps(error)).decode()}"


def error_in(text: str) -> StorageError | None:
    """The error of a task that failed with such a text; None if it failed otherwise."""
    found = _MARKED.search(text)
    return None if found is None else loads(base64.b64decode(found[1]))
