"""Pickles values for tasks and their errors, including local functions."""

from __future__ import annotations

import base64
import re
from typing import Any

from pyspark import cloudpickle

from lakewright.storage import errors
from lakewright.storage.errors import StorageError

_MARK = "lakewright error "
_MARKED = re.compile(re.escape(_MARK) + r"([A-Za-z0-9+/=]+)")
# As Python ends the traceback of an error that left a process of Spark's.
_TOLD = re.compile(rf"^{re.escape(errors.__name__)}\.(\w+): (.*)$", re.MULTILINE)


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
    if (marked := _MARKED.search(text)) is not None:
        found: StorageError = loads(base64.b64decode(marked[1]))
        return found
    for name, message in reversed(_TOLD.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, StorageError):
            return kind(message)
    return None


def error_of(error: BaseException) -> StorageError | None:
    """What went wrong in a process of Spark, as the error that was raised there.

    Spark hands such errors on as texts: without their details, and those of others are None.
    """
    return error if isinstance(error, StorageError) else error_in(str(error))
