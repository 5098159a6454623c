"""Marking partitions as done: a job for those of its run config; each gets an observation."""

from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.upkeep.mark_done import MARK_DONE, MarkDoneOptions

MARK_DONE_JOB = UpkeepJob(
    name="mark_done",
    description="Mark partitions of {table} as done, as the run config says.",
    verbs=lambda *_: (MARK_DONE,),
    declared=lambda _: MarkDoneOptions(),
    needs_spark=False,
)
