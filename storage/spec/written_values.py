"""Values as people write them in commands and run config: moments, names, sizes."""

from __future__ import annotations

import datetime as dt

from lakewright.storage.errors import InvalidOption, InvalidRequestError
from lakewright.storage.spec.arguments import repeated
from lakewright.storage.spec.option_values import parse_size

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def moment(text: str) -> dt.datetime:
    """An ISO time; UTC without an offset.

    Raises:
        InvalidRequestError: it is no such time.
    """
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequestError(
            f"{text!r} is not a time such as 2024-01-31T13:45:00 or 2024-01-31T13:45:00+01:00"
        ) from None
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found


def moment_ms(text: str) -> int:
    """Milliseconds since 1970 of an ISO time, as `moment` reads it."""
    return (moment(text) - _EPOCH) // dt.timedelta(milliseconds=1)


def parse_names(text: str) -> list[str]:
    """`A,B`: different names."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InvalidRequestError(f"{text!r} holds an empty name; write A,B")
    if len(set(names)) != len(names):
        raise InvalidRequestError(f"{text!r} names {repeated(names)} more than once; name it once")
    return names


def parse_bytes(text: str) -> int:
    """A number of bytes, or a size with its unit, such as 64 MB."""
    try:
        size = parse_size(text)
    except InvalidOption:
        raise InvalidRequestError(f"{text!r} is not a size; write 100000 or 64 MB") from None
    if size < 1:
        raise InvalidRequestError(f"{text!r} is no byte; the least is 1")
    return size
