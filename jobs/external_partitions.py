"""Jobs that take over folders of other systems, as the run config says, and that repair them."""

from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.upkeep.external_partitions import (
    ADD_PARTITIONS,
    REPAIR_PARTITIONS,
    AddPartitionsOptions,
    RepairOptions,
)

ADD_PARTITIONS_JOB = UpkeepJob(
    name="add_partitions",
    description="Take over folders of files as partitions of {table}, as the run config says.",
    verbs=lambda *_: (ADD_PARTITIONS,),
    declared=lambda _: AddPartitionsOptions(),
    needs_spark=False,
)
REPAIR_PARTITIONS_JOB = UpkeepJob(
    name="repair_partitions",
    description="Compare {table} with the folders it took over, and add or drop what differs.",
    verbs=lambda *_: (REPAIR_PARTITIONS,),
    declared=lambda _: RepairOptions(),
    needs_spark=False,
)
