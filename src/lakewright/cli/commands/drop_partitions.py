"""`lakewright drop-partitions`: whole partitions leave the table in one commit."""

from lakewright.cli.grammar.options import WHERE_NOTES
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.drop_partitions import DROP_PARTITIONS

drop_partitions = verb_command(
    DROP_PARTITIONS,
    notes="EXPR may look at partition columns only.\n" + WHERE_NOTES,
    examples="""
lakewright drop-partitions nyc.flights --partition dt=2013-01-01 --dry-run
lakewright drop-partitions nyc.flights --where "dt < '2013-02-01'"
""",
)
