"""Options of the expiry of partitions, read when they are set and when partitions expire.

An invalid value of another client makes the expiry fail, and no other use of the table.
"""

from __future__ import annotations

from enum import Enum

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.known_options import Heading, Option, optional
from lakewright.storage.spec.option_reader import OptionReader
from lakewright.storage.spec.option_values import DURATION, TEXT, TEXT_OR_NONE, integer
from lakewright.storage.spec.partition_time import (
    FORMATTER_OPTION,
    PATTERN_OPTION,
    PartitionTimes,
)
from lakewright.storage.spec.schema import TableSchema

TIME_OPTION = "partition.expiration-time"
STRATEGY_OPTION = "partition.expiration-strategy"


class ExpiryStrategy(Enum):
    """What the age of a partition is counted from.

    `VALUES_TIME` is the time that its values stand for, `UPDATE_TIME` the creation of its newest
    file, which a compaction makes young again.
    """

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


class PartitionExpiry:
    """When partitions expire; `expiration_ms` is None if the table does not say.

    Raises:
        InvalidOption: a value is invalid, or a strategy is not one of Paimon's.
    """

    _expiry = Heading("which partitions expire, when they are asked to")
    expiration_ms = optional(Option(TIME_OPTION, DURATION))
    _strategy = Option(STRATEGY_OPTION, TEXT, "values-time")
    max_num = Option("partition.expiration-max-num", integer(1), "100")
    batch_size = optional(Option("partition.expiration-batch-size", integer(1)))
    _formatter = Option(FORMATTER_OPTION, TEXT_OR_NONE)
    _pattern = Option(PATTERN_OPTION, TEXT_OR_NONE)

    def __init__(self, schema: TableSchema, table: str) -> None:
        OptionReader(schema.options, table).read_into(self, schema)
        self.strategy = expiry_strategy(self._strategy)
        self.times = PartitionTimes(self._pattern, self._formatter)


def check_partition_times(
    schema: TableSchema, *, table: str, before: TableSchema | None = None
) -> None:
    """Check that the options by which partitions are given times give one to some partition.

    A formatter alone writes partitions of streams too, so it is judged if partitions are to expire.
    What another version of the schema has too is not judged.

    Raises:
        InvalidOption: no partition would ever have a time; names the pattern and the keys.
    """
    if not schema.partition_keys or (before is not None and _said(before) == _said(schema)):
        return
    expiry = PartitionExpiry(schema, table)
    by_values = expiry.strategy is ExpiryStrategy.VALUES_TIME and expiry.expiration_ms is not None
    if by_values or expiry.times.pattern is not None:
        expiry.times.check_gives_times(schema.partition_fields, table=table)


def _said(schema: TableSchema) -> tuple[object, ...]:
    """What decides the times of partitions."""
    options = (TIME_OPTION, STRATEGY_OPTION, PATTERN_OPTION, FORMATTER_OPTION)
    return (*(schema.options.get(option) for option in options), schema.partition_keys)


def expiry_strategy(name: str | ExpiryStrategy) -> ExpiryStrategy:
    """The strategy of a name.

    Raises:
        InvalidOption: there is none of that name.
    """
    try:
        return ExpiryStrategy(name)
    except ValueError:
        names = ", ".join(each.value for each in ExpiryStrategy)
        raise InvalidOption(
            f"{STRATEGY_OPTION}={name!r} is not one of {names}", option=STRATEGY_OPTION
        ) from None
