"""`lakewright expire-partitions`: partitions past their time leave the table."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.expire_partitions import EXPIRE_PARTITIONS

expire_partitions = verb_command(
    EXPIRE_PARTITIONS,
    notes="What is not given, the table's options give: partition.expiration-time and its like.",
    examples="""
lakewright expire-partitions nyc.flights --older-than 90d --dry-run
lakewright expire-partitions shop.visits --pattern '$day $hour:00:00' --spare-tagged
""",
)
