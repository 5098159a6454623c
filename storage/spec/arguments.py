"""Arguments of calls: their types are checked before anything is read or written."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from lakewright.storage.errors import InvalidRequestError

_LEAST, _MOST = -(2**63), 2**63 - 1


def whole_number(value: object, name: str, *, minimum: int = _LEAST) -> int:
    """An argument that must be a whole number of 64 bits; integers of numpy become plain ones.

    Raises:
        InvalidRequestError: the value is of another type, as True, 1.0 and "1" are, or too small
            or large.
    """
    number = _index(value)
    if number is None:
        raise InvalidRequestError(
            f"{name} is {value!r:.100}, which is not a whole number; give one"
        )
    if not minimum <= number <= _MOST:
        shown = number if number.bit_length() <= 64 else f"a number of {number.bit_length()} bits"
        raise InvalidRequestError(f"{name} is {shown}; give a number from {minimum} to {_MOST}")
    return number


def whole_or_none(value: object, name: str, *, minimum: int = _LEAST) -> int | None:
    """A whole number as `whole_number`, or None where the argument is not given."""
    return None if value is None else whole_number(value, name, minimum=minimum)


def text_argument(value: object, name: str) -> str:
    """An argument that must be a text, in characters that every file can hold.

    Raises:
        InvalidRequestError: the value is of another type, or holds half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} is {value!r:.100}, which is not text; give text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(
            f"{name} is {value!r:.100}, which holds half of a surrogate pair; leave it out"
        ) from None
    return value


def _index(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return index(value)
    except TypeError:
        # An array of numpy is no number, unless it holds a single one.
        return None
