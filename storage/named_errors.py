"""Errors that a face of a table raises carry the table's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from typing import Any, TypeVar

from lakewright.storage.errors import StorageError

FaceT = TypeVar("FaceT")


@contextmanager
def naming(table: str) -> Iterator[None]:
    """Errors that leave the block carry the name, if they carry none yet."""
    try:
        yield
    except StorageError as error:
        error.table = error.table or table
        raise


def names_errors(face: type[FaceT]) -> type[FaceT]:
    """A class with `table_files`, whose public methods raise errors with the table's name."""
    for name, method in list(vars(face).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(face, name, _naming(method))
    return face


def _naming(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(face: Any, *args: Any, **asked: Any) -> Any:
        with naming(face.table_files.name):
            return method(face, *args, **asked)

    @wraps(method)
    def iterated(face: Any, *args: Any, **asked: Any) -> Iterator[Any]:
        with naming(face.table_files.name):
            yield from method(face, *args, **asked)

    return iterated if isgeneratorfunction(method) else called
