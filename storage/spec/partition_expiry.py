"""Options of the expiry of partitions, read when partitions expire and at no other time.

An invalid value makes the expiry fail, and no other use of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakewright.storage.errors import InvalidOption
from lakewright.storage.spec.option_values import OptionReader, trimmed
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpiry:
    """When partitions expire; `expiration_ms` is None if the table does not say."""

    expiration_ms: int | None
    strategy: ExpiryStrategy
    times: PartitionTimes
    max_num: int
    batch_size: int | None


def read_partition_expiry(schema: TableSchema, *, table: str) -> PartitionExpiry:
    """The options of a schema about the expiry of partitions.

    Raises:
        InvalidOption: a value is invalid, or a strategy is not one of Paimon's.
    """
    reader = OptionReader(trimmed(schema.options), table, bare_numbers=True)
    return PartitionExpiry(
        expiration_ms=reader.optional_duration_ms(TIME_OPTION),
        strategy=expiry_strategy(reader.text(STRATEGY_OPTION)),
        times=PartitionTimes(
            pattern=reader.text(PATTERN_OPTION) or None,
            formatter=reader.text(FORMATTER_OPTION) or None,
        ),
        max_num=reader.integer("partition.expiration-max-num", minimum=1),
        batch_size=reader.optional_integer("partition.expiration-batch-size", minimum=1),
    )


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
