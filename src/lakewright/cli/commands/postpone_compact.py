"""`lakewright postpone-compact`: postponed rows into buckets, where readers see them."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.postpone_compact import POSTPONE_COMPACT

postpone_compact = verb_command(
    POSTPONE_COMPACT,
    examples="""
lakewright postpone-compact shop.orders
lakewright postpone-compact shop.orders --partition dt=2024-01-01 --dry-run
""",
)
