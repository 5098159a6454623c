"""`lakewright rename-partition`: the rows of a partition in another one."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.rename_partition import RENAME_PARTITION

rename_partition = verb_command(
    RENAME_PARTITION,
    flags={"to": "--to"},
    examples="""
lakewright rename-partition shop.visits --partition day=2024-13-01 --to day=2024-01-13 --dry-run
""",
)
