"""Exchanging partitions: a job that moves those of its run config from another table."""

from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.upkeep.exchange_partition import (
    EXCHANGE_PARTITION,
    ExchangePartitionOptions,
)

EXCHANGE_PARTITION_JOB = UpkeepJob(
    name="exchange_partition",
    description="Move partitions of another table to {table}, as the run config says.",
    verbs=lambda *_: (EXCHANGE_PARTITION,),
    declared=lambda _: ExchangePartitionOptions(),
    needs_spark=False,
)
