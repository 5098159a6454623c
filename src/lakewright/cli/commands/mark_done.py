"""`lakewright mark-done`: partitions get a success file."""

from lakewright.cli.grammar.options import WHERE_NOTES
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.platform.upkeep.mark_done import MARK_DONE

mark_done = verb_command(
    MARK_DONE,
    notes="EXPR may look at partition columns only.\n" + WHERE_NOTES,
    examples="""
lakewright mark-done nyc.flights --partition dt=2013-12-24
lakewright mark-done nyc.flights --where "dt = '2013-12-24'" --then my_project.events:announce
""",
)
