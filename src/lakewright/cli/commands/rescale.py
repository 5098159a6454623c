"""`lakewright rescale`: the rows of a table, or of some partitions, in other buckets."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.rescale import RESCALE

rescale = verb_command(
    RESCALE,
    examples="lakewright rescale shop.orders --buckets 8 --partition dt=2024-01-01 --dry-run",
)
