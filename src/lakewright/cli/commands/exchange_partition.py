"""`lakewright exchange-partition`: partitions move from another table to this one."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.exchange_partition import EXCHANGE_PARTITION

exchange_partition = verb_command(
    EXCHANGE_PARTITION,
    flags={"source": "--from"},
    notes="Between the two commits readers see the rows in both tables; call again after a crash.",
    examples="""
lakewright exchange-partition shop.orders --from shop.orders_staged --partition dt=2024-01-01
""",
)
