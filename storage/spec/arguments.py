"""Arguments of calls: their types are checked before anything is read or written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import SupportsIndex, TypeVar

from lakewright.storage.errors import InvalidRequestError

ValueT = TypeVar("ValueT")
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


def place_argument(value: object, name: str) -> str:
    """An argument that must be a path or a URI.

    Raises:
        InvalidRequestError: the value is no text, or holds a character that no path can.
    """
    place = text_argument(value, name)
    if "\0" in place:
        raise InvalidRequestError(
            f"{name} is {place!r:.100}, and no path holds a NUL; leave it out"
        )
    return place


def mapping_argument(value: object, name: str) -> Mapping[str, object]:
    """An argument that must name values, as a partition does.

    Raises:
        InvalidRequestError: the value is of another type, or names by something else than text.
    """
    if not isinstance(value, Mapping):
        raise InvalidRequestError(
            f"{name} is {value!r:.100}, which names no values; give a dict, such as "
            "{'dt': '2024-01-01'}"
        )
    for key in value:
        text_argument(key, f"a name in {name}")
    return value


def list_argument(
    value: object, name: str, each: Callable[[object, str], ValueT]
) -> tuple[ValueT, ...]:
    """An argument that must be several values, of which each is one such as `each` wants.

    Raises:
        InvalidRequestError: the value is no list, as a text and a mapping are none, or one in it is
            wrong.
    """
    if isinstance(value, str):
        # Python takes it for a list of letters.
        text = f"{value!r:.100}"
        raise InvalidRequestError(f"{name} is the text {text}; give a list: [{text}]")
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise InvalidRequestError(f"{name} is {value!r:.100}, which is not a list; give a list")
    return tuple(each(one, f"{name}[{at}]") for at, one in enumerate(value))


def list_or_none(
    value: object, name: str, each: Callable[[object, str], ValueT]
) -> tuple[ValueT, ...] | None:
    """Several values as `list_argument`, or None where the argument is not given."""
    return None if value is None else list_argument(value, name, each)


def listed_names(value: object, name: str) -> tuple[str, ...]:
    """Several names, such as those of columns.

    Raises:
        InvalidRequestError: the value is no list of texts.
    """
    return list_argument(value, name, text_argument)


def repeated(names: Sequence[str]) -> str:
    """The names that stand more than once, for a message."""
    counts = Counter(names)
    return ", ".join(name for name, count in counts.items() if count > 1)


def listed_partitions(value: object, name: str) -> tuple[Mapping[str, object], ...] | None:
    """Several partitions by the values of their keys, or None where the argument is not given.

    Raises:
        InvalidRequestError: the value is no list of mappings.
    """
    return list_or_none(value, name, mapping_argument)


def _index(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return index(value)
    except TypeError:
        # An array of numpy is no number, unless it holds a single one.
        return None
