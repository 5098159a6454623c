"""JSON of metadata: what it may hold, before nouns are made of it.

Whatever is wrong is a ValueError, so that a decoder has one kind of failure to name its file in.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

_LEAST, _MOST = -(2**63), 2**63 - 1
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


class MalformedJson(ValueError):
    """JSON that is none, or says something else than it should."""


def read_json(data: bytes | str, *, only_finite: bool = True) -> Any:
    """What a text says; if not `only_finite`, a bare NaN or Infinity is a number too.

    Raises:
        ValueError: it is no JSON or no UTF-8, holds a number that is none, text that no file can
            hold, or is nested too deeply.
    """
    try:
        read = json.loads(data, parse_constant=_refuse_constant if only_finite else None)
        # Half of a surrogate pair can only be written as an escape, and cannot be written again.
        if (b"\\ud" if isinstance(data, bytes) else "\\ud") in data.lower():  # type: ignore[operator]
            json.dumps(read, ensure_ascii=False).encode()
    except RecursionError:
        raise MalformedJson("it is nested too deeply") from None
    return read


def read_object(data: bytes | str, *, only_finite: bool = True) -> dict[str, Any]:
    """The object that a text says, as `read_json`.

    Raises:
        ValueError: as `read_json`, or it is no object.
    """
    return as_object(read_json(data, only_finite=only_finite))


def as_object(value: object) -> dict[str, Any]:
    """A value that must be an object."""
    if not isinstance(value, dict):
        raise MalformedJson(f"{_shown(value)} is no object")
    return value


def as_list(value: object) -> list[Any]:
    """A value that must be a list."""
    if not isinstance(value, list):
        raise MalformedJson(f"{_shown(value)} is no list")
    return value


def as_text(value: object) -> str:
    """A value that must be a text."""
    if not isinstance(value, str):
        raise MalformedJson(f"{_shown(value)} is no text")
    return value


def as_whole(value: object) -> int:
    """A value that must be a whole number of 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedJson(f"{_shown(value)} is no whole number")
    if not _LEAST <= value <= _MOST:
        raise MalformedJson(f"a number of {value.bit_length()} bits is too large")
    return value


def as_moment_ms(value: object) -> int:
    """A value that must be milliseconds since the epoch, in the years 1 to 9999.

    No clock shows another time, so it can only be damage.
    """
    moment = as_whole(value)
    if not _FIRST_MS <= moment <= _LAST_MS:
        raise MalformedJson(f"{moment} ms since the epoch is no time in the years 1 to 9999")
    return moment


def _refuse_constant(text: str) -> NoReturn:
    raise MalformedJson(f"{text} is no number")


def _shown(value: object) -> str:
    """A value, cut short; one that refers to much is told by its kind."""
    return f"a {type(value).__name__}" if isinstance(value, dict | list) else repr(value)[:120]
