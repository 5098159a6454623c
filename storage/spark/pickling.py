"""Pickles values for tasks and their errors, including local functions."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle


def dumps(value: object) -> bytes:
    """A value as bytes."""
    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data


def loads(data: bytes) -> Any:
    """The inverse of `dumps`; only for bytes from this program's own tasks."""
    return cloudpickle.loads(data)
