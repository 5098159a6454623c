"""`lakewright compact`: fewer, larger files with the same rows."""

from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.compact import COMPACT

compact = verb_command(
    COMPACT,
    examples="""
lakewright compact nyc.flights --dry-run
lakewright compact nyc.flights --partition dt=2013-12-01 --full
lakewright compact nyc.flights --full --save-plan plan.json
lakewright compact nyc.flights --plan plan.json --engine spark
""",
)
