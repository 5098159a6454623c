"""Compaction: a job that rewrites what is worth it.

It leases the buckets it rewrites, leaves those that others work on, and gives up what a writer
wants. Rows of a table that postpones its buckets get theirs first, which is what readers wait
for. If readers wait for rows of level 0, as with deletion vectors and first-row, any plan takes
those along, however few they are.
"""

from lakewright.jobs.upkeep import UpkeepJob
from lakewright.platform.upkeep.compact import CompactOptions
from lakewright.platform.upkeep.verbs import compaction_of

VERB = "compact"
COMPACT_JOB = UpkeepJob(
    name=VERB,
    description="Rewrite small files of {table} into few large ones.",
    verbs=lambda table, _: compaction_of(table),
    declared=lambda table: CompactOptions.declared(table.maintenance.compaction),
)
