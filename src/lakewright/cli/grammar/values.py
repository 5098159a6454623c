"""Values of options as people write them: lists of names, times, ages, partitions.

Each function refuses an invalid text and says why; Click adds the option's name.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from click import BadParameter

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def number_from(minimum: int) -> Callable[[str], int]:
    """Whole numbers from a minimum on."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise BadParameter(f"{text!r} is not a whole number from {minimum} on")
        return value

    return number


def names(text: str) -> list[str]:
    """`A,B`: different names."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise BadParameter(f"{text!r} holds an empty name; write A,B")
    if len(set(found)) != len(found):
        raise BadParameter(f"{text!r} names a column twice")
    return found


def names_or_none(text: str) -> list[str]:
    """`A,B`: different names; an empty text holds none."""
    return names(text) if text.strip() else []


def bounds(text: str) -> tuple[str, str]:
    """`A,B`: two values, such as bounds."""
    first, comma, last = text.partition(",")
    if not comma or not first.strip() or not last.strip() or "," in last:
        raise BadParameter(f"{text!r} is not of the form A,B")
    return first.strip(), last.strip()


def times(text: str) -> tuple[dt.datetime, dt.datetime]:
    """`T1,T2`: two moments."""
    first, last = bounds(text)
    return _moment(first), _moment(last)


def moment_ms(text: str) -> int:
    """An ISO time; UTC without an offset."""
    return (_moment(text) - _EPOCH) // dt.timedelta(milliseconds=1)


def _moment(text: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise BadParameter(
            f"{text!r} is not a time such as 2024-01-31T13:45:00 or 2024-01-31T13:45:00+01:00"
        ) from None
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment


def partition(text: str) -> dict[str, object]:
    """`K=V,K2=V2`, or a JSON object."""
    from lakewright.storage.errors import InvalidRequestError
    from lakewright.storage.spec.partition_words import read_partition

    try:
        return read_partition(text)
    except InvalidRequestError as error:
        raise BadParameter(error.message) from None


def size_bytes(text: str) -> int:
    """A number of bytes, or a size with its unit, such as 64 MB."""
    from lakewright.storage.errors import InvalidOption
    from lakewright.storage.spec.option_values import parse_size

    try:
        size = parse_size(text)
    except InvalidOption:
        raise BadParameter(f"{text!r} is not a size; write 100000 or 64 MB") from None
    if size < 1:
        raise BadParameter(f"{text!r} is no byte; the least is 1")
    return size


def age_ms(text: str) -> int:
    """A duration with its unit, such as 30min or 7d."""
    from lakewright.platform.declare.durations import duration_ms
    from lakewright.storage.errors import InvalidRequestError

    try:
        return duration_ms(text)
    except InvalidRequestError as error:
        raise BadParameter(error.message) from None
