"""`lakewright repair-partitions`: a table as the folders are that it took over."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.external_partitions import REPAIR_PARTITIONS

repair_partitions = verb_command(
    REPAIR_PARTITIONS,
    arguments={"folder": "[FOLDER]"},
    notes="""
Without FOLDER, all folders that the table took over are compared. The report has the files that
the table lacks, those that are gone, and folders that are left alone, with the reasons: a writer
is at work, a file was written over, or the partition has files of the table's own.
""",
    examples="""
lakewright repair-partitions shop.orders --dry-run
lakewright repair-partitions shop.orders --mode sync
""",
)
