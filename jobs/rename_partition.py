"""Renaming a partition: a job that renames the one of its run config."""

from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.upkeep.rename_partition import RENAME_PARTITION, RenamePartitionOptions

RENAME_PARTITION_JOB = UpkeepJob(
    name="rename_partition",
    description="Give the rows of a partition of {table} other values, as the run config says.",
    verbs=lambda *_: (RENAME_PARTITION,),
    declared=lambda _: RenamePartitionOptions(),
)
