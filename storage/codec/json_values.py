"""Checked values of metadata JSON, before they become nouns.

Each failure is a ValueError: a decoder catches one type and adds the file's name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from lakewright.storage.errors import CorruptionError, InvalidRequestError

_LEAST, _MOST = -(2**63), 2**63 - 1
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


class MalformedJson(ValueError):
    """A text that is not JSON, or holds a value of another type than expected."""


def read_json(data: bytes | str, *, only_finite: bool = True) -> Any:
    """Parse a JSON text; if not `only_finite`, a bare NaN or Infinity is a number too.

    Raises:
        ValueError: the text is not JSON or not UTF-8, is nested too deeply, or holds NaN, an
            infinity or half of a surrogate pair.
    """
    try:
        read = json.loads(data, parse_constant=_refuse_constant if only_finite else None)
        # Only an escape can write half of a surrogate pair; such a text cannot be encoded again.
        if (b"\\ud" if isinstance(data, bytes) else "\\ud") in data.lower():  # type: ignore[operator]
            json.dumps(read, ensure_ascii=False).encode()
    except RecursionError:
        raise MalformedJson("it is nested too deeply") from None
    return read


def read_object(data: bytes | str, *, only_finite: bool = True) -> dict[str, Any]:
    """Parse a JSON text that must be an object.

    Raises:
        ValueError: as `read_json`, or the text is not an object.
    """
    return as_object(read_json(data, only_finite=only_finite))


def as_object(value: object) -> dict[str, Any]:
    """A value that must be an object."""
    if not isinstance(value, dict):
        raise MalformedJson(f"{_shown(value)} is not an object")
    return value


def as_list(value: object) -> list[Any]:
    """A value that must be a list."""
    if not isinstance(value, list):
        raise MalformedJson(f"{_shown(value)} is not a list")
    return value


def as_text(value: object) -> str:
    """A value that must be a text."""
    if not isinstance(value, str):
        raise MalformedJson(f"{_shown(value)} is not text")
    return value


def as_whole(value: object) -> int:
    """A value that must be a whole number of 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedJson(f"{_shown(value)} is not a whole number")
    if not _LEAST <= value <= _MOST:
        raise MalformedJson(f"a number of {value.bit_length()} bits is too large")
    return value


def as_moment_ms(value: object) -> int:
    """A value that must be milliseconds since the epoch, in the years 1 to 9999.

    Any other number is damage, since no clock shows such a time.
    """
    moment = as_whole(value)
    if not _FIRST_MS <= moment <= _LAST_MS:
        raise MalformedJson(f"{moment} ms since the epoch is not a time in the years 1 to 9999")
    return moment


def check_readable(decode: Callable[[bytes], object], data: bytes, what: str) -> bytes:
    """Return the bytes of a new file, if its own decoder accepts them.

    Raises:
        InvalidRequestError: no reader would accept the file.
    """
    try:
        decode(data)
    except CorruptionError as error:
        raise InvalidRequestError(f"{what} was not written: {error.message}") from error
    return data


def _refuse_constant(text: str) -> NoReturn:
    raise MalformedJson(f"{text} is not a number")


def _shown(value: object) -> str:
    """A value for an error message, cut short; lists and objects by their type only."""
    return f"a {type(value).__name__}" if isinstance(value, dict | list) else repr(value)[:120]
