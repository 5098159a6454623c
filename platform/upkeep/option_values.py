"""Values of a verb's options, from what a person or a program wrote, such as `1h`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, get_origin

from lakewright.platform.declare.durations import duration_ms
from lakewright.platform.declare.partition_keys import InvalidPartitionKeyError, decode_partition
from lakewright.platform.upkeep.health import partition_columns
from lakewright.platform.upkeep.rewrites import Partitions
from lakewright.platform.upkeep.verb import OptionField
from lakewright.storage import Table
from lakewright.storage.errors import InvalidOption, InvalidRequestError
from lakewright.storage.spec.option_values import parse_size


def option_value(option: OptionField, value: Any, table: Table) -> object:
    """A written value as the verb takes it.

    Raises:
        InvalidRequestError: a text is not a duration, not a size, not one of the choices, or the
            key of no partition.
    """
    kind = option.kind
    if option.is_size and isinstance(value, str):
        try:
            return parse_size(value)
        except InvalidOption as err:
            raise InvalidRequestError(f"{option.written_name}: {err.message}") from None
    if option.is_duration:
        try:
            return duration_ms(value)
        except InvalidRequestError as err:
            raise InvalidRequestError(f"{option.written_name}: {err.message}") from None
    if kind == Partitions:
        return _partitions(table, value, option.written_name)
    if get_origin(kind) is tuple:
        return tuple(value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            choices = ", ".join(str(each.value) for each in kind)
            raise InvalidRequestError(
                f"{option.written_name}: {value!r} is none of {choices}"
            ) from None
    return value


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
