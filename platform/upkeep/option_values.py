"""Values of a verb's options, from what a person or a program wrote, such as `1h`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, get_args, get_origin

from lakewright.platform.declare.durations import duration_ms
from lakewright.platform.declare.partition_keys import InvalidPartitionKeyError, decode_partition
from lakewright.platform.upkeep.health import partition_columns
from lakewright.platform.upkeep.rewrites import Partitions
from lakewright.platform.upkeep.verb import OptionField
from lakewright.storage import Table
from lakewright.storage.errors import InvalidOption, InvalidRequestError
from lakewright.storage.spec.arguments import (
    list_argument,
    listed_names,
    text_argument,
    whole_number,
)
from lakewright.storage.spec.option_values import parse_size


def option_value(option: OptionField, value: Any, table: Table) -> object:
    """A written value as the verb takes it.

    Raises:
        InvalidRequestError: the value is of another type than the option, or a text is not a
            duration, not a size, not one of the choices, or the key of no partition.
    """
    kind, name = option.kind, option.written_name
    if option.is_size and isinstance(value, str):
        try:
            return parse_size(value)
        except InvalidOption as err:
            raise InvalidRequestError(f"{name}: {err.message}") from None
    if option.is_duration:
        try:
            return duration_ms(value)
        except InvalidRequestError as err:
            raise InvalidRequestError(f"{name}: {err.message}") from None
    if kind == Partitions:
        return _partitions(table, listed_names(value, name), name)
    if get_origin(kind) is tuple:
        return list_argument(value, name, _CHECKS[get_args(kind)[0]])
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            choices = ", ".join(str(each.value) for each in kind)
            raise InvalidRequestError(f"{name}: {value!r} is none of {choices}") from None
    return _CHECKS[kind](value, name)


def _yes_or_no(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{name} is {value!r:.100}; give true or false")
    return value


# How a value of each type is checked that options have.
_CHECKS: Mapping[Any, Callable[[object, str], object]] = {
    bool: _yes_or_no,
    int: whole_number,
    str: text_argument,
}


def _partitions(table: Table, keys: Sequence[str], name: str) -> Partitions:
    columns = partition_columns(table)
    if not columns:
        raise InvalidRequestError(f"{table.name} has no partitions; leave `{name}` out")
    if not keys:
        raise InvalidRequestError(f"{name} is an empty list; leave it out for all partitions")
    try:
        return tuple(decode_partition(key, columns) for key in keys)
    except InvalidPartitionKeyError as err:
        raise InvalidRequestError(str(err), table=table.name) from err
