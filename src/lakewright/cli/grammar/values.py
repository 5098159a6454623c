"""Values of options as people write them: lists of names, times, ages, partitions.

Each function refuses an invalid text and says why; Click adds the option's name. Help needs none
of what they read with, so they import it when they are called.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeVar

from click import BadParameter

ValueT = TypeVar("ValueT")


def parsed(read: Callable[[str], ValueT]) -> Callable[[str], ValueT]:
    """What a function reads of a text; Click tells what it refuses."""

    def value(text: str) -> ValueT:
        from lakewright.storage.errors import InvalidRequestError

        try:
            return read(text)
        except InvalidRequestError as error:
            raise BadParameter(error.message) from None

    return value


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
    from lakewright.storage.spec.written_values import parse_names

    return parsed(parse_names)(text)


def bounds(text: str) -> tuple[str, str]:
    """`A,B`: two values, such as bounds."""
    first, comma, last = text.partition(",")
    if not comma or not first.strip() or not last.strip() or "," in last:
        raise BadParameter(f"{text!r} is not of the form A,B")
    return first.strip(), last.strip()


def times(text: str) -> tuple[dt.datetime, dt.datetime]:
    """`T1,T2`: two moments."""
    first, last = bounds(text)
    from lakewright.storage.spec.written_values import moment

    return parsed(moment)(first), parsed(moment)(last)


def partition(text: str) -> dict[str, object]:
    """`K=V,K2=V2`, or a JSON object."""
    from lakewright.storage.spec.partition_words import read_partition

    return parsed(read_partition)(text)


def time_ms(text: str) -> int:
    """An ISO time; UTC without an offset."""
    from lakewright.storage.spec.written_values import moment_ms

    return parsed(moment_ms)(text)


def age_ms(text: str) -> int:
    """A duration with its unit, such as 30min or 7d."""
    from lakewright.storage.spec.durations import duration_ms

    return parsed(duration_ms)(text)
