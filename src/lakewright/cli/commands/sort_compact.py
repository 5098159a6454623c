"""`lakewright sort-compact`: an append table's rows in an order that lets filters skip files."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.sort_compact import SORT_COMPACT

sort_compact = verb_command(
    SORT_COMPACT,
    examples="lakewright sort-compact nyc.flights --by carrier,distance --order zorder --dry-run",
)
