"""Dropping partitions: a job that drops those of its run config; nothing requests it by itself."""

from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.upkeep.drop_partitions import DROP_PARTITIONS, DropPartitionsOptions

DROP_PARTITIONS_JOB = UpkeepJob(
    name="drop_partitions",
    description="Drop partitions of {table}, as the run config says.",
    verbs=lambda *_: (DROP_PARTITIONS,),
    declared=lambda _: DropPartitionsOptions(),
    needs_spark=False,
)
